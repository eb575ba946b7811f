"""DuckDB as this process uses it: one instance in memory, to which databases are attached while they are read."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from typing import Any

from runtime.connectors.duckdb.filters import quote, text
from runtime.connectors.duckdb.options import EXTENSIONS, Place, PlaceKind
from runtime.connectors.file_paths import is_pattern
from sqlstream.errors import ExternalError, Retry, SqlStreamError, UserError
from sqlstream.secrets import MASK

SETTINGS = {
    "threads": 1,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
"""One thread: tasks are the unit of parallelism. Extensions come from where they are installed, never from the network.
Names in SQL never mean variables of this program."""

CONNECT_TIMEOUT_S = 10
"""How long a Postgres server may take to answer at all, unless its address says otherwise."""

_REFUSED = ("authentication failed", "access denied")
_GONE = ("connection", "connect", "server closed", "terminating", "timeout")
"""Words in a server's errors: it does not let this user in; it is not there at the moment."""


def connect() -> Any:
    """A DuckDB in memory."""
    import duckdb

    connection = duckdb.connect(":memory:", config=SETTINGS)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


class _Attached:
    """How many readers an attached database has at the moment, and its name in the instance."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.readers = 0


class Instance:
    """One DuckDB in memory. A database is attached read-only while somebody reads it, and detached with its last reader, so
    that another process can write the file in between.

    All readers of a process share one instance: the operating system's locks on a file belong to the process, and the first
    of two instances to close it would give up the lock of both. Thread-safe. State: the databases attached now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._root: Any = None
        self._attached: dict[tuple[PlaceKind, str, str], _Attached] = {}
        self._number = 0

    @contextlib.contextmanager
    def reading(self, place: Place, files: Any) -> Iterator[tuple[Any, str]]:
        """A connection, and the alias of the place's database, which files have none of. Errors of DuckDB inside become ours.
        `files` decides whether the file of a database may be read."""
        with translated(place):
            if not place.kind.is_server and not place.kind.is_files and files.status(place.path) is None:
                raise no_file(place)
            connection = self._cursor()
            try:
                if place.kind.is_files:
                    yield connection, ""
                    return
                key = (place.kind, os.path.realpath(place.path), place.username)
                alias = self._attach(place, key)
                try:
                    yield connection, alias
                finally:
                    self._detach(key)
            finally:
                connection.close()

    def _cursor(self) -> Any:
        with self._lock:
            if self._root is None:
                self._root = connect()
            return self._root.cursor()

    def _attach(self, place: Place, key: tuple[PlaceKind, str, str]) -> str:
        with self._lock:
            found = self._attached.get(key)
            if found is None:
                self._number += 1
                found = _Attached(f"db{self._number}")
                attach(self._root, place, found.alias, is_read_only=True)
                self._attached[key] = found
            found.readers += 1
            return found.alias

    def _detach(self, key: tuple[PlaceKind, str, str]) -> None:
        with self._lock:
            found = self._attached[key]
            found.readers -= 1
            if found.readers == 0:
                del self._attached[key]
                self._root.execute(f"DETACH {found.alias}")


INSTANCE = Instance()


def attach(connection: Any, place: Place, alias: str, *, is_read_only: bool) -> None:
    """ATTACH the place's database. duckdb.Error when DuckDB cannot; UserError SS5063 without the extension that it needs."""
    options = ["READ_ONLY"] if is_read_only else []
    if place.kind is not PlaceKind.DUCKDB:
        load_extension(connection, EXTENSIONS[place.kind])
        options.append(f"TYPE {place.kind.value}")
    address = place.path
    if place.kind.is_server:
        login = {"user": place.username, "password": place.password}
        address += "".join(f" {key}={_connection_value(value)}" for key, value in login.items() if value)
        if place.kind is PlaceKind.POSTGRES and "connect_timeout" not in address:
            address += f" connect_timeout={CONNECT_TIMEOUT_S}"
    suffix = f" ({', '.join(options)})" if options else ""
    connection.execute(f"ATTACH {text(address)} AS {alias}{suffix}")


def _connection_value(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def load_extension(connection: Any, name: str) -> None:
    """LOAD an installed extension, or the one of PyPI's package `duckdb-extension-…`. UserError SS5063 when there is none."""
    import duckdb

    packaged = _packaged(name, duckdb.__version__)
    try:
        connection.execute(f"LOAD {text(packaged) if packaged else name}")
    except duckdb.Error as error:
        package = f"duckdb-extension-{name.replace('_', '-')}"
        raise UserError(
            "SS5063",
            f"DuckDB {duckdb.__version__} cannot load its extension {name}",
            detail=_first_line(error),
            hint=f"install it: pip install {package}=={duckdb.__version__}, or in DuckDB: INSTALL {name}",
        ) from error


def _packaged(name: str, version: str) -> str:
    """The file of the extension in PyPI's package; empty when that is not installed."""
    found = importlib.util.find_spec(f"duckdb_extension_{name}")
    for directory in found.submodule_search_locations or () if found is not None else ():
        path = os.path.join(directory, "extensions", f"v{version}", f"{name}.duckdb_extension")
        if os.path.exists(path):
            return path
    return ""


def table_of(place: Place, alias: str) -> str:
    """The name of the place's table in SQL."""
    parts = (alias, place.schema, place.table) if place.schema else (alias, place.table)
    if not place.schema and place.kind is PlaceKind.DUCKDB:
        parts = (alias, "main", place.table)
    return ".".join(quote(part) for part in parts)


@contextlib.contextmanager
def translated(place: Place) -> Iterator[None]:
    """DuckDB's errors as ours. What another process causes can be tried again; wrong names and broken files cannot."""
    import duckdb

    try:
        yield
    except SqlStreamError:
        raise
    except duckdb.Error as error:
        # Not `from error`: the text of DuckDB's error may hold the password.
        raise external_error(place, error) from None


def external_error(place: Place, error: Exception) -> SqlStreamError:
    """The error of DuckDB about this place in our words."""
    reason = _first_line(error)
    for secret in (place.password, _connection_value(place.password)) if place.password else ():
        reason = reason.replace(secret, MASK)
    folded = reason.lower()
    where = f'"{place.path}"'
    if (
        "could not set lock" in folded
        or "unique file handle conflict" in folded
        or "being used by another" in folded
    ):
        return ExternalError(
            "SS5061",
            f"the database {where} is locked by another process that writes it",
            retry=Retry.BACKOFF,
            detail=reason,
            hint="close the database there: a file that is open for writing is open for nobody else",
        )
    if "database does not exist" in folded or "no files found" in folded:
        return no_file(place)
    if isinstance(error, _value_errors()):
        return UserError(
            "SS5065",
            f"a value of {where} cannot be read"
            if place.kind.is_files
            else f"a value of table {place.name} cannot be read",
            detail=reason,
            hint="declare its column with a type that fits",
        )
    if "not a valid duckdb database" in folded or "file is not a database" in folded:
        return ExternalError(
            "SS5060",
            f"{where} is no {place.kind.value} database",
            detail=reason,
            hint="check the option 'path'",
        )
    if any(word in folded for word in _REFUSED):
        return ExternalError(
            "SS5060",
            f"the database {where} refuses the login",
            detail=reason,
            hint="check the options 'username' and 'password'",
        )
    is_gone = place.kind.is_server and any(word in folded for word in _GONE)
    return ExternalError(
        "SS5060",
        f"could not read table {place.name} of {where}"
        if not place.kind.is_files
        else f"could not read {where}",
        retry=Retry.BACKOFF if is_gone or isinstance(error, _io_error()) else Retry.NEVER,
        detail=reason,
        hint="check that the database is up" if place.kind.is_server else "",
    )


def no_file(place: Place) -> ExternalError:
    is_several = place.kind.is_files and is_pattern(place.path)
    return ExternalError(
        "SS5060",
        f'no file matches "{place.path}"' if is_several else f'there is no file "{place.path}"',
        retry=Retry.BACKOFF,
        hint="check the option 'path'; a relative one starts where sqlstream was started",
    )


def _value_errors() -> tuple[type[Exception], ...]:
    import duckdb

    return (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)


def _io_error() -> type[Exception]:
    import duckdb

    return duckdb.IOException


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
