"""Reads rows of a DuckDB table by key: one query for all keys of a batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from runtime.connectors.declared_rows import as_declared
from runtime.connectors.duckdb.database import INSTANCES, Reading, interrupt
from runtime.connectors.duckdb.options import Place
from runtime.connectors.duckdb.relation import Relation, open_relation
from runtime.connectors.sql_filters import quote, text, where
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.lookup import too_many_rows

IN_LIST_MAX = 1_000
"""A server's table is scanned by DuckDB itself; up to this many values of the first key are sent along as its filter."""


class DuckDbLookup:
    """Joins the keys with the table in DuckDB. The database is attached for the time of a query alone, so that another process
    can write it between two batches. State: the table with its columns, which are checked once."""

    def __init__(
        self, spec: SourceSpec, place: Place, keys: tuple[str, ...], context: ConnectorContext
    ) -> None:
        self._spec = spec
        self._place = place
        self._keys = keys
        self._files = context.files
        self._relation: Relation | None = None
        self._connection: Any = None
        context.on_cancel(lambda: interrupt(self._connection))

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        with INSTANCES.reading(self._place, self._files) as reading:
            connection, relation = reading.connection, self._open(reading)
            connection.register("lookup_keys", pa.Table.from_batches([keys]))
            source = f"(SELECT {self._columns(relation)} FROM {relation.item}{self._where(keys)})"
            on = " AND ".join(f"t.{quote(k)} = k.{quote(k)}" for k in self._keys)
            query = f"SELECT {relation.select(self._spec.columns, 't.')} FROM {source} AS t JOIN lookup_keys AS k ON {on}"
            return as_declared(relation.columns, connection.sql(query).to_arrow_table(), self._spec.table)

    def load(self, rows_max: int) -> pa.RecordBatch:
        with INSTANCES.reading(self._place, self._files) as reading:
            connection, relation = reading.connection, self._open(reading)
            condition = where(self._spec.filters, [quote(name) for name in self._spec.columns])
            query = f"SELECT {self._columns(relation)} FROM {relation.item}{condition} LIMIT {rows_max + 1}"
            rows = connection.sql(query).to_arrow_table()
            if rows.num_rows > rows_max:
                raise too_many_rows(self._spec.table, rows_max)
            return as_declared(relation.columns, rows, self._spec.table)

    def close(self) -> None:
        return None

    def _open(self, reading: Reading) -> Relation:
        self._connection = reading.connection
        if self._relation is None or self._place.kind.is_files:
            self._relation = open_relation(self._place, self._spec, reading)
        return self._relation

    def _columns(self, relation: Relation) -> str:
        return relation.select(self._spec.columns)

    def _where(self, keys: pa.RecordBatch) -> str:
        condition = where(self._spec.filters, [quote(name) for name in self._spec.columns])
        listed = _in_list(keys.column(0)) if self._place.kind.is_server else ""
        if not listed:
            return condition
        added = f"{quote(self._keys[0])} IN ({listed})"
        return f"{condition} AND {added}" if condition else f" WHERE {added}"


def _in_list(column: pa.Array) -> str:
    """The distinct values as SQL; empty for too many, and for types that have no plain text."""
    values = column.unique()
    if len(values) > IN_LIST_MAX:
        return ""
    if pa.types.is_integer(values.type):
        return ", ".join(str(value) for value in values.to_pylist())
    if pa.types.is_string(values.type):
        return ", ".join(text(value) for value in values.to_pylist())
    return ""
