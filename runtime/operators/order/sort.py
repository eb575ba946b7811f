"""Operators of ORDER BY and LIMIT."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.messages.ledger import FILTERED
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.window.closing import closed_ms, drop_late
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.logs.chunk_changes import ChunkChanges, ChunkCopy, SavedByChunks, in_order
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.runtime.state.operator_state import NeverExpires
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, key_group_column
from sqlstream.runtime.state.storage.arrays import Array, held_bytes, self_contained
from sqlstream.runtime.state.tables.row_multiset import RowMultiset
from sqlstream.specs.calc import LimitSpec
from sqlstream.specs.rank import SortSpec, TemporalSortSpec


class RowList(SavedByChunks, NeverExpires):
    """The rows of an operator that runs in one subtask. State: the batches, none of which is held for a few of its rows."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._batches: dict[int, pa.RecordBatch] = {}
        self._memory = memory_in_force()
        self._changes = ChunkChanges(name, schema.names)
        self._nbytes = 0
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            # Inputs of a UNION ALL may differ in their column names; the batches are concatenated.
            columns = self._memory.settled(self_contained(batch.columns))
            number = self._changes.next_number()
            self._batches[number] = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            self._nbytes += held_bytes(columns)
            self._rows += batch.num_rows

    def replace(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Forget all rows, and keep these instead."""
        self._batches, self._nbytes, self._rows = {}, 0, 0
        for batch in batches:
            self.append(batch)

    def collected(self) -> pa.RecordBatch:
        """All rows as one batch."""
        if not self._batches:
            return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in self.schema], schema=self.schema)
        return pa.concat_batches([*self._batches.values()])

    def chunk_copies(self) -> list[ChunkCopy]:
        """The batches as they are, all in key group 0."""
        return [
            ChunkCopy(number, 0, batch.num_rows, functools.partial(_saved, batch))
            for number, batch in self._batches.items()
        ]

    def load(self, saved: SavedTables) -> None:
        for batch in in_order(saved.batches(self.name)):
            self.append(pa.RecordBatch.from_arrays(batch.columns[FIXED_COLUMNS:], schema=self.schema))

    def nbytes(self) -> int:
        return self._nbytes + self._changes.nbytes


def _saved(batch: pa.RecordBatch) -> tuple[pa.Array, list[pa.Array]]:
    return key_group_column([], batch.num_rows, 1), batch.columns


_OUTPUT_ROWS = 65_536
_PRUNE_ROWS_MIN = 262_144
"""No rows are dropped while there are fewer than this many."""


class Sort(Operator[SortSpec]):
    """Emits the final rows in order when the input has ended.

    State: all rows; for an insert-only input with FETCH only those that can still be among the first offset + fetch rows.
    """

    def __init__(self, spec: SortSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = to_arrow_schema(context.input_schemas[0])
        self._prune_above = spec.offset + spec.fetch + _PRUNE_ROWS_MIN
        # One of the two, by whether the input retracts.
        self._rows: RowList | None = None
        self._changes: RowMultiset | None = None
        if context.input_modes[0].is_insert_only:
            self._rows = context.state.add(RowList("rows", schema))
        else:
            self._changes = context.state.add(RowMultiset(schema, "rows"))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._changes is not None:
            self._changes.sweep(self._changes.apply(batch)[0])
        elif self._rows is not None:
            self._rows.append(batch)
            if self.spec.fetch >= 0 and len(self._rows) > self._prune_above:
                self._prune(self._rows)

    def _prune(self, rows: RowList) -> None:
        batch = rows.collected()
        stop = self.spec.offset + self.spec.fetch
        best = self._order(batch)[:stop]
        # Rows remain in order of arrival: the sort is stable, and ties must keep their order.
        rows.replace([batch.take(pa.array(np.sort(best)))])
        self._prune_above = stop + max(_PRUNE_ROWS_MIN, 2 * len(best))

    def _order(self, batch: pa.RecordBatch) -> Array:
        columns = [batch.column(k.column) for k in self.spec.order]
        if not columns:
            return np.arange(batch.num_rows)
        return sort_indices([], columns, self.spec.order)

    def held_rows(self) -> int | None:
        return len(self._rows) if self._rows is not None else None

    def _collected(self) -> pa.RecordBatch:
        if self._rows is not None:
            return self._rows.collected()
        assert self._changes is not None
        return self._changes.rows()

    def on_finish(self, output: Output) -> None:
        batch = self._collected()
        stop = None if self.spec.fetch < 0 else self.spec.offset + self.spec.fetch
        rows = self._order(batch)[self.spec.offset : stop]
        for start in range(0, len(rows), _OUTPUT_ROWS):
            output.emit(batch.take(pa.array(rows[start : start + _OUTPUT_ROWS])))
        if self._rows is not None:
            self._rows.replace([])


class TemporalSort(Operator[TemporalSortSpec]):
    """Emits the rows that a watermark has passed in order, before the watermark.

    State: the rows that no watermark has passed yet. By processing time there is none.
    """

    def __init__(self, spec: TemporalSortSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.input_schemas[0])
        self._is_event_time = spec.time_column >= 0
        if self._is_event_time:
            self._waiting = context.state.add(RowLog("rows", self._schema, context.state.scope))
            self._passed_ms = context.state.add(closed_ms())

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if not self._is_event_time:
            self._emit(batch, output)
            return
        column = batch.column(self.spec.time_column)
        if column.null_count:
            name = self._schema.names[self.spec.time_column]
            raise UserError(
                "SS5104", f'rowtime "{name}" is null', hint=f"filter such rows out: WHERE {name} IS NOT NULL"
            )
        # The row of a millisecond is late as a window that ends with it would be.
        batch, ends = drop_late(batch, times_ms(column) + 1, self._passed_ms.value, self.context)
        self._waiting.append(batch, ends - 1)

    def _emit(self, batch: pa.RecordBatch, output: Output) -> None:
        if self.spec.order:
            order = sort_indices([], [batch.column(k.column) for k in self.spec.order], self.spec.order)
            batch = batch.take(pa.array(order))
        for start in range(0, batch.num_rows, _OUTPUT_ROWS):
            output.emit(batch.slice(start, _OUTPUT_ROWS))

    def held_rows(self) -> int | None:
        return self._waiting.row_count if self._is_event_time else None

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self._is_event_time and watermark_ms > self._passed_ms.value:
            passed = self._waiting.take_until(watermark_ms)
            if passed:
                self._emit(concat_batches([chunk.batch for chunk in passed], self._schema), output)
            self._passed_ms.value = watermark_ms
        return watermark_ms


class Limit(Operator[LimitSpec]):
    """Emits `fetch` rows after `offset`, in order of arrival, and drops the others. State: the number of rows so far."""

    def __init__(self, spec: LimitSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        # One subtask counts the rows, whatever the parallelism of the job.
        self._seen = context.state.add(Broadcast("seen_rows", 0, max))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        start = max(self.spec.offset - self._seen.value, 0)
        stop = batch.num_rows
        if self.spec.fetch >= 0:
            stop = min(stop, self.spec.offset + self.spec.fetch - self._seen.value)
        self._seen.value += batch.num_rows
        self.context.count(FILTERED, batch.num_rows - max(stop - start, 0))
        if stop > start:
            output.emit(batch.slice(start, stop - start))
