"""INSERTs of the Python API, and the texts of statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.places import Place, PlacedText
from sqlstream.client.dbapi.tables.text import Writer

if TYPE_CHECKING:
    from sqlstream.client.dbapi.connection import Connection, Cursor
    from sqlstream.client.dbapi.tables.relation import Relation

_DETAIL = re.compile(r"[A-Za-z]+([ _][A-Za-z]+)*")


class Insert:
    """An INSERT, which `execute` runs."""

    def __init__(self, table: Relation, head: str) -> None:
        self._table = table
        self._head = head
        self._place = Place.here()

    def write(self, writer: Writer) -> None:
        start = writer.length
        writer.add(self._head)
        self._table._write(writer)
        writer.mark(start, self._place)

    def to_sql(self) -> str:
        """The statement."""
        return str(statement_of(self.write))

    def execute(self) -> Cursor:
        """Run the statement. It is waited for where its tables end; else `job_id` of the cursor is that of its job."""
        return self._table._cursor().execute(statement_of(self.write))

    def explain(self, *details: str) -> str:
        """See `Table.explain`."""
        return explained(self._table._connection, details, self.write)

    def __repr__(self) -> str:
        return f"<sqlstream.Insert {' '.join(self.to_sql().split())}>"


def insert_set(inserts: Sequence[Insert]) -> PlacedText:
    """Several INSERTs that run as one job."""

    def write(writer: Writer) -> None:
        writer.add("EXECUTE STATEMENT SET\nBEGIN\n")
        for insert in inserts:
            insert.write(writer)
            writer.add(";\n")
        writer.add("END")

    return statement_of(write)


def statement_of(write: Any, prefix: str = "") -> PlacedText:
    writer = Writer()
    writer.add(prefix)
    write(writer)
    return writer.text()


def explained(connection: Connection, details: Sequence[str], write: Any) -> str:
    for detail in details:
        if _DETAIL.fullmatch(detail) is None:
            raise ProgrammingError(f'EXPLAIN has no "{detail}"', code="SS3447")
    words = ", ".join(details)
    with connection.cursor() as cursor:
        row = cursor.execute(statement_of(write, f"EXPLAIN {words}{' ' * bool(words)}")).fetchone()
    assert row is not None
    return str(row[0])
