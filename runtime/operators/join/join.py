"""Regular join of two changelogs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array
from runtime.operators.join.equal_pairs import complete_rows, portions
from runtime.operators.join.joined import JoinedRows
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.state.arrays import Array
from runtime.state.keyed_rows import KeyedRows
from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema, with_row_kinds, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.specs.join import JoinKind, JoinSpec

_LEFT, _RIGHT = 0, 1


class Join(Operator[JoinSpec]):
    """Emits the pairs of a row with the matching rows of the other side, and retracts them when the row is retracted.

    State: all rows of both sides with their counts and, for LEFT, the number of matches per left row; dropped when retracted
    or `*_ttl_ms` after they arrived. A batch is matched as a whole: the other side does not change meanwhile.
    """

    def __init__(self, spec: JoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._is_left_join = spec.kind is JoinKind.LEFT
        self._keys = (spec.left_keys, spec.right_keys)
        self._sides = (
            self._declare("left", _LEFT, spec.left_ttl_ms),
            self._declare("right", _RIGHT, spec.right_ttl_ms),
        )
        self._joined = JoinedRows(spec.condition, context)

    def _declare(self, name: str, side: int, ttl_ms: int) -> KeyedRows:
        return self.context.state.add(
            KeyedRows(
                name,
                to_arrow_schema(self.context.input_schemas[side]),
                self._keys[side],
                self.context.state.scope,
                is_retracting=not self.context.input_modes[side].is_insert_only,
                counts_matches=self._is_left_join and side == _LEFT,
                ttl_ms=ttl_ms,
            )
        )

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        for portion, found in self._portions(batch, input_index):
            self._join(portion, found, input_index, output)

    def _portions(self, batch: pa.RecordBatch, input_index: int) -> Iterator[tuple[pa.RecordBatch, Array]]:
        """Parts of the batch that make about PAIRS_MAX pairs each, because many rows may match many others.

        With each part comes what `find` of the other side returns for its rows.
        """
        keys = [batch.column(k) for k in self._keys[input_index]]
        other = self._sides[1 - input_index]
        found = other.find(keys, batch.num_rows)
        for start, stop in portions(other.match_counts(found)):
            yield batch.slice(start, stop - start), found[start:stop]

    def _join(self, batch: pa.RecordBatch, found: Array, input_index: int, output: Output) -> None:
        kinds = row_kinds(batch)
        rows = without_row_kinds(batch)
        if input_index == _LEFT:
            matches = self._join_left(rows, kinds, found, output)
        else:
            matches = np.zeros(rows.num_rows, dtype=np.int64)
            self._join_right(rows, kinds, found, output)
        signs = np.where(is_accumulate(kinds), 1, -1).astype(np.int64)
        self._keep(rows, signs, matches, input_index)

    def _keep(self, rows: pa.RecordBatch, signs: Array, matches: Array, side: int) -> None:
        """Change the state; a row with a NULL in its key never matches, so it is not kept."""
        kept = complete_rows([rows.column(k) for k in self._keys[side]]) if self._keys[side] else None
        if kept is not None:
            rows, signs, matches = rows.take(to_array(pa.int64(), kept)), signs[kept], matches[kept]
        self._sides[side].apply(rows, signs, matches)

    # -- matching ----------------------------------------------------------------------------------

    def _join_left(self, rows: pa.RecordBatch, kinds: Array, found: Array, output: Output) -> Array:
        """Emit the pairs of left rows; returns the number of matches per row."""
        right = self._sides[_RIGHT]
        mine, theirs = right.match(found)
        joined, passed = self._joined.pairs(rows, right.gather(theirs), mine, None)
        origins, counts = mine[passed], right.counts_of(theirs[passed])
        matches = np.zeros(rows.num_rows, dtype=np.int64)
        add_into(matches, origins, counts)
        if self._is_left_join and not matches.all():
            unmatched = np.flatnonzero(matches == 0)
            joined = pa.concat_batches([joined, self._joined.padded(rows, unmatched)])
            origins = np.concatenate([origins, unmatched])
            counts = np.concatenate([counts, np.ones(len(unmatched), dtype=np.int64)])
            # In order of input, so that a -U precedes its +U whichever of the two has a match.
            order = np.argsort(origins, kind="stable")
            joined, origins, counts = joined.take(to_array(pa.int64(), order)), origins[order], counts[order]
        self._emit(joined, kinds[origins], counts, output)
        return matches

    def _join_right(self, rows: pa.RecordBatch, kinds: Array, found: Array, output: Output) -> None:
        left = self._sides[_LEFT]
        mine, theirs = left.match(found)
        joined, passed = self._joined.pairs(left.gather(theirs), rows, None, mine)
        if len(passed) == 0:
            return
        counts, pair_kinds = left.counts_of(theirs[passed]), kinds[mine[passed]]
        if not self._is_left_join:
            self._emit(joined, pair_kinds, counts, output)
            return
        signs = np.where(is_accumulate(pair_kinds), 1, -1).astype(np.int64)
        touched, before, after = left.add_matches(theirs[passed], signs)
        # Whether a left row loses or gains its row with NULLs depends on its matches before and after the whole batch.
        self._emit_padded(touched[(before <= 0) & (after > 0)], RowKind.DELETE, output)
        self._emit(joined, pair_kinds, counts, output)
        self._emit_padded(touched[(before > 0) & (after <= 0)], RowKind.INSERT, output)

    # -- output ------------------------------------------------------------------------------------

    def _emit_padded(self, left_rows: Array, kind: RowKind, output: Output) -> None:
        if len(left_rows) == 0:
            return
        side = self._sides[_LEFT]
        padded = self._joined.padded(side.gather(left_rows), None)
        kinds = np.full(len(left_rows), int(kind), dtype=np.int8)
        self._emit(padded, kinds, side.counts_of(left_rows), output)

    def _emit(self, rows: pa.RecordBatch, kinds: Array, counts: Array, output: Output) -> None:
        """Emit each row `counts` times."""
        if rows.num_rows == 0:
            return
        if (counts != 1).any():
            repeated = np.repeat(np.arange(rows.num_rows), counts)
            rows, kinds = rows.take(to_array(pa.int64(), repeated)), kinds[repeated]
        if self.context.output_mode is ChangelogMode.INSERT_ONLY:
            output.emit(rows)
        else:
            output.emit(with_row_kinds(rows, np.ascontiguousarray(kinds, dtype=np.int8)))
