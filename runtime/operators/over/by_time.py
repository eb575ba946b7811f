"""OVER in order of time: each row is emitted once."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.over.frames import (
    FramedCalls,
    Prior,
    carried_call,
    filtered,
    first_of_equals,
)
from sqlstream.runtime.operators.over.sorted import SortedRows
from sqlstream.runtime.operators.window.closing import closed_ms, drop_late
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.schema import Schema
from sqlstream.specs.over import NEIGHBOURS, OverCall, OverSpec, OverTiming


class OverByTime(Operator[OverSpec]):
    """Emits rows in order of time when the watermark has passed their frames, or as they arrive. Late rows are dropped
    and counted.

    State: rows that wait for the watermark; the watermark, or the time of the last row that arrived; and the rows that frames of
    later rows hold. If all frames begin with the partition and end with the current row, accumulators by key instead of rows.
    """

    def __init__(self, spec: OverSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._input = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema)
        self._calls = FramedCalls(spec.calls, context.input_schemas[0])
        self._is_by_arrival = spec.timing is OverTiming.ARRIVAL
        state = context.state
        self._waiting = RowLog("waiting", self._input, state.scope, spec.partition_keys)
        if not self._is_by_arrival:
            state.add(self._waiting)
        self._closed_ms = state.add(closed_ms())
        self._retained: RetainedRows | None = None
        self._accumulators: _Accumulators | None = None
        if spec.rows_before or spec.rows_after or spec.ms_before:
            self._retained = RetainedRows(spec, self._input, context)
        elif all(call.frame.start is None and call.function not in NEIGHBOURS for call in spec.calls):
            self._accumulators = _Accumulators(spec, context.input_schemas[0], context)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._is_by_arrival:
            # The clock may be set back, or be that of another machine after a restart: rows stay in order of arrival.
            self._closed_ms.value = max(self.context.now_ms(), self._closed_ms.value)
            now = np.full(batch.num_rows, self._closed_ms.value, dtype=np.int64)
            if self._retained is not None and self.spec.ms_before:
                self._retained.drop_until(int(now[0]) - self.spec.ms_before - 1)
            self._emit(batch, now, batch.slice(0, 0), output)
            return
        times = times_ms(batch.column(self.spec.time_column))
        # A row with a time is late as a window that ends after this millisecond would be closed.
        batch, ends = drop_late(batch, times + 1, self._closed_ms.value, self.context)
        self._waiting.append(batch, ends - 1)

    def held_rows(self) -> int | None:
        held = self._waiting.row_count
        if self._retained is not None and self.spec.rows_after:
            held += self._retained.last_count(self.spec.rows_after)
        return held

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self._is_by_arrival or watermark_ms == WATERMARK_MIN:
            return watermark_ms
        is_last = watermark_ms == WATERMARK_MAX
        limit = watermark_ms if is_last else watermark_ms - self.spec.ms_after
        if watermark_ms <= self._closed_ms.value:
            # Rows behind the limit wait, those of restored state too.
            return limit
        chunks = self._waiting.take_until(limit)
        has_later = bool(chunks) and self.spec.ms_after > 0
        waiting = self._waiting.chunks if has_later else []
        later = [c.batch.filter(pa.array(c.times <= watermark_ms)) for c in waiting]
        self._closed_ms.value = watermark_ms
        if chunks:
            times = np.concatenate([c.times for c in chunks])
            batch = concat_batches([c.batch for c in chunks], self._input)
            self._emit(batch, times, concat_batches(later, self._input), output)
        if is_last and self._retained is not None and self.spec.rows_after:
            self._finish(output)
        elif self._retained is not None and self.spec.ms_before:
            self._retained.drop_until(limit - self.spec.ms_before)
        return limit

    def on_restored(self) -> None:
        if self._retained is not None:
            self._retained.on_restored()

    def _finish(self, output: Output) -> None:
        """Emit the rows that wait for rows behind them, which do not come any more."""
        assert self._retained is not None
        kept = self._retained.all()
        order = self._sorted(kept.batch, kept.times, kept.partitions, kept.partition_count)
        rows = self._rows(kept.batch, kept.partitions, order, kept.partition_count)
        is_due = (rows.last - rows.numbers) <= self.spec.rows_after
        self._emit_sorted(rows, kept.times[order], is_due, None, output)
        self._retained.remove(kept.ids)

    def _emit(self, batch: pa.RecordBatch, times: Array, later: pa.RecordBatch, output: Output) -> None:
        """Emit the rows of `batch`, which the `later` rows follow."""
        keys = [batch.column(k) for k in self.spec.partition_keys]
        partitions, first_rows = batch_groups(keys, batch.num_rows)
        distinct = [key.take(pa.array(first_rows)) for key in keys]
        if self._retained is not None or self.spec.ms_after:
            self._emit_with_neighbours(batch, times, partitions, distinct, later, output)
            return
        count = len(first_rows)
        order = self._sorted(batch, times, partitions, count)
        rows = self._rows(batch, partitions, order, count)
        prior = None if self._accumulators is None else self._accumulators.add(distinct, rows)
        self._emit_sorted(rows, times[order], np.ones(len(rows), dtype=bool), prior, output)

    def _emit_with_neighbours(
        self,
        batch: pa.RecordBatch,
        times: Array,
        partitions: Array,
        distinct: list[pa.Array],
        later: pa.RecordBatch,
        output: Output,
    ) -> None:
        """Emit rows whose frames hold retained or later rows: all are computed as [retained, batch, later]."""
        count = len(distinct[0]) if distinct else 1
        parts, all_times, all_partitions = [batch], [times], [partitions]
        before = 0
        if self._retained is not None:
            kept = self._retained.of(distinct, count)
            parts.insert(0, kept.batch)
            all_times.insert(0, kept.times)
            all_partitions.insert(0, kept.partitions)
            before = len(kept.ids)
        if later.num_rows:
            known = self._partitions_of(later, distinct)
            later = later.filter(pa.array(known >= 0))
            parts.append(later)
            all_times.append(times_ms(later.column(self.spec.time_column)))
            all_partitions.append(known[known >= 0])
        whole = concat_batches([p for p in parts if p.num_rows], self._input)
        moments, numbers = np.concatenate(all_times), np.concatenate(all_partitions)
        order = self._sorted(whole, moments, numbers, count)
        rows = self._rows(whole, numbers, order, count)
        is_new = (order >= before) & (order < before + batch.num_rows)
        self._emit_sorted(rows, moments[order], self._due(rows, is_new), None, output)
        if self._retained is not None:
            self._keep(rows, order, before, batch, times, kept.ids)

    def _due(self, rows: SortedRows, is_new: Array) -> Array:
        """bool[n]: rows that are emitted. Of a partition all rows have been emitted but the last `rows_after` kept ones."""
        waits = self.spec.rows_after
        if not waits:
            return is_new
        last_kept = np.bincount(rows.partitions[~is_new], minlength=rows.count)
        place = rows.numbers - rows.first
        was_emitted = ~is_new & (place < last_kept[rows.partitions] - waits)
        return ~was_emitted & (rows.last - 1 - rows.numbers >= waits)

    def _keep(
        self, rows: SortedRows, order: Array, before: int, batch: pa.RecordBatch, times: Array, ids: Array
    ) -> None:
        """Retain the rows that frames of later rows hold, and those not emitted yet; forget the others."""
        assert self._retained is not None
        is_kept = np.ones(len(rows), dtype=bool)
        if self.spec.keeps_needed_rows:
            is_kept = is_read_later(self.spec.calls, rows)
        elif self.spec.rows_before >= 0 and not self.spec.ms_before:
            is_kept = rows.last - rows.numbers <= self.spec.rows_before + self.spec.rows_after
        gone = order[~is_kept & (order < before)]
        self._retained.remove(ids[gone])
        places = order - before
        added = places[is_kept & (places >= 0) & (places < batch.num_rows)]
        self._retained.append(batch.take(pa.array(added)), times[added])

    def _partitions_of(self, batch: pa.RecordBatch, distinct: list[pa.Array]) -> Array:
        """The number of each row's key among `distinct`, -1 for none."""
        if not distinct:
            return np.zeros(batch.num_rows, dtype=np.int64)
        count = len(distinct[0])
        keys = [
            pa.chunked_array([d, batch.column(k)]).combine_chunks()
            for d, k in zip(distinct, self.spec.partition_keys, strict=True)
        ]
        groups, _ = batch_groups(keys, count + batch.num_rows)
        # The keys of `distinct` come first, each once: they are groups 0 to count - 1 in some numbering.
        number = np.full(int(groups.max(initial=0)) + 1, -1, dtype=np.int64)
        number[groups[:count]] = np.arange(count)
        return number[groups[count:]]

    def _sorted(self, batch: pa.RecordBatch, times: Array, partitions: Array, count: int) -> Array:
        """The rows by partition, then by time and the other columns of the order, then by arrival."""
        others = tuple(k for k in self.spec.order if k.column != self.spec.time_column)
        if others and not self._is_by_arrival:
            columns = [batch.column(k.column) for k in others]
            return sort_indices([partitions, times], columns, others)
        is_in_order = bool(np.all(times[1:] >= times[:-1]))
        if is_in_order:
            return argsort_stable_by(partitions, count)[0]
        by_time = np.argsort(times, kind="stable")
        return by_time[argsort_stable_by(partitions[by_time], count)[0]]

    def _rows(self, batch: pa.RecordBatch, partitions: Array, order: Array, count: int) -> SortedRows:
        return SortedRows(
            batch.take(pa.array(order)), partitions[order], count, self.spec.order, self._is_by_arrival
        )

    def _emit_sorted(
        self, rows: SortedRows, times: Array, is_due: Array, prior: Prior | None, output: Output
    ) -> None:
        """Emit the due rows in order of time."""
        results = self._calls.compute(rows, prior)
        made = pa.RecordBatch.from_arrays([*rows.batch.columns, *results], schema=self._schema)
        due = np.flatnonzero(is_due)
        output.emit(made.take(pa.array(due[np.argsort(times[due], kind="stable")])))


class _Accumulators:
    """The accumulators of all rows so far by key. State: those, dropped `state_ttl_ms` after a key's last row."""

    def __init__(self, spec: OverSpec, schema: Schema, context: OperatorContext) -> None:
        calls = tuple(carried_call(call, len(schema)) for call in spec.calls)
        types = tuple(tuple(schema.types[a] for a in call.args) for call in calls)
        names = [f.name for f in context.output_schema.fields[len(schema) :]]
        self._by_peers = any(call.filter == len(schema) for call in calls)
        self._set = AccumulatorSet(calls, types, False, names)
        self._widths = [len(a.suffixes) for a in self._set.accumulators]
        arrow = to_arrow_schema(schema)
        keys = pa.schema([arrow.field(k) for k in spec.partition_keys])
        self._table = context.state.add(
            KeyedTable(
                "accumulators",
                keys,
                [self._set],
                context.state.scope,
                ttl_ms=spec.state_ttl_ms,
                parts=self._set.parts,
            )
        )

    def add(self, distinct: list[pa.Array], rows: SortedRows) -> Prior:
        """The accumulators of the partitions' keys before these rows, which are added."""
        slots, _ = self._table.get_or_create(distinct)
        self._table.writing(slots)
        columns, prior = iter(self._set.columns(slots)), []
        for width in self._widths:
            prior.append([next(columns) for _ in range(width)])
        batch = rows.batch
        if self._by_peers:
            begins = to_array(pa.bool_(), rows.begins_peers)
            batch = pa.RecordBatch.from_arrays(
                [*batch.columns, begins], names=[str(i) for i in range(batch.num_columns + 1)]
            )
        self._set.accumulate(slots[rows.partitions], batch)
        return prior  # type: ignore[return-value]


class Kept(NamedTuple):
    """Kept rows of `partition_count` partitions in order of time and arrival, with the number of each one's partition."""

    batch: pa.RecordBatch
    times: Array
    partitions: Array
    ids: Array
    partition_count: int


class RetainedRows:
    """Emitted rows that frames of later rows hold, by partition key, with their times.

    State: the rows, until `remove`, or until `drop_until` passes their times if frames are of time. Else each is dropped
    `state_ttl_ms` after it arrived.
    """

    def __init__(self, spec: OverSpec, schema: pa.Schema, context: OperatorContext) -> None:
        self._schema = schema
        self._is_by_time = spec.ms_before > 0
        kept = pa.schema([*schema, pa.field("$time_ms", pa.int64()), pa.field("$number", pa.int64())])
        ttl_ms = 0 if self._is_by_time else spec.state_ttl_ms
        state = context.state
        self._rows = state.add(KeyedRows("rows", kept, spec.partition_keys, state.scope, ttl_ms=ttl_ms))
        self._next_number = state.add(Broadcast("next_number", 0, max))
        self._by_time: deque[tuple[Array, Array]] = deque()

    def of(self, keys: list[pa.Array], count: int) -> Kept:
        """The rows of `count` keys."""
        return self._kept(self._rows.find(keys, count), count)

    def all(self) -> Kept:
        slots = self._rows.key_slots()
        return self._kept(slots, len(slots))

    def last_count(self, number: int) -> int:
        """How many rows are among the last `number` of their partition."""
        slots = self._rows.key_slots()
        partitions, _ = self._rows.match(slots)
        return int(np.minimum(np.bincount(partitions, minlength=len(slots)), number).sum())

    def _kept(self, slots: Array, count: int) -> Kept:
        partitions, ids = self._rows.match(slots)
        rows = self._rows.gather(ids)
        times, numbers = (view_values(column, np.int64) for column in rows.columns[-2:])
        order = np.lexsort((numbers, times))
        batch = pa.RecordBatch.from_arrays(rows.columns[:-2], schema=self._schema).take(pa.array(order))
        return Kept(batch, times[order], partitions[order], ids[order], count)

    def append(self, batch: pa.RecordBatch, times: Array) -> None:
        if batch.num_rows == 0:
            return
        first = self._next_number.value
        self._next_number.value = first + batch.num_rows
        numbers = to_array(pa.int64(), np.arange(first, first + batch.num_rows))
        names = [*self._schema.names, "$time_ms", "$number"]
        columns = [*batch.columns, to_array(pa.int64(), np.ascontiguousarray(times)), numbers]
        ids = self._rows.append(pa.RecordBatch.from_arrays(columns, names=names))
        if self._is_by_time:
            self._note(times, ids)

    def _note(self, times: Array, ids: Array) -> None:
        order = np.argsort(times, kind="stable")
        self._by_time.append((times[order], ids[order]))

    def remove(self, ids: Array) -> None:
        if len(ids):
            self._rows.remove(ids)

    def drop_until(self, limit_ms: int) -> None:
        """Forget the rows with times up to `limit_ms`; rows come in order of time, batch by batch."""
        gone = []
        while self._by_time and int(self._by_time[0][0][0]) <= limit_ms:
            times, ids = self._by_time.popleft()
            dropped = int(np.searchsorted(times, limit_ms, side="right"))
            gone.append(ids[:dropped])
            if dropped < len(times):
                self._by_time.appendleft((times[dropped:], ids[dropped:]))
                break
        if gone:
            self.remove(np.concatenate(gone))

    def on_restored(self) -> None:
        """Note the times of restored rows."""
        self._by_time.clear()
        kept = self.all()
        if self._is_by_time and len(kept.ids):
            self._note(kept.times, kept.ids)


def is_read_later(calls: tuple[OverCall, ...], rows: SortedRows) -> Array:
    """bool[n]: the rows whose values decide results of later rows: for FIRST_VALUE the first of a partition, for LAG(x, 2) the
    last two. Of calls none of which `needs_all_before`, whose frames begin with the partition and end with the current row."""
    found = np.zeros(len(rows), dtype=bool)
    for call in calls:
        found |= _is_read_by(call, rows)
    return found


def _is_read_by(call: OverCall, rows: SortedRows) -> Array:
    arguments = [rows.batch.column(a) for a in call.args]
    takes_part = filtered(call, rows)
    if call.is_distinct:
        for argument in arguments:
            takes_part &= present_rows(argument)
        return first_of_equals(arguments, takes_part, rows)
    if call.skips_nulls:
        takes_part &= present_rows(arguments[0])
    # How many rows that take part come before each row, and before the end of its partition.
    before = np.cumsum(takes_part) - takes_part
    ends = np.append(before, np.count_nonzero(takes_part))
    if call.function in ("FIRST_VALUE", "NTH_VALUE"):
        chosen = before - before[rows.first] < (call.number or 1)
    else:
        count = call.number if call.function in NEIGHBOURS else 1
        chosen = ends[rows.last] - before - 1 < count
    return takes_part & chosen
