"""Rows that come and go in the rounds of recursive queries, as the rows that there are between rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.evaluate.nested_keys import identities
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.iterate import emit_pieces
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array, distinct
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.schema import Schema
from sqlstream.specs.iterate import ROUND_MAX, UnrollSpec

_INSERT, _DELETE = int(RowKind.INSERT), int(RowKind.DELETE)


class Unroll(Operator[UnrollSpec]):
    """Emits for the groups of the rows of a batch what is other between rounds than before.

    What it has emitted is a function of its state: a row that goes before it comes, as later rounds do not know yet what earlier
    ones have changed, is not there in between. Batches are held until `flush`.
    State: how often each row comes (a count above zero) or goes (below) in each round, by group.
    """

    def __init__(self, spec: UnrollSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        columns = context.input_schemas[0].fields[:-1]
        self._width = len(columns) - 1
        self._counted = to_arrow_schema(Schema(columns), ChangelogMode.RETRACT)
        rows = to_arrow_schema(Schema(columns))
        self._rows = context.state.add(
            KeyedMultiset("rows", rows, spec.keys, context.state.scope, list_length=0)
        )
        self._schema = to_arrow_schema(context.output_schema, ChangelogMode.RETRACT)
        self._held: list[pa.RecordBatch] = []

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        kinds = pa.array(signed_kinds(batch, self._width + 1))
        arrays = [*batch.columns[: self._width + 1], kinds]
        self._held.append(pa.RecordBatch.from_arrays(arrays, schema=self._counted))

    def flush(self, output: Output) -> None:
        if not self._held:
            return
        batch, self._held = pa.concat_batches(self._held), []
        _, slots = self._rows.apply(batch)
        changed, counts = net_of_slots(slots, row_kinds(batch))
        if len(changed):
            entries = self._entries(changed, counts)
            if self.spec.is_distinct:
                self._emit_distinct(entries, output)
            else:
                self._emit_between(entries, output)
        self._rows.sweep(slots)

    def _entries(self, changed: Array, counts: Array) -> _Entries:
        """All that is known of the groups of these rows, whose counts are others by `counts`."""
        groups, slots = self._rows.match(distinct(self._rows.keys_of(changed)))
        after = self._rows.rows.counts[slots]
        places = np.minimum(np.searchsorted(changed, slots), len(changed) - 1)
        before = after - np.where(changed[places] == slots, counts[places], 0)
        rounds = view_values(self._rows.rows.columns(slots, [self._width])[0], np.int64)
        order = np.lexsort((rounds, groups))
        order = order[(before[order] != 0) | (after[order] != 0)]
        return _Entries(groups[order], rounds[order], slots[order], before[order], after[order])

    # -- each row once -----------------------------------------------------------------------------

    def _emit_distinct(self, entries: _Entries, output: Output) -> None:
        """A row comes in the first round in which there are more than none, and goes when there are none again."""
        starts = _starts(entries.groups)
        before, after = (_steps(counts, starts) for counts in (entries.before, entries.after))
        retracted = np.flatnonzero((before != 0) & (before != after))
        inserted = np.flatnonzero((after != 0) & (before != after))
        chosen = np.concatenate([retracted, inserted])
        signs = np.concatenate([before[retracted], after[inserted]])
        columns = self._rows.rows.columns(entries.slots[chosen], range(self._width + 1))
        self._emit([*columns, to_array(pa.int64(), signs)], len(retracted), output)

    # -- all rows between two rounds ---------------------------------------------------------------

    def _emit_between(self, entries: _Entries, output: Output) -> None:
        grid = _Grid(entries)
        columns = self._rows.rows.columns(entries.slots, range(self._width))
        rows, first = batch_groups(identities(columns), len(entries.slots))
        # A cell for each row and each round of its group.
        widths = grid.widths[entries.groups[first]]
        cells = np.cumsum(widths) - widths
        row_of = np.repeat(np.arange(len(first)), widths)
        places = (
            np.arange(len(row_of))
            - np.repeat(cells, widths)
            + np.repeat(grid.starts[entries.groups[first]], widths)
        )
        at = cells[rows] + grid.places - grid.starts[entries.groups]
        before, after = (
            _filled(len(row_of), at, counts, cells) for counts in (entries.before, entries.after)
        )
        before = np.where(grid.was_start[places], before, 0)
        after = np.where(grid.is_start[places], after, 0)
        stays = grid.was_start[places] & grid.is_start[places] & (grid.ended[places] == grid.ends[places])
        common = np.where(stays, np.minimum(before, after), 0)
        retracted = np.repeat(np.arange(len(row_of)), before - common)
        inserted = np.repeat(np.arange(len(row_of)), after - common)
        chosen = np.concatenate([retracted, inserted])
        taken = pa.array(first[row_of[chosen]])
        begins = grid.rounds[places[chosen]]
        ends = np.concatenate([grid.ended[places[retracted]], grid.ends[places[inserted]]])
        numbers = [to_array(pa.int64(), each) for each in (begins, ends)]
        self._emit([*(c.take(taken) for c in columns), *numbers], len(retracted), output)

    def _emit(self, columns: list[pa.Array], retracted: int, output: Output) -> None:
        kinds = np.full(len(columns[-1]), _INSERT, dtype=np.int8)
        kinds[:retracted] = _DELETE
        emit_pieces(pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=self._schema), output)


@dataclasses.dataclass(frozen=True)
class _Entries:
    """How often rows come or go in rounds, before a change and after it, by group and round. Groups are numbered densely."""

    groups: Array
    rounds: Array
    slots: Array
    before: Array
    after: Array


class _Grid:
    """The rounds of the entries' groups: `places` says which one an entry has. Group g has `widths[g]` from `starts[g]` on.
    `was_start` and `is_start`: whether a row comes or goes then; `ended` and `ends`: the next such round."""

    def __init__(self, entries: _Entries) -> None:
        groups, rounds = entries.groups, entries.rounds
        is_new = np.ones(len(groups), dtype=bool)
        is_new[1:] = (groups[1:] != groups[:-1]) | (rounds[1:] != rounds[:-1])
        self.places = np.cumsum(is_new) - 1
        self.rounds = rounds[is_new]
        self._groups = groups[is_new]
        self.widths = np.bincount(self._groups, minlength=int(groups.max(initial=-1)) + 1)
        self.starts = np.cumsum(self.widths) - self.widths
        self.was_start, self.ended = self._starts_and_ends(entries.before)
        self.is_start, self.ends = self._starts_and_ends(entries.after)

    def _starts_and_ends(self, counts: Array) -> tuple[Array, Array]:
        is_start = np.zeros(len(self.rounds), dtype=bool)
        is_start[self.places[counts != 0]] = True
        ends = np.full(len(self.rounds), ROUND_MAX, dtype=np.int64)
        at = np.flatnonzero(is_start)
        has_next = self._groups[at[1:]] == self._groups[at[:-1]]
        ends[at[:-1][has_next]] = self.rounds[at[1:][has_next]]
        return is_start, ends


def _starts(groups: Array) -> Array:
    """Where the groups begin, which stand in order."""
    is_first = np.ones(len(groups), dtype=bool)
    is_first[1:] = groups[1:] != groups[:-1]
    return np.flatnonzero(is_first)


def _running(counts: Array, starts: Array) -> Array:
    """The sums from the last of `starts` on."""
    sums = np.cumsum(counts)
    before = np.concatenate([[0], sums])[starts]
    return sums - np.repeat(before, np.diff(np.append(starts, len(counts))))


def _steps(counts: Array, starts: Array) -> Array:
    """1 where the sum rises above zero, -1 where it falls to it, else 0."""
    is_there = (_running(counts, starts) > 0).astype(np.int64)
    steps = is_there.copy()
    steps[1:] -= is_there[:-1]
    steps[starts] = is_there[starts]
    return steps


def _filled(size: int, at: Array, counts: Array, starts: Array) -> Array:
    """How often each row is there in each cell; never less than not at all."""
    cells = np.zeros(size, dtype=np.int64)
    cells[at] = counts
    return np.maximum(_running(cells, starts), 0)


def signed_kinds(batch: pa.RecordBatch, sign: int) -> Array:
    """int8[n]: +I for a row that comes once more or goes once less, by its kind and the sign in a column; else -D."""
    adds = view_values(batch.column(sign), np.int64) > 0
    return np.where(adds == is_accumulate(row_kinds(batch)), _INSERT, _DELETE).astype(np.int8)


def net_of_slots(slots: Array, kinds: Array) -> tuple[Array, Array]:
    """(the different slots, ascending; how often more each has +I than -D), where that is not zero."""
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    starts = _starts(ordered)
    counts = np.add.reduceat(np.where(kinds[order] == _INSERT, 1, -1), starts) if len(starts) else starts
    is_other = counts != 0
    return ordered[starts[is_other]], counts[is_other]
