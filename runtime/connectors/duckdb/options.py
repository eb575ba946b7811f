"""The options of connector `duckdb`, and what a table of it is: a database's table, or files."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import is_pattern, local_path
from sqlstream.runtime.connectors.sql_tables import check_address
from sqlstream.spi.connector import OptionType
from sqlstream.spi.lookup import LOOKUP_OPTIONS
from sqlstream.spi.table_options import descriptors_of, option, parse_options


class PlaceKind(enum.Enum):
    """What a table of connector `duckdb` lies in."""

    DUCKDB = "duckdb"
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    MYSQL = "mysql"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def is_files(self) -> bool:
        return self in (PlaceKind.CSV, PlaceKind.JSON, PlaceKind.PARQUET)

    @property
    def is_server(self) -> bool:
        """Whether it is a database at an address, not in a file."""
        return self in (PlaceKind.POSTGRES, PlaceKind.MYSQL)


EXTENSIONS = {
    PlaceKind.SQLITE: "sqlite_scanner",
    PlaceKind.POSTGRES: "postgres_scanner",
    PlaceKind.MYSQL: "mysql_scanner",
}
"""DuckDB's extension that attaches the database."""

_ENDINGS = {
    ".duckdb": PlaceKind.DUCKDB,
    ".ddb": PlaceKind.DUCKDB,
    ".db": PlaceKind.DUCKDB,
    ".sqlite": PlaceKind.SQLITE,
    ".sqlite3": PlaceKind.SQLITE,
    ".csv": PlaceKind.CSV,
    ".tsv": PlaceKind.CSV,
    ".json": PlaceKind.JSON,
    ".jsonl": PlaceKind.JSON,
    ".ndjson": PlaceKind.JSON,
    ".parquet": PlaceKind.PARQUET,
}
_PACKED = (".gz", ".zst")
_CSV_OPTIONS = ("csv.header", "csv.field-delimiter")
_LOGIN_OPTIONS = ("username", "password")


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The options of a table, each by itself."""

    path: str = option(
        "path",
        OptionType.STRING,
        "A DuckDB or SQLite file; a CSV, JSON or Parquet file, or a pattern with *, ?, […] and **; for a server its address as"
        " in 'dbname=shop host=localhost port=5432'.",
        is_required=True,
    )
    type: str | None = option(
        "type",
        OptionType.ENUM,
        "What is at the path; by default its ending says so.",
        choices=tuple(kind.value for kind in PlaceKind),
    )
    table_name: str | None = option(
        "table-name",
        OptionType.STRING,
        "The table or view in the database, as table or schema.table; by default the name of the table itself.",
    )
    username: str | None = option("username", OptionType.STRING, "The user of a database server.")
    password: str | None = option("password", OptionType.STRING, "The password of that user; never shown.")
    has_header: bool = option(
        "csv.header", OptionType.BOOLEAN, "Whether the first line of CSV files names the columns.", "true"
    )
    delimiter: str = option(
        "csv.field-delimiter", OptionType.STRING, "The character between the fields of CSV files.", ","
    )
    sink_parallelism: int | None = option(
        "sink.parallelism", OptionType.INTEGER, "How many subtasks write.", minimum=1
    )


OPTIONS = (*descriptors_of(_Given), *LOOKUP_OPTIONS)


@dataclass(frozen=True)
class Place:
    """What the options name. `path` is local, except for servers. `schema` is empty for the database's default."""

    kind: PlaceKind
    path: str
    schema: str
    table: str
    username: str = ""
    password: str = ""
    has_header: bool = True
    delimiter: str = ","

    @property
    def name(self) -> str:
        """The table in words of an error."""
        return f'"{self.schema}.{self.table}"' if self.schema else f'"{self.table}"'


def read_place(table: str, options: Mapping[str, str]) -> Place:
    """UserError SS4002, SS4003 and SS4005 for options that do not fit each other."""
    given = parse_options(_Given, options)
    kind = _kind(table, given)
    path = given.path if kind.is_server else local_path(given.path)
    _check_use(kind, options)
    if kind.is_server:
        check_address(kind.value, path)
    if not kind.is_files and not kind.is_server and is_pattern(path):
        raise UserError(
            "SS4002",
            f'option "path" is a pattern, but a {kind.value} database is one file',
            option="path",
            hint="name one file",
        )
    delimiter = given.delimiter.replace("\\t", "\t")
    if len(delimiter) != 1:
        raise UserError(
            "SS4002",
            f'option "csv.field-delimiter" takes one character, not "{delimiter}"',
            option="csv.field-delimiter",
            hint="write ';' or '\\t'",
        )
    schema, _, name = (table if given.table_name is None else given.table_name).rpartition(".")
    return Place(
        kind=kind,
        path=path,
        schema=schema,
        table=name,
        username=given.username or "",
        password=given.password or "",
        has_header=given.has_header,
        delimiter=delimiter,
    )


def _kind(table: str, given: _Given) -> PlaceKind:
    if given.type is not None:
        return PlaceKind(given.type)
    path = given.path.lower()
    for ending in _PACKED:
        path = path.removesuffix(ending)
    kind = _ENDINGS.get(os.path.splitext(path)[1])
    if kind is None:
        raise UserError(
            "SS4005",
            f'the path of table "{table}" does not say what is there',
            option="path",
            hint=f"add 'type' = '…', one of {', '.join(k.value for k in PlaceKind)}",
        )
    return kind


def _check_use(kind: PlaceKind, options: Mapping[str, str]) -> None:
    """UserError SS4003 for options of other kinds of places."""
    without_use = [
        *(() if kind is PlaceKind.CSV else _CSV_OPTIONS),
        *(() if kind.is_server else _LOGIN_OPTIONS),
        *(("table-name",) if kind.is_files else ()),
    ]
    key = next((key for key in without_use if key in options), None)
    if key is not None:
        raise UserError(
            "SS4003",
            f'option "{key}" has no use for a table of type {kind.value}',
            option=key,
            hint="leave it out, or add the 'type' that it belongs to",
        )
