"""Reads rows of a DuckDB table by key: one query for all keys of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sqlstream.runtime.connectors.declared_rows import as_declared
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, interrupt
from sqlstream.runtime.connectors.duckdb.options import Place
from sqlstream.runtime.connectors.duckdb.relation import Relation, open_relation
from sqlstream.runtime.connectors.sql_filters import quote, text, where
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.lookup import too_many_rows

IN_LIST_MAX = 1_000
"""A server's table is scanned by DuckDB itself; up to this many values of the first key are sent along as its filter."""


class DuckDbLookup:
    """Joins the keys with the table in DuckDB. The database is attached for the time of a query alone, so that another process
    can write it between two batches, or put another file in its place.

    State: the table with its columns, checked at first and whenever an answer has other types or none, as then it is another
    table."""

    def __init__(
        self, spec: SourceSpec, place: Place, keys: tuple[str, ...], context: ConnectorContext
    ) -> None:
        self._spec = spec
        self._place = place
        self._keys = keys
        self._files = context.files
        self._relation: Relation | None = None
        self._types: list[pa.DataType] = []
        self._connection: Any = None
        context.on_cancel(lambda: interrupt(self._connection))

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        def answer(connection: Any, relation: Relation) -> pa.Table:
            connection.register("lookup_keys", pa.Table.from_batches([keys]))
            source = f"(SELECT {self._columns(relation)} FROM {relation.item}{self._where(keys)})"
            on = " AND ".join(f"t.{quote(k)} = k.{quote(k)}" for k in self._keys)
            query = f"SELECT {relation.select(self._spec.columns, 't.')} FROM {source} AS t JOIN lookup_keys AS k ON {on}"
            return connection.sql(query).to_arrow_table()

        return self._answered(answer)

    def load(self, rows_max: int) -> pa.RecordBatch:
        def answer(connection: Any, relation: Relation) -> pa.Table:
            condition = where(self._spec.filters, [quote(name) for name in self._spec.columns])
            query = f"SELECT {self._columns(relation)} FROM {relation.item}{condition} LIMIT {rows_max + 1}"
            rows = connection.sql(query).to_arrow_table()
            if rows.num_rows > rows_max:
                raise too_many_rows(self._spec.table, rows_max)
            return rows

        return self._answered(answer)

    def close(self) -> None:
        return None

    def _answered(self, answer: Callable[[Any, Relation], pa.Table]) -> pa.RecordBatch:
        with INSTANCES.reading(self._place, self._files) as reading:
            self._connection = reading.connection
            rows = self._answer_of_checked(answer)
            if rows is None:
                self._relation = open_relation(self._place, self._spec, reading)
                rows = answer(reading.connection, self._relation)
                self._types = rows.schema.types
            assert self._relation is not None
            return as_declared(self._relation.columns, rows, self._spec.table)

    def _answer_of_checked(self, answer: Callable[[Any, Relation], pa.Table]) -> pa.Table | None:
        """The answer of the table as it was checked; None when there is none, and for files, which may be others each time."""
        import duckdb

        if self._relation is None or self._place.kind.is_files:
            return None
        try:
            rows = answer(self._connection, self._relation)
        except (duckdb.ProgrammingError, duckdb.DataError):
            return None
        return rows if rows.schema.types == self._types else None

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
