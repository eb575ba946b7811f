"""OVER whose results change with every row of the partition."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema
from sqlstream.changelog import RowKind
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.operators.equal_values import equal_values
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.over.affected import (
    AffectedRanges,
    ChangedRows,
    FrameExtent,
    is_carried,
    is_first_value,
)
from sqlstream.runtime.operators.over.frames import FramedCalls, Prior, carried_call
from sqlstream.runtime.operators.over.sorted import SortedRows
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.runtime.state.storage.id_lists import NO_ROW
from sqlstream.runtime.state.tables.keyed_multiset import OrderedMultiset
from sqlstream.schema import Schema
from sqlstream.specs.over import OverSpec

_FEW_ROWS = 256
"""Partitions up to this size are computed from their first row: a prefix of accumulators costs more than it saves."""

_UNCHANGED = -1


class _Results(NamedTuple):
    """Results by row and copy: row i has `copies[i]` of them, from `offsets[i]` on."""

    columns: list[pa.Array]
    offsets: Array
    copies: Array


class _Copies:
    """How many copies of each row there were before a batch, and are after it. State: a number per row that a batch changes."""

    def __init__(self) -> None:
        self._before = GrowingArray(np.int64, fill=_UNCHANGED)

    def begin(self, rows: Array, before: Array, slot_count: int) -> None:
        """Distinct rows, with their copies before the batch."""
        self._before.reserve(slot_count)
        self._before.values[rows] = before

    def end(self, rows: Array) -> None:
        self._before.values[rows] = _UNCHANGED

    def of(self, rows: Array, counts: Array) -> tuple[Array, Array]:
        """(int64[n] before, int64[n] after); `counts` are by row."""
        after = np.maximum(counts[rows], 0)
        before = self._before.values[rows]
        before = np.where(before == _UNCHANGED, after, before)
        return before, after


class OverOnChange(Operator[OverSpec]):
    """Computes the results that a batch affects before and after it, and emits the difference.

    A batch costs its own rows, the results that they may change, and the rows that these read (see FrameExtent). A frame that
    begins with the partition is computed from the first changed row on; and only to the last changed row, if the accumulators
    there are as before (a +1 and a -1, say). Rows of equal order are in order of arrival.

    State: all rows with their counts, by partition and in order. A row is forgotten when its count is zero, a partition with its
    last row or `state_ttl_ms` after it last received one. Not saved: accumulators of a prefix of each partition.
    """

    def __init__(self, spec: OverSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._table = context.state.add(
            OrderedMultiset(
                to_arrow_schema(schema),
                spec.partition_keys,
                context.state.scope,
                spec.order,
                list_length=1,
                ttl_ms=spec.state_ttl_ms,
            )
        )
        self._copies = _Copies()
        self._extent = FrameExtent.of(spec, schema)
        self._affected = AffectedRanges(self._extent, spec.order, self._table)
        carries = self._extent.is_running and not (self._extent.reads_all or self._extent.is_whole)
        self._prefix = PrefixAccumulators(spec, schema, self._table) if carries else None
        ordered = [key.column for key in spec.order]
        # A batch without columns would have no rows.
        self._columns = sorted({*ordered, *(c for call in spec.calls for c in call.columns())}) or [0]
        places = {column: place for place, column in enumerate(self._columns)}
        self._order = tuple(msgspec.structs.replace(key, column=places[key.column]) for key in spec.order)
        calls = tuple(call.moved(places) for call in spec.calls)
        self._calls = FramedCalls(calls, schema.select(tuple(self._columns)))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        signs = signs_of(row_kinds(batch))
        keys, row_slots = self._table.apply(batch)
        self._table.writing(np.unique(keys))
        rows, positions = np.unique(row_slots, return_inverse=True)
        sums = np.bincount(positions, weights=signs, minlength=len(rows)).astype(np.int64)
        after = self._table.rows.counts[rows]
        before, after = np.maximum(after - sums, 0), np.maximum(after, 0)
        is_changed = before != after
        if is_changed.any():
            changed = rows[is_changed]
            self._copies.begin(changed, before[is_changed], self._table.rows.slot_count)
            self._table.enter(rows[is_changed & (before == 0)])
            self._update(ChangedRows.each(self._table, changed), output)
            self._table.leave(rows[is_changed & (after == 0)])
            self._copies.end(changed)
        self._table.sweep(row_slots)

    def _update(self, changed: ChangedRows, output: Output) -> None:
        """Emit the results that differ."""
        prior: Prior | None = None
        if self._extent.is_running:
            changed = changed.by_key()
            first = self._affected.first_affected(changed)
            read_from = self._affected.first_read(changed, first)
            is_settled = np.zeros(len(first), dtype=bool)
            if self._prefix is not None:
                read_from = np.where(read_from > _FEW_ROWS, read_from, 0)
                prior, is_settled = self._before(self._prefix, changed, read_from)
            end = self._affected.end_affected(changed, is_settled)
        else:
            first, end = self._affected.first_affected(changed), self._affected.end_affected(changed)
            changed, first, end = changed.together(
                first, end, self._extent.rows_before + self._extent.rows_after
            )
            read_from = self._affected.first_read(changed, first)
        read_until = self._affected.end_read(changed, end)
        positions, rows = self._table.order.between(changed.keys, read_from, read_until)
        lengths = read_until - read_from
        affected = _places(np.cumsum(lengths) - lengths + first - read_from, end - first)
        columns = self._table.rows.columns(rows, self._columns)
        copies = self._copies.of(rows, self._table.rows.counts)
        old, new = (self._computed(len(first), positions, columns, c, prior, affected) for c in copies)
        self._emit(rows[affected], old, new, output)

    def _before(
        self, prefixes: PrefixAccumulators, changed: ChangedRows, read_from: Array
    ) -> tuple[Prior | None, Array]:
        """(accumulators of the rows before `read_from`, bool[keys]: whether those up to the last changed row are as before the
        batch, so that no result behind it differs)."""
        until = self._affected.end_changed(changed)
        is_settled = np.zeros(len(until), dtype=bool)
        # Only where that can spare more rows than it reads.
        spared = changed.sizes - until
        looked_at = np.flatnonzero((spared > _FEW_ROWS) & (spared > until - read_from))
        if not len(looked_at) and not read_from.any():
            prefixes.forget(changed.keys)
            return None, is_settled
        earlier = prefixes.advance(changed.keys, read_from)
        positions, rows = self._table.order.between(
            changed.keys[looked_at], read_from[looked_at], until[looked_at]
        )
        before, after = self._copies.of(rows, self._table.rows.counts)
        chosen = pa.array(looked_at)
        found = [column.take(chosen) for column in earlier]
        old = prefixes.extended(found, positions, rows, before)
        new = prefixes.extended(found, positions, rows, after)
        is_settled[looked_at] = True
        for one, other in zip(old, new, strict=True):
            is_settled[looked_at] &= equal_values(one, other)
        if self._extent.sees_first:
            is_settled &= changed.first > 0
        return prefixes.prior(earlier, changed.keys, read_from), is_settled

    def _computed(
        self,
        count: int,
        positions: Array,
        columns: list[pa.Array],
        copies: Array,
        prior: Prior | None,
        affected: Array,
    ) -> _Results:
        """The results of the `affected` rows. The rows are in order, of `count` partitions, each `copies` times."""
        if not (copies == 1).all():
            expanded = np.repeat(np.arange(len(copies)), copies)
            chosen = pa.array(expanded)
            positions, columns = positions[expanded], [column.take(chosen) for column in columns]
        names = [str(number) for number in range(len(columns))]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        results = self._calls.compute(SortedRows(batch, positions, count, self._order), prior)
        offsets = np.cumsum(copies) - copies
        return _Results(results, offsets[affected], copies[affected])

    def _emit(self, rows: Array, old: _Results, new: _Results, output: Output) -> None:
        """-D of rows that are gone, -U and +U of rows with other results, +I of rows that came."""
        both = np.minimum(old.copies, new.copies)
        was, now = _places(old.offsets, both), _places(new.offsets, both)
        differs = np.zeros(len(was), dtype=bool)
        for before, after in zip(old.columns, new.columns, strict=True):
            differs |= ~equal_values(before.take(pa.array(was)), after.take(pa.array(now)))
        gone = _places(old.offsets + both, old.copies - both)
        came = _places(new.offsets + both, new.copies - both)
        updates = int(np.count_nonzero(differs))
        emitted = np.concatenate(
            [
                np.repeat(rows, old.copies - both),
                np.repeat(np.repeat(rows, both)[differs], 2),
                np.repeat(rows, new.copies - both),
            ]
        )
        if not len(emitted):
            return
        kinds = np.full(len(emitted), RowKind.INSERT, dtype=np.int8)
        kinds[: len(gone)] = RowKind.DELETE
        kinds[len(gone) : len(gone) + 2 * updates : 2] = RowKind.UPDATE_BEFORE
        kinds[len(gone) + 1 : len(gone) + 2 * updates : 2] = RowKind.UPDATE_AFTER
        # Results of `old`, then of `new`, in the order in which they are emitted.
        shift = len(old.columns[0])
        pairs = np.stack([was[differs], now[differs] + shift], axis=1).reshape(-1)
        chosen = pa.array(np.concatenate([gone, pairs, came + shift]))
        results = [
            pa.chunked_array([a, b]).combine_chunks().take(chosen)
            for a, b in zip(old.columns, new.columns, strict=True)
        ]
        columns = [*self._table.rows.take(emitted).columns, *results, to_array(pa.int8(), kinds)]
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _places(offsets: Array, counts: Array) -> Array:
    """offsets[i], offsets[i] + 1, … for counts[i] numbers, of all i."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(offsets, counts) + within


class PrefixAccumulators:
    """Accumulators of a prefix of each partition, for calls whose frames begin with the partition.

    The prefix of a key ends with a row, its mark: a change behind the mark reads no row before it. The mark is the one entry of
    the key's list in `table.lists`, so it is forgotten with the key.
    State: an accumulator per call and key; these follow from the rows and are not saved.
    """

    def __init__(self, spec: OverSpec, schema: Schema, table: OrderedMultiset) -> None:
        carried = [call for call in spec.calls if is_carried(call)]
        self._table = table
        self._order = [key.column for key in spec.order]
        self._spec_calls = spec.calls
        self._columns = sorted({column for call in carried for column in call.columns()})
        places = {column: place for place, column in enumerate(self._columns)}
        self._calls = tuple(carried_call(call.moved(places), len(places)) for call in carried)
        self._types = tuple(tuple(schema.types[a] for a in call.args) for call in carried)
        self._set = self._made(0)

    def forget(self, keys: Array) -> None:
        """Drop the marks: rows before them may have changed."""
        self._table.lists.clear(keys)

    def advance(self, keys: Array, places: Array) -> list[pa.Array]:
        """Move the marks of distinct keys to these places, and return the accumulators there. No row before the marks has changed
        since the last call."""
        if not self._calls:
            return []
        marks = self._table.lists.lists(keys).max(axis=1, initial=NO_ROW)
        is_known = marks != NO_ROW
        marked = np.full(len(keys), -1, dtype=np.int64)
        marked[is_known] = self._table.order.places(marks[is_known])
        marked[marked >= places] = -1
        self._set.resize(self._table.lists.slot_count)
        self._set.reset(keys[marked < 0])
        positions, rows = self._table.order.between(keys, marked + 1, places)
        self._add(self._set, keys[positions], rows, self._table.rows.counts[rows])
        marks = np.where(marked < 0, NO_ROW, marks)
        # The last row of a position is the one that remains.
        marks[positions] = rows
        self._table.lists.set(keys, marks.reshape(-1, 1))
        return self._set.columns(keys)

    def extended(
        self, earlier: list[pa.Array], positions: Array, rows: Array, copies: Array
    ) -> list[pa.Array]:
        """The accumulators `earlier` after the rows that follow are added, each `copies` times."""
        count = len(earlier[0]) if earlier else 0
        made = self._made(count)
        made.load(first_slots(count), earlier)
        self._add(made, positions, rows, copies)
        return made.columns(first_slots(count))

    def prior(self, earlier: list[pa.Array], keys: Array, places: Array) -> Prior:
        """The accumulators by call; for FIRST_VALUE the first value and whether there is one."""
        columns = iter(earlier)
        widths = iter([len(a.suffixes) for a in self._set.accumulators])
        found: Prior = []
        for call in self._spec_calls:
            if is_carried(call):
                found.append([next(columns) for _ in range(next(widths))])
            elif is_first_value(call):
                _, first = self._table.order.between(keys, np.zeros_like(places), np.ones_like(places))
                found.append([self._table.rows.columns(first, [call.args[0]])[0], pa.array(places > 0)])
            else:
                found.append(None)
        return found

    def _made(self, count: int) -> AccumulatorSet:
        made = AccumulatorSet(self._calls, self._types)
        made.resize(count)
        return made

    def _add(self, accumulators: AccumulatorSet, owners: Array, rows: Array, copies: Array) -> None:
        if not len(rows):
            return
        expanded, owned = np.repeat(rows, copies), np.repeat(owners, copies)
        columns = self._table.rows.columns(expanded, self._columns) if self._columns else []
        columns.append(to_array(pa.bool_(), self._begins_peers(owned, expanded)))
        names = [str(i) for i in range(len(columns))]
        accumulators.accumulate(owned, pa.RecordBatch.from_arrays(columns, names=names))

    def _begins_peers(self, owners: Array, rows: Array) -> Array:
        """bool[n]: whether a row differs from the one before it."""
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = owners[1:] != owners[:-1]
        if any(call.filter == len(self._columns) for call in self._calls):
            for column in self._table.rows.columns(rows, self._order):
                values, _ = group([column])
                begins[1:] |= values[1:] != values[:-1]
        return begins
