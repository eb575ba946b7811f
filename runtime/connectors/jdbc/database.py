"""What the options of a `jdbc` table name: a database, and a table in it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DatabaseKind(enum.Enum):
    """A kind of database, by the word behind `jdbc:` in its URL."""

    POSTGRES = "postgresql"
    SQLITE = "sqlite"

    @property
    def title(self) -> str:
        """Its name in messages."""
        return {DatabaseKind.POSTGRES: "PostgreSQL", DatabaseKind.SQLITE: "SQLite"}[self]


@dataclass(frozen=True)
class Database:
    """`address` is the path of a SQLite file, or libpq's keywords with values. `url` is what the user wrote, without secrets."""

    kind: DatabaseKind
    url: str
    address: str
    username: str = ""
    password: str = ""
    connect_timeout_s: int = 60

    @property
    def is_server(self) -> bool:
        return self.kind is DatabaseKind.POSTGRES


@dataclass(frozen=True)
class TableName:
    """`schema` is empty for the database's default."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f'"{self.schema}.{self.table}"' if self.schema else f'"{self.table}"'
