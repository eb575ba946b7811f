"""OVER whose results change with every row of the partition."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.changelog import RowKind
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.operators.equal_values import equal_values
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.over.affected_rows import AffectedRows, ChangedRows
from sqlstream.runtime.operators.over.earlier_rows import EarlierRows
from sqlstream.runtime.operators.over.framed_calls import FramedCalls, Prior
from sqlstream.runtime.operators.over.reach import Reach
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.ordered_multiset import OrderedMultiset
from sqlstream.specs.over import OverSpec

_FEW_ROWS = 256
"""Rows of a partition that are rather computed than spared: that has a cost of its own, and most partitions are small."""


_UNCHANGED = -1


class _Results(NamedTuple):
    """The results of rows, copy by copy: those of row i are the `copies[i]` ones from `offsets[i]` on."""

    columns: list[pa.Array]
    offsets: Array
    copies: Array


class _Copies:
    """How often rows were there before a batch and are behind it. State: between `begin` and `end` a number per changed row."""

    def __init__(self) -> None:
        self._before = GrowingArray(np.int64, fill=_UNCHANGED)

    def begin(self, rows: Array, before: Array, slot_count: int) -> None:
        """These distinct rows, of at most `slot_count`, were there another number of times."""
        self._before.reserve(slot_count)
        self._before.values[rows] = before

    def end(self, rows: Array) -> None:
        self._before.values[rows] = _UNCHANGED

    def of(self, rows: Array, counts: Array) -> tuple[Array, Array]:
        """(int64[n] before, int64[n] behind); `counts` are by row."""
        after = np.maximum(counts[rows], 0)
        before = self._before.values[rows]
        before = np.where(before == _UNCHANGED, after, before)
        return before, after


class OverOnChange(Operator[OverSpec]):
    """Computes the rows that a batch affects as they were and as they are, and emits the difference.

    A batch costs its own rows, the rows whose results they may change (see Reach) and those that these read. For frames that
    begin with the partition, these are the rows from the first changed one on, and only up to the last changed one where all rows
    up to that come to what they did before. Calls that need the whole partition read it.
    Rows of equal order are in order of arrival.
    State: all rows with their counts, by partition and in order. A row is forgotten when its count is zero, a partition with its
    last row or `state_ttl_ms` after it last received one. Not saved: what the rows of a partition up to one come to.
    """

    def __init__(self, spec: OverSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._table = context.state.add(
            OrderedMultiset(
                "rows",
                to_arrow_schema(schema),
                spec.partition_keys,
                context.state.scope,
                spec.order,
                list_length=1,
                ttl_ms=spec.state_ttl_ms,
            )
        )
        self._copies = _Copies()
        self._reach = Reach.of(spec, schema)
        self._affected = AffectedRows(self._reach, spec.order, self._table)
        carries = self._reach.is_running and not (self._reach.reads_all or self._reach.is_whole)
        self._earlier = EarlierRows(spec, schema, self._table) if carries else None
        ordered = [key.column for key in spec.order]
        # A batch without columns would have no rows.
        self._columns = sorted({*ordered, *(c for call in spec.calls for c in call.columns())}) or [0]
        places = {column: place for place, column in enumerate(self._columns)}
        self._order = tuple(msgspec.structs.replace(key, column=places[key.column]) for key in spec.order)
        calls = tuple(call.moved(places) for call in spec.calls)
        self._calls = FramedCalls(calls, schema.select(tuple(self._columns)))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        signs = np.where(is_accumulate(row_kinds(batch)), 1, -1)
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
        """Emit what changes."""
        prior: Prior | None = None
        if self._reach.is_running:
            changed = changed.by_key()
            first = self._affected.first(changed)
            read_from = self._affected.read_from(changed, first)
            is_settled = np.zeros(len(first), dtype=bool)
            if self._earlier is not None:
                read_from = np.where(read_from > _FEW_ROWS, read_from, 0)
                prior, is_settled = self._before(self._earlier, changed, read_from)
            end = self._affected.end(changed, is_settled)
        else:
            first, end = self._affected.first(changed), self._affected.end(changed)
            changed, first, end = changed.together(first, end, self._reach.before + self._reach.after)
            read_from = self._affected.read_from(changed, first)
        read_until = self._affected.read_until(changed, end)
        positions, rows = self._table.order.between(changed.keys, read_from, read_until)
        lengths = read_until - read_from
        affected = _places(np.cumsum(lengths) - lengths + first - read_from, end - first)
        columns = self._table.rows.columns(rows, self._columns)
        copies = self._copies.of(rows, self._table.rows.counts)
        old, new = (self._computed(len(first), positions, columns, c, prior, affected) for c in copies)
        self._emit(rows[affected], old, new, output)

    def _before(
        self, running: EarlierRows, changed: ChangedRows, read_from: Array
    ) -> tuple[Prior | None, Array]:
        """What the rows before `read_from` come to, and by key whether all rows up to the last changed one come to what they did
        before: then results behind it do not differ."""
        until = self._affected.changed_until(changed)
        is_settled = np.zeros(len(until), dtype=bool)
        # It is looked at where it can spare more rows than it reads.
        spared = changed.sizes - until
        looked_at = np.flatnonzero((spared > _FEW_ROWS) & (spared > until - read_from))
        if not len(looked_at) and not read_from.any():
            running.forget(changed.keys)
            return None, is_settled
        earlier = running.until(changed.keys, read_from)
        positions, rows = self._table.order.between(
            changed.keys[looked_at], read_from[looked_at], until[looked_at]
        )
        before, after = self._copies.of(rows, self._table.rows.counts)
        chosen = pa.array(looked_at)
        found = [column.take(chosen) for column in earlier]
        old = running.followed_by(found, positions, rows, before)
        new = running.followed_by(found, positions, rows, after)
        is_settled[looked_at] = True
        for one, other in zip(old, new, strict=True):
            is_settled[looked_at] &= equal_values(one, other)
        if self._reach.sees_first:
            is_settled &= changed.first > 0
        return running.prior(earlier, changed.keys, read_from), is_settled

    def _computed(
        self,
        count: int,
        positions: Array,
        columns: list[pa.Array],
        copies: Array,
        prior: Prior | None,
        affected: Array,
    ) -> _Results:
        """The results of the `affected` ones of rows of `count` partitions in order, which are there `copies` times."""
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
