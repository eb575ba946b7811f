"""Reads a DuckDB table from its begin to its end, and by key."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.declared_rows import as_declared
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, interrupt
from sqlstream.runtime.connectors.duckdb.errors import translated
from sqlstream.runtime.connectors.duckdb.options import Place
from sqlstream.runtime.connectors.duckdb.relation import Relation, open_relation
from sqlstream.runtime.connectors.sql_filters import quote, text, where
from sqlstream.runtime.connectors.sql_tables import SqlScan
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.spi.lookup import too_many_rows

BLOCK_ROWS = 122_880 * 4
"""Row ids that one query reads: four of DuckDB's row groups, so that it reads no group in vain."""


class DuckDbReader:
    """All rows of a table, which is one split: the database stays attached from the first to the last row, so that all rows are
    of one moment, and nobody can write between the parts of two readers.

    State: the next block and how many of its rows were returned; a snapshot has these."""

    def __init__(
        self, spec: SourceSpec, place: Place, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> None:
        self._spec = spec
        self._place = place
        self._context = context
        self._open = contextlib.ExitStack()
        self._relation: Relation | None = None
        self._connection: Any = None
        self._batches: Any = None
        self._end_block = 1
        position = (splits or [_NOTHING])[0]
        self._block = int(position["block"])
        self._scan = SqlScan(spec.limit, context.now_ms)
        self._scan.skip_rows = int(position["rows"])
        self._returned_rows = 0
        context.on_cancel(lambda: interrupt(self._connection))

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if self._block == _NOTHING["block"]:
            return SourceStatus.END
        if self._relation is None and not self._has_begun():
            return SourceStatus.NOTHING_YET
        with translated(self._place):
            while not self._scan.is_full:
                if self._batches is None:
                    if self._block >= self._end_block:
                        break
                    self._batches = self._read_block()
                batch = next(self._batches, None)
                if batch is not None:
                    if (kept := self._kept(batch)) is not None:
                        return kept
                    continue
                self._batches = None
                self._block += 1
                self._returned_rows = 0
        self._open.close()
        return SourceStatus.END

    def _has_begun(self) -> bool:
        """Open the table; returns False when that is to be tried again, as for a locked file."""
        if self._scan.is_waiting:
            return False
        try:
            with translated(self._place):
                self._begin()
        except ExternalError as error:
            self._open.close()
            self._scan.failed(error)
            return False
        return True

    def _begin(self) -> None:
        reading = self._open.enter_context(INSTANCES.reading(self._place, self._context.files))
        self._connection = reading.connection
        self._relation = open_relation(self._place, self._spec, reading)
        if self._relation.has_row_ids:
            ((highest,),) = self._connection.execute(
                f"SELECT max(rowid) FROM {self._relation.item}"
            ).fetchall()
            self._end_block = 0 if highest is None else highest // BLOCK_ROWS + 1

    def _read_block(self) -> Any:
        assert self._relation is not None
        columns = self._relation.select(self._spec.columns) or "1"
        condition = where(self._spec.filters, [quote(name) for name in self._spec.columns])
        if self._relation.has_row_ids:
            first = self._block * BLOCK_ROWS
            block = f"rowid >= {first} AND rowid < {first + BLOCK_ROWS}"
            condition = f"{condition} AND {block}" if condition else f" WHERE {block}"
        query = f"SELECT {columns} FROM {self._relation.item}{condition}{self._scan.limit_clause}"
        return iter(self._connection.sql(query).to_arrow_reader(self._context.batch_rows))

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that were not returned before this reader resumed, as declared."""
        self._returned_rows += batch.num_rows
        batch = self._scan.kept(batch)
        if batch.num_rows == 0:
            return None
        assert self._relation is not None
        self._context.count("numBytesIn", batch.nbytes)
        return as_declared(self._relation.columns, pa.Table.from_batches([batch]), self._spec.table)

    def next_poll_ms(self) -> int | None:
        return self._scan.next_try_ms

    def snapshot(self) -> list[dict[str, Any]]:
        # Before its first poll a reader that resumed has still to skip what was returned.
        return [{"block": self._block, "rows": max(self._returned_rows, self._scan.skip_rows)}]

    def close(self) -> None:
        self._batches = None
        self._open.close()


_NOTHING = {"block": 1 << 62, "rows": 0}
"""The position of a reader that has nothing left to read."""


# Reads rows of a DuckDB table by key: one query for all keys of a batch.


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
