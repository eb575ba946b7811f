"""Reads a DuckDB table from its begin to its end."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa

from sqlstream.errors import ExternalError, Retry
from sqlstream.runtime.connectors.declared_rows import as_declared
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, interrupt
from sqlstream.runtime.connectors.duckdb.errors import translated
from sqlstream.runtime.connectors.duckdb.options import Place
from sqlstream.runtime.connectors.duckdb.relation import Relation, open_relation
from sqlstream.runtime.connectors.sql_filters import quote, where
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus

BLOCK_ROWS = 122_880 * 4
"""Row ids that one query reads: four of DuckDB's row groups, so that it reads no group in vain."""

TRIES_MAX = 5
PAUSE_MS = 100
"""A table that cannot be opened for a reason that may pass is tried again, after pauses that double: 3 s in all."""


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
        self._skip_rows = int(position["rows"])
        self._returned_rows = 0
        self._limit = spec.limit
        self._tries = 0
        self._next_try_ms: int | None = None
        context.on_cancel(lambda: interrupt(self._connection))

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if self._block == _NOTHING["block"]:
            return SourceStatus.END
        if self._relation is None and not self._has_begun():
            return SourceStatus.NOTHING_YET
        with translated(self._place):
            while self._limit != 0:
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
        try:
            with translated(self._place):
                self._begin()
        except ExternalError as error:
            self._open.close()
            self._tries += 1
            if error.retry is Retry.NEVER or self._tries >= TRIES_MAX:
                raise
            self._next_try_ms = self._context.now_ms() + (PAUSE_MS << self._tries)
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
        limit = f" LIMIT {self._limit + self._skip_rows}" if self._limit > 0 else ""
        query = f"SELECT {columns} FROM {self._relation.item}{condition}{limit}"
        return iter(self._connection.sql(query).to_arrow_reader(self._context.batch_rows))

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that were not returned before this reader resumed, as declared."""
        skipped = min(self._skip_rows, batch.num_rows)
        self._skip_rows -= skipped
        self._returned_rows += batch.num_rows
        batch = batch.slice(skipped)
        if self._limit > 0:
            batch = batch.slice(0, self._limit)
            self._limit -= batch.num_rows
        if batch.num_rows == 0:
            return None
        assert self._relation is not None
        self._context.count("numBytesIn", batch.nbytes)
        return as_declared(self._relation.columns, pa.Table.from_batches([batch]), self._spec.table)

    def next_poll_ms(self) -> int | None:
        return self._next_try_ms

    def snapshot(self) -> list[dict[str, Any]]:
        # Before its first poll a reader that resumed has still to skip what was returned.
        return [{"block": self._block, "rows": max(self._returned_rows, self._skip_rows)}]

    def close(self) -> None:
        self._batches = None
        self._open.close()


_NOTHING = {"block": 1 << 62, "rows": 0}
"""The position of a reader that has nothing left to read."""
