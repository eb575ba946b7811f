"""Reads a table from its begin to its end, whatever connector it has."""

from __future__ import annotations

import dataclasses
import threading

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors import connector
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.spi.lookup import too_many_rows

_PAUSE_MAX_S = 0.1


class WholeTable:
    """Implements `LookupSource` but for its keys, by the reader of a table that ends. Every subtask reads all of it. No state."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext) -> None:
        self._spec = spec
        # Its rows are none that the operator has got.
        self._context = dataclasses.replace(
            context, subtask=0, parallelism=1, is_first=True, count=lambda name, n: None
        )
        types = {field.name: field for field in spec.schema.fields}
        read = Schema(tuple(types[name] for name in spec.columns) + spec.metadata)
        self._schema = to_arrow_schema(read)
        self._is_cancelled = threading.Event()
        context.on_cancel(self._is_cancelled.set)

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        raise AssertionError("a whole table has no keys")

    def load(self, rows_max: int) -> pa.RecordBatch:
        """All rows. UserError SS5064 for more than `rows_max`."""
        reader = connector(self._spec.connector).source(self._spec, self._context, None)
        parts, rows = [], 0
        try:
            while (polled := reader.poll()) is not SourceStatus.END:
                if self._is_cancelled.is_set():
                    raise ExternalError("SS5089", "the task was cancelled while it read a table")
                if not isinstance(polled, pa.RecordBatch):
                    due_ms = reader.next_poll_ms()
                    pause_s = _PAUSE_MAX_S if due_ms is None else (due_ms - self._context.now_ms()) / 1000
                    self._is_cancelled.wait(min(max(pause_s, 0.001), _PAUSE_MAX_S))
                    continue
                rows += polled.num_rows
                if rows > rows_max:
                    raise too_many_rows(self._spec.table, rows_max)
                parts.append(pa.RecordBatch.from_arrays(polled.columns, schema=self._schema))
        finally:
            reader.close()
        if not parts:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(0, f.type) for f in self._schema], schema=self._schema
            )
        return pa.concat_batches(parts)

    def close(self) -> None:
        return None
