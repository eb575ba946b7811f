"""What differs between the databases of connector `jdbc`."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from sqlstream.runtime.connectors.jdbc.database import DatabaseKind, TableName
from sqlstream.runtime.connectors.jdbc.driver import Connection
from sqlstream.runtime.connectors.jdbc.stored_table import Columns, Selection, StoredColumn, StoredTable
from sqlstream.types import LogicalType


class Dialect(Protocol):
    """No state."""

    def find_table(self, connection: Connection, name: TableName) -> StoredTable:
        """UserError SS5062 when it is not there."""

    def can_read(self, stored: StoredColumn, declared: LogicalType) -> bool:
        """Whether all values of the stored type may be values of the declared one; those that are not are refused when they are
        read."""

    def selection(self, stored: StoredTable, columns: Columns, table: str) -> Selection:
        """How these columns, which can be read, are selected."""

    def filtered(self, stored: StoredTable, columns: Columns) -> list[str | None]:
        """The columns in SQL as conditions see them; None for those that the database compares in another way."""

    def day(self, days: int) -> str | None:
        """A day in SQL, from 1970-01-01."""

    def is_number(self, stored: StoredColumn) -> bool:
        """Whether a scan can be partitioned by the column."""

    def can_look_up(self, stored: StoredColumn, declared: LogicalType) -> bool:
        """Whether equality of values of the declared type can be decided by the database."""

    def matching(self, connection: Connection, stored: StoredTable, keys: pa.RecordBatch) -> str:
        """A FROM item with the rows of the table whose columns equal a row of `keys`, which are named like them. What it needs in
        the connection stays there until the next call."""


def dialect(kind: DatabaseKind) -> Dialect:
    if kind is DatabaseKind.POSTGRES:
        from sqlstream.runtime.connectors.jdbc.postgres import Postgres

        return Postgres()
    from sqlstream.runtime.connectors.jdbc.sqlite import Sqlite

    return Sqlite()
