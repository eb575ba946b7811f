"""The database and the table that the options of a `jdbc` table name, and the URLs that name a database."""

from __future__ import annotations

import enum
import urllib.parse
from dataclasses import dataclass
from typing import NamedTuple

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import local_path
from sqlstream.runtime.connectors.sql_tables import check_address, connection_value


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


# JDBC's URLs of PostgreSQL and SQLite.


_PORT = 5432
_SECRETS = ("password", "passwd", "sslpassword")
_KEYWORDS = {
    "user": "user",
    "sslmode": "sslmode",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "tcpKeepAlive": "keepalives",
}
"""Properties of PostgreSQL's JDBC driver, and libpq's keyword for each."""

_SATISFIED = {"reWriteBatchedInserts": "true", "stringtype": "unspecified"}
"""Properties with the value that describes what is done here anyway: rows are written in bulk, and texts are cast to the column's
type."""

_TAKEN = (*_KEYWORDS, "ssl", "currentSchema", *_SATISFIED)


class ReadUrl(NamedTuple):
    """`address` as `Database.address`; `schema` is where tables without one are looked for."""

    kind: DatabaseKind
    address: str
    schema: str = ""


def parse_url(url: str) -> ReadUrl:
    """UserError SS4002 for what is no URL of a database that is read here, and for one with a password, which is not shown."""
    scheme, _, rest = url.partition(":")
    name, _, place = rest.partition(":")
    if scheme.lower() != "jdbc" or not name:
        raise UserError(
            "SS4002",
            "option \"url\" takes a JDBC URL, which begins with 'jdbc:'",
            option="url",
            hint="write 'jdbc:postgresql://host:5432/database' or 'jdbc:sqlite:/path/of/file.sqlite'",
        )
    match name.lower():
        case "postgresql":
            return _postgres(place)
        case "sqlite":
            return ReadUrl(DatabaseKind.SQLITE, _sqlite_path(place))
        case "duckdb" | "mysql" | "mariadb":
            raise UserError(
                "SS4002",
                f'connector "jdbc" reads no {name} databases',
                option="url",
                hint=f"use connector 'duckdb' with 'path' = '…'{'' if name == 'duckdb' else chr(44) + ' ' + _AS_MYSQL}",
            )
    raise UserError(
        "SS4002",
        f'connector "jdbc" knows no database "{name}"',
        option="url",
        hint="use jdbc:postgresql or jdbc:sqlite",
    )


_AS_MYSQL = "'type' = 'mysql'"


def _sqlite_path(place: str) -> str:
    if place.startswith((":memory:", ":resource:", "file:")) or not place:
        raise UserError(
            "SS4002",
            'option "url" names no file of a SQLite database',
            option="url",
            hint="write 'jdbc:sqlite:/path/of/file.sqlite'",
        )
    if "?" in place:
        raise UserError(
            "SS4002",
            'option "url" has properties, which are not supported for SQLite',
            option="url",
            hint="leave out what begins with ?",
        )
    return local_path(place)


def _postgres(place: str) -> ReadUrl:
    """`//host:port/database?property=value&…`; host, port and what follows may be left out."""
    location, _, query = place.partition("?")
    if not location.startswith("//"):
        location = f"///{location}"
    authority, _, database = location[2:].partition("/")
    if "@" in authority:
        raise _password_in_url()
    host, port = _host_and_port(authority)
    keywords = {"host": host, "port": str(port)}
    if database:
        keywords["dbname"] = urllib.parse.unquote(database)
    schema = ""
    for key, value in _properties(query):
        if key == "currentSchema":
            schema = value
        elif key == "ssl":
            keywords.setdefault("sslmode", "verify-full" if value.lower() in ("", "true") else "prefer")
        elif key in _KEYWORDS:
            keywords[_KEYWORDS[key]] = _keyword_value(key, value)
    if "," in schema:
        raise UserError(
            "SS4002",
            'property "currentSchema" of option "url" takes one schema',
            option="url",
            hint="name the schema of the table in 'table-name' = 'schema.table'",
        )
    address = " ".join(f"{key}={connection_value(value)}" for key, value in keywords.items())
    check_address("postgres", address, "url")
    return ReadUrl(DatabaseKind.POSTGRES, address, schema)


def _host_and_port(authority: str) -> tuple[str, int]:
    if "," in authority:
        raise UserError(
            "SS4002",
            'option "url" names several servers',
            option="url",
            hint="name one, or the address that leads to the server in charge",
        )
    try:
        split = urllib.parse.urlsplit(f"//{authority}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = "", None
    if authority and (not host or "/" in host):
        raise UserError(
            "SS4002",
            'option "url" has no host and port between // and /',
            option="url",
            hint="write 'jdbc:postgresql://host:5432/database'",
        )
    return host or "localhost", port or _PORT


def _properties(query: str) -> list[tuple[str, str]]:
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    for key, value in pairs:
        if key.lower() in _SECRETS:
            raise _password_in_url()
        if key not in _TAKEN or _SATISFIED.get(key, value) != value:
            shown = f"{key}={value}" if key in _SATISFIED else key
            raise UserError(
                "SS4002",
                f'property "{shown}" of option "url" is not supported',
                option="url",
                hint=f"leave it out; supported are {', '.join(_TAKEN)}",
            )
    return pairs


def _keyword_value(key: str, value: str) -> str:
    if key == "tcpKeepAlive":
        return "1" if value.lower() == "true" else "0"
    if key == "connectTimeout" and not value.isdecimal():
        raise UserError(
            "SS4002",
            f'property "connectTimeout" of option "url" takes whole seconds, not "{value}"',
            option="url",
            hint="write connectTimeout=10",
        )
    return value


def _password_in_url() -> UserError:
    return UserError(
        "SS4002",
        'option "url" contains a password or a login',
        option="url",
        hint="put it into the options 'username' and 'password'; the password is never shown",
    )
