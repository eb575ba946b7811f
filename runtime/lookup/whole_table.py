"""Reads a table from its begin to its end, whatever connector it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.connectors import connector
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus

_PAUSE_MS = 100


class WholeTable:
    """Implements `LookupSource` but for its keys, by the reader of a table that ends. Every subtask reads all of it. No state."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, pause_ms: Callable[[int], None]) -> None:
        """`pause_ms` waits, and raises when the task is cancelled."""
        self._spec, self._pause_ms = spec, pause_ms
        # Its rows are none that the operator has got.
        self._context = dataclasses.replace(
            context, subtask=0, parallelism=1, is_first=True, count=lambda name, n: None
        )
        types = {field.name: field for field in spec.schema.fields}
        read = Schema(tuple(types[name] for name in spec.columns) + spec.metadata)
        self._schema = to_arrow_schema(read)

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        raise AssertionError("a whole table has no keys")

    def load(self, rows_max: int) -> pa.RecordBatch:
        """All rows. UserError SS5446 for more than `rows_max`, and for more than a column in memory holds."""
        reader = connector(self._spec.connector).source(self._spec, self._context, None)
        parts, rows = [], 0
        try:
            while (polled := reader.poll()) is not SourceStatus.END:
                if not isinstance(polled, pa.RecordBatch):
                    self._pause_ms(self._wait_ms(reader))
                    continue
                self._pause_ms(0)
                rows += polled.num_rows
                if rows > rows_max:
                    raise _too_large(self._spec.table, f"{rows_max} rows")
                parts.append(pa.RecordBatch.from_arrays(polled.columns, schema=self._schema))
        finally:
            reader.close()
        return one_batch(parts, self._schema, self._spec.table)

    def _wait_ms(self, reader: SourceReader) -> int:
        """Until the reader may have something."""
        due_ms = reader.next_poll_ms()
        return _PAUSE_MS if due_ms is None else min(max(due_ms - self._context.now_ms(), 1), _PAUSE_MS)

    def close(self) -> None:
        return None


def one_batch(parts: list[pa.RecordBatch], schema: pa.Schema, table: str) -> pa.RecordBatch:
    """The rows of all parts. UserError SS5446."""
    if not parts:
        return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    try:
        return pa.concat_batches(parts)
    except pa.ArrowInvalid as error:
        # Values of ARRAYs and bytes of texts are counted in 32 bits.
        raise _too_large(table, f"{2**31 - 1} values or bytes in one column") from error


def _too_large(table: str, most: str) -> UserError:
    return UserError("SS5446", f'table "{table}" is read into memory and has more than {most}')
