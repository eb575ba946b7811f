"""Rows that come and go in the rounds of recursive queries, as the rows that there are between rounds."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.evaluate.nested_keys import identities
from sqlstream.runtime.kernels.accumulate import add_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.words import storage_dtype
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.iterate import emit_pieces
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array, distinct
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.schema import Schema
from sqlstream.specs.iterate import ROUND_MAX, UnrollSpec

_INSERT, _DELETE = int(RowKind.INSERT), int(RowKind.DELETE)

CELLS_AT_ONCE = 1 << 20
"""About how many rows of groups, times the rounds of each group, are computed at once."""
_CELL_BYTES = 32


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
        self._bytes_max = int(options.get(context.config, "sqlstream.recursion.max-pending-bytes"))

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
                emit = self._emit_extremes if self.spec.is_greatest else self._emit_between
                for part in entries.from_changes().parts(CELLS_AT_ONCE):
                    emit(part, output)
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
        columns = self._rows.rows.columns(entries.slots, range(self._width))
        cells = _Cells(entries, columns, self._bytes_max)
        grid, places = cells.grid, cells.places
        before = np.where(grid.was_start[places], cells.before, 0)
        after = np.where(grid.is_start[places], cells.after, 0)
        stays = grid.was_start[places] & grid.is_start[places] & (grid.ended[places] == grid.ends[places])
        common = np.where(stays, np.minimum(before, after), 0)
        retracted = np.repeat(np.arange(len(places)), before - common)
        inserted = np.repeat(np.arange(len(places)), after - common)
        chosen = np.concatenate([retracted, inserted])
        taken = pa.array(cells.rows[chosen])
        begins = grid.rounds[places[chosen]]
        ends = np.concatenate([grid.ended[places[retracted]], grid.ends[places[inserted]]])
        numbers = [to_array(pa.int64(), each) for each in (begins, ends)]
        self._emit([*(c.take(taken) for c in columns), *numbers], len(retracted), output)

    # -- the least and the greatest values ---------------------------------------------------------

    def _emit_extremes(self, entries: _Entries, output: Output) -> None:
        """A group's row comes in a round in which its values are others than before, and goes in the next such one."""
        columns = self._rows.rows.columns(entries.slots, range(self._width))
        cells = _Cells(entries, columns, self._bytes_max)
        keys, values = columns[: len(self.spec.keys)], columns[len(self.spec.keys) :]
        before, after = (
            _Extremes(cells.grid, cells.places[c > 0], cells.rows[c > 0], values, self.spec.is_greatest)
            for c in (cells.before, cells.after)
        )
        places = np.arange(len(cells.grid.rounds))
        goes = before.goes & after.goes & before.equals(after, places - 1)
        comes = before.comes & after.comes & before.equals(after, places)
        chosen = [
            (before, np.flatnonzero(before.goes & ~goes), -1),
            (before, np.flatnonzero(before.comes & ~comes), 1),
            (after, np.flatnonzero(after.goes & ~goes), -1),
            (after, np.flatnonzero(after.comes & ~comes), 1),
        ]
        at = np.concatenate([place for _, place, _ in chosen])
        taken = pa.array(np.searchsorted(entries.groups, cells.grid.groups[at]))
        signs = np.concatenate([np.full(len(place), sign, dtype=np.int64) for _, place, sign in chosen])
        own = [side.values(np.where(sign > 0, place, place - 1)) for side, place, sign in chosen]
        made = [pa.concat_arrays(parts) for parts in zip(*own, strict=True)]
        numbers = [to_array(pa.int64(), each) for each in (cells.grid.rounds[at], signs)]
        retracted = len(chosen[0][1]) + len(chosen[1][1])
        self._emit([*(k.take(taken) for k in keys), *made, *numbers], retracted, output)

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

    def from_changes(self) -> _Entries:
        """With what came and went before the first round in which something is other, in the last round before it. Each group has
        such a round: what is there between two earlier ones is as it was."""
        starts = _starts(self.groups)
        if not len(starts):
            return self
        rounds = np.where(self.before != self.after, self.rounds, ROUND_MAX)
        is_earlier = self.rounds < np.minimum.reduceat(rounds, starts)[self.groups]
        last = starts + np.add.reduceat(is_earlier.astype(np.int64), starts) - 1
        rounds = np.where(is_earlier, self.rounds[last[self.groups]], self.rounds)
        return dataclasses.replace(self, rounds=rounds)

    def parts(self, cells_max: int) -> Iterator[_Entries]:
        """Groups that follow each other, of about so many cells; a larger group is alone."""
        starts = _starts(self.groups)
        if not len(starts):
            return
        is_new = np.ones(len(self.groups), dtype=bool)
        is_new[1:] = (self.groups[1:] != self.groups[:-1]) | (self.rounds[1:] != self.rounds[:-1])
        sizes = np.diff(np.append(starts, len(self.groups)))
        cells = sizes * np.add.reduceat(is_new.astype(np.int64), starts)
        part = (np.cumsum(cells) - cells) // cells_max
        bounds = [*starts[np.flatnonzero(np.diff(part, prepend=-1))].tolist(), len(self.groups)]
        for low, high in itertools.pairwise(bounds):
            own = (getattr(self, field.name)[low:high] for field in dataclasses.fields(self))
            groups, *others = own
            yield _Entries(groups - groups[0], *others)


class _Cells:
    """A cell for each row and each round of its group: `rows` says which of the entries has the columns of the row, `places`
    which round of the grid; `before` and `after`, how often the row is there. Those of a row stand together. UserError SS5401 for
    more than `bytes_max` of them."""

    def __init__(self, entries: _Entries, columns: list[pa.Array], bytes_max: int) -> None:
        self.grid = grid = _Grid(entries)
        rows, first = batch_groups(identities(columns), len(entries.slots))
        groups = entries.groups[first]
        widths = grid.widths[groups]
        if (count := int(widths.sum())) * _CELL_BYTES > bytes_max:
            raise UserError(
                "SS5401",
                f"a group of a recursive query has {count} rows in all of its rounds, which take more than {bytes_max >> 20} MB",
                hint="group by more columns, or raise 'sqlstream.recursion.max-pending-bytes'",
            )
        starts = np.cumsum(widths) - widths
        self.rows = np.repeat(first, widths)
        self.places = np.arange(len(self.rows)) + np.repeat(grid.starts[groups] - starts, widths)
        at = starts[rows] + grid.places - grid.starts[entries.groups]
        self.before, self.after = (
            _filled(len(self.rows), at, counts, starts) for counts in (entries.before, entries.after)
        )


class _Extremes:
    """The values of the groups by place of the grid. `goes` and `comes`: where they are others than at the place before."""

    def __init__(
        self, grid: _Grid, places: Array, rows: Array, columns: list[pa.Array], is_greatest: tuple[bool, ...]
    ) -> None:
        count = len(grid.rounds)
        self._types = [column.type for column in columns]
        self._is_there = np.zeros(count, dtype=bool)
        self._is_there[places] = True
        self._values: list[Array] = []
        self._is_known: list[Array] = []
        for column, greatest in zip(columns, is_greatest, strict=True):
            numbers = view_values(column, storage_dtype(column.type))
            limits = np.iinfo(numbers.dtype)
            found = np.full(count, limits.min if greatest else limits.max, dtype=numbers.dtype)
            is_known = np.zeros(count, dtype=bool)
            known = present_rows(column)[rows] if column.null_count else np.ones(len(rows), dtype=bool)
            (np.maximum if greatest else np.minimum).at(found, places[known], numbers[rows[known]])
            is_known[places[known]] = True
            self._values.append(found)
            self._is_known.append(is_known)
        is_first = np.zeros(count, dtype=bool)
        is_first[_starts(grid.groups)] = True
        had = np.roll(self._is_there, 1) & ~is_first
        previous = np.arange(count) - 1
        is_other = ~self._same(self, np.arange(count), previous)
        self.goes = had & (~self._is_there | is_other)
        self.comes = self._is_there & (~had | is_other)

    def equals(self, other: _Extremes, places: Array) -> Array:
        """bool[n]: whether both have the same values at these places."""
        return self._same(other, places, places)

    def _same(self, other: _Extremes, places: Array, others: Array) -> Array:
        is_same = np.ones(len(places), dtype=bool)
        for mine, theirs in ((self._values, other._values), (self._is_known, other._is_known)):
            for a, b in zip(mine, theirs, strict=True):
                is_same &= a[places] == b[others]
        return is_same

    def values(self, places: Array) -> list[pa.Array]:
        return [
            pa.array(values[places], type=t, mask=~is_known[places])
            for values, is_known, t in zip(self._values, self._is_known, self._types, strict=True)
        ]


class _Grid:
    """The rounds of the entries' groups: `places` says which one an entry has. Group g has `widths[g]` from `starts[g]` on.
    Rounds of a group stand together. `was_start` and `is_start`: whether a row comes or goes then; `ended` and `ends`: the next
    such round."""

    def __init__(self, entries: _Entries) -> None:
        groups, rounds = entries.groups, entries.rounds
        is_new = np.ones(len(groups), dtype=bool)
        is_new[1:] = (groups[1:] != groups[:-1]) | (rounds[1:] != rounds[:-1])
        self.places = np.cumsum(is_new) - 1
        self.rounds = rounds[is_new]
        self.groups = groups[is_new]
        self.widths = np.bincount(self.groups, minlength=int(groups.max(initial=-1)) + 1)
        self.starts = np.cumsum(self.widths) - self.widths
        self.was_start, self.ended = self._starts_and_ends(entries.before)
        self.is_start, self.ends = self._starts_and_ends(entries.after)

    def _starts_and_ends(self, counts: Array) -> tuple[Array, Array]:
        is_start = np.zeros(len(self.rounds), dtype=bool)
        is_start[self.places[counts != 0]] = True
        ends = np.full(len(self.rounds), ROUND_MAX, dtype=np.int64)
        at = np.flatnonzero(is_start)
        has_next = self.groups[at[1:]] == self.groups[at[:-1]]
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
    add_into(cells, at, counts)
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
