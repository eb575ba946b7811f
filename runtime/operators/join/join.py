"""Regular join of two changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema, with_row_kinds, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.messages.ledger import DONE, EXPIRED_ROWS, RETRACTED, of_side
from sqlstream.runtime.kernels.accumulate import add_into
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.group import group_repeated
from sqlstream.runtime.kernels.take import take_batch
from sqlstream.runtime.operators.deferred_rows import Rows, RowsOfBatch, RowsOfState
from sqlstream.runtime.operators.join.joined import JoinedRows, complete_rows, portions
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.runtime.update_pairs import derived_kinds, filtered_kinds, portion_kinds
from sqlstream.specs.join import JoinKind, JoinSpec

_LEFT, _RIGHT = 0, 1
_NONE: Array = np.empty(0, dtype=np.int64)
_NO_ROW = -1


@dataclass(frozen=True)
class _Matches:
    """Pair i is row `mine[i]` of a batch (None: row i) and the kept row `row_ids[i]`; with `places`, `row_ids[places[i]]`: many
    rows of the batch match few others."""

    mine: Array | None
    row_ids: Array
    places: Array | None = None

    @property
    def count(self) -> int:
        return len(self.row_ids if self.places is None else self.places)

    @property
    def theirs(self) -> Array:
        """The kept row of each pair."""
        return self.row_ids if self.places is None else self.row_ids[self.places]


def _matches_of_groups(groups: Array, matched: Array, row_ids: Array, count: int) -> _Matches:
    """The pairs of rows in `count` groups, of which those that are `matched` have one kept row each."""
    if len(matched) == count:
        return _Matches(None, row_ids, groups.astype(np.int32))
    places = np.full(count, _NO_ROW, dtype=np.int32)
    places[matched] = np.arange(len(matched))
    place_of = places.take(groups)
    mine = np.flatnonzero(place_of != _NO_ROW)
    return _Matches(mine, row_ids, place_of.take(mine))


class Join(Operator[JoinSpec]):
    """Emits the pairs of a row with the matching rows of the other side, and retracts them when the row is retracted.

    A row that is output without a match too (or, for SEMI, only with one) comes and goes as its number of matches changes.
    State: all rows of both sides with their counts and, of such a side, the number of matches per row; dropped when retracted
    or `*_ttl_ms` after they arrived. When a side has ended, rows of the other that come after that are not kept: nothing will
    ask for them. A batch is matched as a whole: the other side does not change meanwhile.
    """

    def __init__(self, spec: JoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._kind = spec.kind
        self._counts_matches = (spec.kind.is_left_only or spec.kind.pads(_LEFT), spec.kind.pads(_RIGHT))
        self._keys = (spec.left_keys, spec.right_keys)
        self._sides = (
            self._declare("left", _LEFT, spec.left_ttl_ms),
            self._declare("right", _RIGHT, spec.right_ttl_ms),
        )
        self._joined = JoinedRows(spec.condition, context)
        # Whether rows of a side are kept: as long as the other one goes on.
        self._keeps = [True, True]
        # Only pairs go out, each once and for good.
        self._is_plain = spec.kind is JoinKind.INNER and context.output_mode is ChangelogMode.INSERT_ONLY

    def _declare(self, name: str, side: int, ttl_ms: int) -> KeyedRows:
        table = self.context.state.add(
            KeyedRows(
                name,
                to_arrow_schema(self.context.input_schemas[side]),
                self._keys[side],
                self.context.state.scope,
                is_retracting=not self.context.input_modes[side].is_insert_only,
                counts_matches=self._counts_matches[side],
                ttl_ms=ttl_ms,
            )
        )
        table.on_expired = partial(self.context.count, of_side(EXPIRED_ROWS, side))
        return table

    def held_by_side(self) -> tuple[int, int] | None:
        left, right = self._sides
        return left.held, right.held

    def on_end_of_input(self, input_index: int, output: Output) -> None:
        self._keeps[1 - input_index] = False

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        for portion, matches in self._portions(batch, input_index):
            self._join(portion, matches, input_index, output)

    def _portions(self, batch: pa.RecordBatch, input_index: int) -> Iterator[tuple[pa.RecordBatch, _Matches]]:
        """Parts of the batch that make about PAIRS_MAX pairs each, because many rows may match many others."""
        keys = [batch.column(k) for k in self._keys[input_index]]
        other = self._sides[1 - input_index]
        repeated = group_repeated(keys)
        if repeated is None:
            found = other.find(keys, batch.num_rows)
            counts = other.match_counts(found)
        else:
            groups, first_rows = repeated
            found = other.find([key.take(pa.array(first_rows)) for key in keys], len(first_rows))
            counts = other.match_counts(found)
            if counts.max() <= 1:
                yield batch, _matches_of_groups(groups, *other.match(found), len(first_rows))
                return
            found, counts = found[groups], counts[groups]
        for start, stop in portions(counts):
            mine, row_ids = other.match(found[start:stop])
            # Where each row has one match, as with a foreign key, its columns are passed on without a copy.
            is_one_to_one = len(mine) == stop - start and counts[start:stop].max(initial=0) <= 1
            yield batch.slice(start, stop - start), _Matches(None if is_one_to_one else mine, row_ids)

    def _join(self, batch: pa.RecordBatch, matches: _Matches, side: int, output: Output) -> None:
        rows = without_row_kinds(batch)
        if self._is_plain:
            output.emit_deferred(self._joined.deferred(*self._by_side(rows, matches, side), matches.count)[0])
            self._append(rows, side)
        else:
            self._join_changes(batch, matches, side, output)

    def _join_changes(self, batch: pa.RecordBatch, found: _Matches, side: int, output: Output) -> None:
        """As `_join`, where rows may be retracted, or be output without a match."""
        rows = without_row_kinds(batch)
        other = self._sides[1 - side]
        mine, theirs = np.arange(found.count) if found.mine is None else found.mine, found.theirs
        kinds = portion_kinds(row_kinds(batch))
        signs = signs_of(kinds)
        joined: pa.RecordBatch | None = None
        passed: Array | None
        if self._kind.is_left_only:
            passed = self._joined.passing_of(*self._by_side(rows, found, side), found.count)
        else:
            pairs, passed = self._joined.deferred(*self._by_side(rows, found, side), found.count)
            joined = pairs.batch()
        if passed is not None:
            mine, theirs = mine[passed], theirs[passed]
        counts = other.counts_of(theirs)
        matches = np.zeros(rows.num_rows, dtype=np.int64)
        if self._counts_matches[side]:
            add_into(matches, mine, counts)
        gained, lost = self._count_matches(theirs, signs[mine], 1 - side)
        # Whether a row of the other side goes in or out depends on its matches before and after the whole batch.
        is_semi = self._kind is JoinKind.SEMI
        self._emit_kept(lost if is_semi else gained, 1 - side, RowKind.DELETE, output)
        if joined is None:
            self._emit_own(rows, kinds, matches, side, output)
        elif self._kind.pads(side) and not matches.all():
            unmatched = np.flatnonzero(matches == 0)
            joined = pa.concat_batches([joined, self._joined.padded(rows, unmatched, side)])
            origins = np.concatenate([mine, unmatched])
            partners = np.concatenate([theirs, np.full(len(unmatched), _NO_ROW)])
            counts = np.concatenate([counts, np.ones(len(unmatched), dtype=np.int64)])
            # In order of input, so that a -U precedes its +U whichever of the two has a match.
            order = np.argsort(origins, kind="stable")
            ordered = joined.take(to_array(pa.int64(), order))
            paired = derived_kinds(kinds, origins[order], partners[order])
            self._emit(ordered, paired, counts[order], output)
        else:
            self._emit(joined, derived_kinds(kinds, mine, theirs), counts, output)
        self._emit_kept(gained if is_semi else lost, 1 - side, RowKind.INSERT, output)
        self._keep(rows, signs, matches, side)

    def _append(self, rows: pa.RecordBatch, side: int) -> None:
        kept = self._matchable(rows, side)
        if kept is None:
            self._sides[side].append(rows)
        elif len(kept):
            self._sides[side].append(take_batch(rows, kept.astype(np.int32)))

    def _keep(self, rows: pa.RecordBatch, signs: Array, matches: Array, side: int) -> None:
        kept = self._matchable(rows, side)
        if kept is not None:
            if not len(kept):
                return
            rows, signs, matches = rows.take(to_array(pa.int64(), kept)), signs[kept], matches[kept]
        if gone := self._sides[side].apply(rows, signs, matches):
            self.context.count(of_side(RETRACTED, side), gone)

    def _matchable(self, rows: pa.RecordBatch, side: int) -> Array | None:
        """The rows to keep (None: all): one with a NULL in its key never matches, nor does one that comes when the other side has
        ended. The others are done."""
        keys = self._keys[side]
        if not self._keeps[side]:
            kept: Array | None = _NONE
        else:
            kept = complete_rows([rows.column(k) for k in keys]) if keys else None
        if kept is not None:
            self.count_of_side(DONE, side, rows.num_rows - len(kept))
        return kept

    # -- matching ----------------------------------------------------------------------------------

    def _by_side(self, rows: pa.RecordBatch, matches: _Matches, side: int) -> tuple[Rows, Rows]:
        """The left and the right row of each pair of a row of a batch and a kept one."""
        own = RowsOfBatch(rows, matches.mine)
        kept = RowsOfState(self._sides[1 - side], matches.row_ids, matches.places)
        return (own, kept) if side == _LEFT else (kept, own)

    def _count_matches(self, row_ids: Array, signs: Array, side: int) -> tuple[Array, Array]:
        """Count pairs that came and went; returns the rows of that side that have matches then and had none, and the reverse."""
        if len(row_ids) == 0 or not self._counts_matches[side]:
            return _NONE, _NONE
        touched, before, after = self._sides[side].add_matches(row_ids, signs)
        return touched[(before <= 0) & (after > 0)], touched[(before > 0) & (after <= 0)]

    # -- output ------------------------------------------------------------------------------------

    def _emit_own(
        self, rows: pa.RecordBatch, kinds: Array, matches: Array, side: int, output: Output
    ) -> None:
        """What SEMI and ANTI output of the rows of a batch: left ones, with or without matches."""
        if side == _RIGHT:
            return
        is_chosen = (matches > 0) == (self._kind is JoinKind.SEMI)
        chosen = np.flatnonzero(is_chosen)
        ones = np.ones(len(chosen), dtype=np.int64)
        kinds = filtered_kinds(kinds, is_chosen)[chosen]
        self._emit(self._joined.alone(rows, chosen), kinds, ones, output)

    def _emit_kept(self, row_ids: Array, side: int, kind: RowKind, output: Output) -> None:
        """Kept rows as they are output alone."""
        if len(row_ids) == 0:
            return
        kept = self._sides[side]
        rows = self._joined.unmatched(kept.gather(row_ids), None, side, self._kind)
        kinds = np.full(len(row_ids), int(kind), dtype=np.int8)
        self._emit(rows, kinds, kept.counts_of(row_ids), output)

    def _emit(self, rows: pa.RecordBatch, kinds: Array, counts: Array, output: Output) -> None:
        """Emit each row `counts` times."""
        if rows.num_rows == 0:
            return
        if (counts != 1).any():
            repeated = np.repeat(np.arange(rows.num_rows), counts)
            rows, kinds = rows.take(to_array(pa.int64(), repeated)), derived_kinds(kinds, repeated)
        if self.context.output_mode is ChangelogMode.INSERT_ONLY:
            output.emit(rows)
        else:
            output.emit(with_row_kinds(rows, np.ascontiguousarray(kinds, dtype=np.int8)))
