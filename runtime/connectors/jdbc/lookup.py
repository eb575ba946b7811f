"""Reads rows of a database's table by key: one query for all keys of a batch."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.jdbc.connecting import Connecting
from sqlstream.runtime.connectors.jdbc.dialect import dialect
from sqlstream.runtime.connectors.jdbc.driver import Connection
from sqlstream.runtime.connectors.jdbc.opened_table import OpenedTable, open_table
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.lookup import too_many_rows


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
