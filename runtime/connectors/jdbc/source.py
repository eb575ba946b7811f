"""Reads a table of a database: from its begin to its end, whole or by ranges of a column, and by key."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.jdbc.dialect import dialect
from sqlstream.runtime.connectors.jdbc.driver import Connecting, Connection
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.runtime.connectors.jdbc.stored_table import Selection, StoredTable, check_columns
from sqlstream.runtime.connectors.sql_filters import quote, where
from sqlstream.runtime.connectors.sql_tables import SqlScan
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import AssignedSplits, ConnectorContext, SourceStatus
from sqlstream.spi.lookup import too_many_rows

AWAITING_MS = 1_000
"""How long a reader that awaits ranges is left alone; they are read as soon as they come."""

_IN_ORDER = {"synchronize_seqscans": "off", "max_parallel_workers_per_gather": "0"}
"""PostgreSQL's settings by which a scan that is repeated returns its rows in the order of the one before."""

_SNAPSHOTS = {True: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", False: "BEGIN"}
"""By whether it is a server: a transaction whose queries see one moment."""


class JdbcReader:
    """Each range of a partitioned scan is a split, for the reader that asks first; a table without ranges is one split, and
    read in one query, so that all rows are of one moment. Ranges are of one moment each, and with `scan.auto-commit` off those
    of a reader together.

    State: the ranges that are left, and how many rows of the first one were returned. A snapshot has these; a reader that resumes
    reads the range again, whose rows come in the same order while nobody changes the table, and skips that many."""

    def __init__(
        self,
        spec: SourceSpec,
        options: JdbcOptions,
        context: ConnectorContext,
        splits: list[dict[str, Any]],
    ) -> None:
        self._spec = spec
        self._options = options
        self._context = context
        self._ranges = options.partitions.ranges() if options.partitions is not None else []
        self._left = [_range_and_rows(split) for split in splits]
        self._has_all = True
        self._opened: OpenedTable | None = None
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._has_read = False
        self._scan = SqlScan(spec.limit, context.now_ms)
        self._connecting = Connecting(options.database, context.files)
        context.on_cancel(self._connecting.cancel)

    def poll(self) -> pa.RecordBatch | SourceStatus:
        while self._left and not self._scan.is_full:
            if self._batches is None and not self._has_begun():
                return SourceStatus.NOTHING_YET
            assert self._batches is not None
            batch = next(self._batches, None)
            if batch is None:
                self._batches = None
                self._has_read = True
                self._left.pop(0)
            elif (kept := self._kept(batch)) is not None:
                return kept
        if not self._has_all and not self._scan.is_full:
            self._scan.next_try_ms = self._context.now_ms() + AWAITING_MS
            return SourceStatus.NOTHING_YET
        self.close()
        return SourceStatus.END

    def add_splits(self, assigned: AssignedSplits) -> None:
        self._left += [_range_and_rows(split) for split in assigned.positions]
        self._has_all = assigned.is_last

    @property
    def wants_splits(self) -> bool:
        return len(self._left) <= 1

    @property
    def returned_splits(self) -> tuple[dict[str, Any], ...]:
        return ()

    def _has_begun(self) -> bool:
        """Begin to read the first range that is left; returns False when that is to be tried again."""
        if self._scan.is_waiting:
            return False
        number, self._scan.skip_rows = self._left[0]
        try:
            self._batches = self._begun(number)
        except ExternalError as error:
            self.close()
            # A later range of a transaction would be of another moment.
            self._scan.failed(error, is_last_try=not self._options.is_auto_commit and self._has_read)
            return False
        self._scan.begun()
        return True

    def _begun(self, number: int) -> Iterator[pa.RecordBatch]:
        connection = self._connecting.connection
        if connection is None:
            connection = self._connecting.connect()
            if self._options.database.is_server:
                for setting, value in _IN_ORDER.items():
                    connection.rows(f"SELECT set_config('{setting}', '{value}', false) AS is_set")
            if not self._options.is_auto_commit:
                connection.run(_SNAPSHOTS[self._options.database.is_server])
            self._opened = open_table(connection, self._options, self._spec)
            self._check_partition_column(self._opened)
        assert self._opened is not None
        opened = self._opened
        condition = opened.where(self._of_range(number))
        query = opened.selection.query(f"{opened.stored.item}{condition}{self._scan.limit_clause}")
        batches = connection.batches(query, self._options.fetch_rows or self._context.batch_rows)
        return opened.without_rows_ahead(batches)

    def _of_range(self, number: int) -> str:
        partitions = self._options.partitions
        if partitions is None:
            return ""
        first, end, is_included = self._ranges[number]
        column = quote(partitions.column)
        return f"{column} >= {first} AND {column} {'<=' if is_included else '<'} {end}"

    def _check_partition_column(self, opened: OpenedTable) -> None:
        partitions = self._options.partitions
        if partitions is None:
            return
        stored = opened.stored.columns.get(partitions.column)
        if stored is None or not dialect(self._options.database.kind).is_number(stored):
            raise UserError(
                "SS5062",
                f'table {opened.stored.name} has no column of numbers "{partitions.column}"',
                hint="check the option 'scan.partition.column'",
            )

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that were not returned before this reader resumed, as declared."""
        batch = self._scan.kept(batch)
        number, returned = self._left[0]
        self._left[0] = (number, returned + batch.num_rows)
        if batch.num_rows == 0:
            return None
        assert self._opened is not None
        self._context.count("numBytesIn", batch.nbytes)
        return self._opened.selection.declared(pa.Table.from_batches([batch]))

    def next_poll_ms(self) -> int | None:
        return self._scan.next_try_ms

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"range": number, "rows": rows} for number, rows in self._left]

    def close(self) -> None:
        self._batches = None
        self._connecting.close()


def _range_and_rows(split: dict[str, Any]) -> tuple[int, int]:
    return int(split["range"]), int(split["rows"])


# A table of a connection whose columns were checked, as a reader or a lookup selects them.


@dataclass(frozen=True)
class OpenedTable:
    """`condition` are the pushed filters in SQL, empty without one."""

    stored: StoredTable
    selection: Selection
    condition: str

    def where(self, added: str = "") -> str:
        """` WHERE …` of the filters and one more condition, which may be empty; empty without any."""
        parts = [part for part in (self.condition, added) if part]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def without_rows_ahead(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The batches of the selection's query, without the rows that are none of the table."""
        ahead = self.selection.rows_ahead
        for batch in batches:
            dropped = min(ahead, batch.num_rows)
            ahead -= dropped
            if batch.num_rows > dropped:
                yield batch.slice(dropped)


def open_table(connection: Connection, options: JdbcOptions, spec: SourceSpec) -> OpenedTable:
    """UserError SS5062 for a table or column that is not there, or has another type."""
    speaking = dialect(options.database.kind)
    stored = speaking.find_table(connection, options.table)
    types = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    wanted = tuple((name, types[name]) for name in spec.columns)
    check_columns(stored, spec.table, wanted, speaking.can_read)
    filters = spec.filters if options.is_filtering else ()
    condition = where(filters, speaking.filtered(stored, wanted), speaking.day)
    selection = speaking.selection(stored, wanted, spec.table)
    return OpenedTable(stored, selection, condition.removeprefix(" WHERE "))


# By key: one query for all keys of a batch.


class JdbcLookup:
    """Asks the database for the wanted keys alone. A lookup that fails closes the connection, so that the next one connects
    again.

    State: the connection to a server with its table, whose columns are checked once for each; a file is opened for each query."""

    def __init__(
        self, spec: SourceSpec, options: JdbcOptions, keys: tuple[str, ...], context: ConnectorContext
    ) -> None:
        self._spec = spec
        self._options = options
        self._keys = keys
        self._context = context
        self._opened: OpenedTable | None = None
        self._connecting = Connecting(options.database, context.files)
        context.on_cancel(self._connecting.cancel)

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        try:
            connection, opened = self._open()
            self._check_keys(opened)
            source = dialect(self._options.database.kind).matching(connection, opened.stored, keys)
            condition = f" AND {opened.condition}" if opened.condition else ""
            return self._rows(f"{source}{condition}")
        except ExternalError:
            self.close()
            raise
        finally:
            self._close_file()

    def load(self, rows_max: int) -> pa.RecordBatch:
        try:
            _, opened = self._open()
            rows = self._rows(f"{opened.stored.item}{opened.where()} LIMIT {rows_max + 1}")
        except ExternalError:
            self.close()
            raise
        finally:
            self._close_file()
        if rows.num_rows > rows_max:
            raise too_many_rows(self._spec.table, rows_max)
        return rows

    def _rows(self, source: str) -> pa.RecordBatch:
        connection, opened = self._open()
        rows = connection.rows(opened.selection.query(source))
        return opened.selection.declared(rows.slice(opened.selection.rows_ahead))

    def _open(self) -> tuple[Connection, OpenedTable]:
        connection = self._connecting.connection or self._connecting.connect()
        if self._opened is None:
            self._opened = open_table(connection, self._options, self._spec)
        return connection, self._opened

    def _check_keys(self, opened: OpenedTable) -> None:
        speaking = dialect(self._options.database.kind)
        types = dict(opened.selection.columns)
        for key in self._keys:
            if not speaking.can_look_up(opened.stored.columns[key], types[key]):
                title = self._options.database.kind.title
                raise UserError(
                    "SS3030",
                    f'column "{key}" of table "{self._spec.table}" cannot be looked up by: {title} has no equality for'
                    f" {types[key].with_nullable(True)}",
                    hint="look up by a column of another type, or set 'lookup.cache' = 'FULL'",
                )

    def _close_file(self) -> None:
        if not self._options.database.is_server:
            self.close()

    def close(self) -> None:
        self._connecting.close()
        self._opened = None
