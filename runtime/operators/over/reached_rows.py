"""The rows that frames of later rows reach."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.specs.over import OverSpec


class Kept(NamedTuple):
    """Kept rows of `partition_count` partitions in order of time and arrival, with the number of each one's partition."""

    batch: pa.RecordBatch
    times: Array
    partitions: Array
    ids: Array
    partition_count: int


class ReachedRows:
    """Rows by partition key with their times. State: the rows until `remove`, or until `drop_until` passes their times where
    frames are of time; others `state_ttl_ms` after they came."""

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
