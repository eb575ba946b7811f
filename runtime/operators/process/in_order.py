"""Rows that a process table function sees in the order of their times: they wait for the watermark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MIN
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.process.timers import Timers
from sqlstream.runtime.operators.window.closing import drop_late
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.process_table import ProcessInput, waiting_name


@dataclasses.dataclass(frozen=True)
class Turn:
    """Rows of one table that are processed in one call, in order."""

    table: int
    batch: pa.RecordBatch


class WaitingRows:
    """The rows of the tables with ORDER BY. State: a log of them for each table."""

    def __init__(
        self, inputs: Sequence[ProcessInput], schemas: Sequence[pa.Schema], context: OperatorContext
    ) -> None:
        self._inputs, self._schemas, self._context = inputs, schemas, context
        self._logs = {
            number: context.state.add(
                RowLog(waiting_name(read.name), schema, context.state.scope, read.partition_keys)
            )
            for number, (read, schema) in enumerate(zip(inputs, schemas, strict=True))
            if read.order_column >= 0
        }

    def add(self, batch: pa.RecordBatch, table: int, watermark_ms: int | None) -> None:
        """Late rows are dropped and counted."""
        times = times_ms(batch.column(self._inputs[table].order_column))
        passed = WATERMARK_MIN if watermark_ms is None else watermark_ms
        batch, ends = drop_late(batch, times + 1, passed, self._context)
        self._logs[table].append(batch, ends - 1)

    def take(self, watermark_ms: int, *, stops_for_timers: bool) -> Rounds | None:
        """The rows whose time the watermark has passed; None where there are none."""
        parts = []
        for table, log in self._logs.items():
            chunks = log.take_until(watermark_ms)
            if chunks:
                batch = concat_batches([c.batch for c in chunks], self._schemas[table])
                parts.append((table, *self._sorted(batch, np.concatenate([c.times for c in chunks]), table)))
        return Rounds(parts, self._inputs, stops_for_timers) if parts else None

    def _sorted(self, batch: pa.RecordBatch, times: Array, table: int) -> tuple[pa.RecordBatch, Array]:
        order = self._inputs[table].order
        rows = sort_indices([times], [batch.column(key.column) for key in order], order)
        return batch.take(to_array(pa.int64(), rows)), times[rows]


class Rounds:
    """Sorted rows of several tables in rounds. A round has of each key rows that follow each other in the order of time: all of
    them, those of one table where there are several, and those of one time where timers fire in between. Of several rows at one
    time those of the first table come first.

    State: the rows, and the round of each; the keys, and the time of the rows of each in the round at hand."""

    def __init__(
        self,
        parts: list[tuple[int, pa.RecordBatch, Array]],
        inputs: Sequence[ProcessInput],
        stops_for_timers: bool,
    ) -> None:
        self._parts = parts
        first = inputs[parts[0][0]].partition_keys
        self._index = KeyIndex([parts[0][1].schema.field(k).type for k in first]) if first else None
        self._keys = [self._key_slots(batch, inputs[table].partition_keys) for table, batch, _ in parts]
        self._numbers = self._rounds(stops_for_timers)
        self._limits: Array = np.empty(0, dtype=np.int64)

    def _key_slots(self, batch: pa.RecordBatch, keys: tuple[int, ...]) -> Array:
        if self._index is None:
            return np.zeros(batch.num_rows, dtype=np.int64)
        return self._index.get_or_insert([batch.column(k) for k in keys])[0]

    def _rounds(self, stops_for_timers: bool) -> list[Array]:
        """The round of each row, by part."""
        lengths = [len(times) for *_, times in self._parts]
        if len(self._parts) == 1 and not stops_for_timers:
            return [np.zeros(lengths[0], dtype=np.int64)]
        tables = np.repeat(np.arange(len(lengths)), lengths)
        times = np.concatenate([times for *_, times in self._parts])
        keys = np.concatenate(self._keys)
        # By time, then by table, then as they are: lexsort is stable.
        by_time = np.lexsort((tables, times))
        by_key, starts = argsort_stable_by(keys[by_time], int(keys.max()) + 1)
        order = by_time[by_key]
        begins = tables[order][1:] != tables[order][:-1]
        if stops_for_timers:
            begins |= times[order][1:] != times[order][:-1]
        begins = np.append(False, begins)
        counts = np.cumsum(begins)
        firsts = np.minimum(starts[:-1], len(order) - 1)
        rounds = np.empty(len(order), dtype=np.int64)
        rounds[order] = counts - counts[firsts][keys[order]]
        return np.split(rounds, np.cumsum(lengths)[:-1])

    def __iter__(self) -> Iterator[list[Turn]]:
        for number in range(max(int(rounds.max()) for rounds in self._numbers) + 1):
            turns = []
            self._limits = np.full(max(int(k.max()) for k in self._keys) + 1, WATERMARK_MIN, dtype=np.int64)
            for (table, batch, times), keys, rounds in zip(
                self._parts, self._keys, self._numbers, strict=True
            ):
                rows = np.flatnonzero(rounds == number)
                if len(rows):
                    self._limits[keys[rows]] = times[rows] - 1
                    is_whole = len(rows) == batch.num_rows
                    turns.append(Turn(table, batch if is_whole else batch.take(to_array(pa.int64(), rows))))
            yield turns

    @property
    def last_limit(self) -> int:
        return int(self._limits.max())

    def limits_of(self, timers: Timers, slots: Array) -> Array:
        """For each timer the time that it may have to fire before the round at hand."""
        if self._index is None:
            return np.full(len(slots), self._limits[0])
        found = self._index.get(timers.table.keys(slots)[:-2])
        limits = self._limits[np.maximum(found, 0)]
        return np.where(found >= 0, limits, WATERMARK_MIN)
