"""DuckDB as this process uses it: for each place an instance in memory of its own, to which its database is attached while it is
read."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.connectors.duckdb.errors import first_line, no_file, translated
from sqlstream.runtime.connectors.duckdb.options import EXTENSIONS, Place, PlaceKind
from sqlstream.runtime.connectors.files.file_paths import is_pattern
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.runtime.connectors.sql_tables import connection_value
from sqlstream.runtime.host.spill_directory import make_spill_directory
from sqlstream.spi.files import Files

MEMORY_MAX = "1GB"
"""What one instance takes; beyond it, rows of sorts and joins go to a temporary directory."""

IDLE_MAX = 8
"""Instances without readers that are kept: a lookup for each batch would make a new one each time, which takes 25 ms."""

LENT_MAX = 4
"""Instances of others to which one file is attached. Those of ended queries among them keep threads and memory until nobody in
the process reads the file, which may never be so while new queries come."""

SETTINGS = {
    "threads": 1,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": MEMORY_MAX,
}
"""One thread: tasks are the unit of parallelism. Extensions come from where they are installed, never from the network.
Names in SQL never mean variables of this program."""

CONNECT_TIMEOUT_S = 10
"""How long a Postgres server may take to answer at all, unless its address says otherwise."""

_ALIAS = "place"
WAL_ENDINGS = ("", ".wal", ".wal.recovery", ".wal.checkpoint")
_numbers = itertools.count()


_spill_root = functools.cache(make_spill_directory)
"""The directory of this process for what its instances spill."""


def connect() -> Any:
    """A DuckDB in memory. All its connections have the time zone UTC."""
    import duckdb

    # DuckDB makes the directory when it first spills, and removes it when it is closed.
    directory = os.path.join(_spill_root(), f"connector-{next(_numbers)}")
    connection = duckdb.connect(":memory:", config={**SETTINGS, "temp_directory": directory})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def lock_down(connection: Any, paths: tuple[str, ...]) -> None:
    """From here on the instance opens these files and what is attached to it, whatever a view in a database says."""
    connection.execute(f"SET allowed_paths = [{', '.join(text(path) for path in paths)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


class NotLent(Exception):
    """As many others have a file attached as may; its message is for EXPLAIN."""


class Reading(NamedTuple):
    """A connection to the instance of a place; `alias` is its database there, and `paths` are the real paths of its files."""

    connection: Any
    alias: str
    paths: tuple[str, ...]


class _Key(NamedTuple):
    """What must be equal for two readers to share an instance: also the password, as who lacks it is not let in."""

    kind: PlaceKind
    paths: tuple[str, ...]
    username: str
    password: str


class _Instance:
    """A DuckDB in memory for one place. `readers` is guarded by the lock of Instances, and the rest by `lock`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.readers = 0
        self.root: Any = None
        self.is_attached = False
        self._detachments: list[Callable[[], None]] = []

    def cursor(self, place: Place, key: _Key, files: Files) -> Any:
        """A connection; the database is attached for it when it is not yet."""
        with self.lock:
            if self.root is None:
                self.root = _opened(key)
            if not self.is_attached and not place.kind.is_files:
                self._attach(place, key, files)
            return self.root.cursor()

    def _attach(self, place: Place, key: _Key, files: Files) -> None:
        address = place.path if place.kind.is_server else key.paths[0]
        attach(self.root, place, address, _ALIAS, is_read_only=True)
        self.is_attached = True
        if not place.kind.is_server:
            try:
                # It may have been replaced by a link while it was attached.
                files.status(address)
            except SqlStreamError:
                self._detach()
                raise

    def release(self, is_unused: Callable[[], bool]) -> None:
        """Detach the database unless somebody reads it."""
        with self.lock:
            if self.is_attached and is_unused():
                self._detach()

    def lend(self, place: Place, key: _Key, shared: SharedConnection, alias: str) -> None:
        """Attach the file to another instance, which detaches it with the last reader of this one: until then it holds locks for
        all of them. NotLent."""
        with self.lock:
            if _has_database(shared.connection, alias):
                return
            if len(self._detachments) >= LENT_MAX:
                raise NotLent(
                    f"{LENT_MAX} other queries have its file attached, or had while somebody still reads it"
                )
            attach(shared.connection, place, key.paths[0], alias, is_read_only=True)
            shared.hold()
            self._detachments.append(lambda: _detach_other(shared, alias))

    def _detach(self) -> None:
        self.is_attached = False
        detachments, self._detachments = self._detachments, []
        for detach in detachments:
            detach()
        self.root.execute(f"DETACH {_ALIAS}")

    def close(self) -> None:
        with self.lock:
            if self.root is not None:
                self.root.close()
            self.root, self.is_attached = None, False


def _opened(key: _Key) -> Any:
    """The instance of a place. Views of a DuckDB file are SQL of its writer that runs in this process, so that the instance is
    locked to the file. Views of other databases run there, and DuckDB attaches none of these to a locked instance."""
    connection = connect()
    if key.kind is PlaceKind.DUCKDB:
        lock_down(connection, tuple(key.paths[0] + ending for ending in WAL_ENDINGS))
    elif key.kind.is_files:
        lock_down(connection, key.paths)
    return connection


class Instances:
    """The DuckDB of each place that is read. A database is attached read-only while somebody reads it, and detached with its last
    reader, so that another process can write the file in between.

    All readers of a file share one instance: the operating system's locks on a file belong to the process, and the first of two
    instances to close it would give up the lock of both. Readers of a server share one when they log in with the same name and
    password. A place that does not answer delays its own readers alone. Thread-safe. State: the instances in use and the last
    IDLE_MAX that were; those of servers end with their last reader."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[_Key, _Instance] = {}

    @contextlib.contextmanager
    def reading(self, place: Place, files: Files) -> Iterator[Reading]:
        """Errors of DuckDB inside become ours. `files` decides which files may be read."""
        with (
            translated(place),
            self._entered(place, files) as (key, instance),
            contextlib.closing(instance.cursor(place, key, files)) as connection,
        ):
            yield Reading(connection, "" if place.kind.is_files else _ALIAS, key.paths)

    @contextlib.contextmanager
    def lent(self, place: Place, files: Files, shared: SharedConnection, alias: str) -> Iterator[None]:
        """The DuckDB file attached to an instance of the caller as well, read-only. It stays so until the last reader of the
        place in this process has gone, and the connection is held as long. Where it is attached there already, the caller is one
        reader more, so that it stays. Errors as in `reading`; NotLent while LENT_MAX others have it."""
        with translated(place), self._entered(place, files) as (key, instance):
            instance.cursor(place, key, files).close()
            instance.lend(place, key, shared, alias)
            # It may have been replaced by a link while it was attached.
            files.status(key.paths[0])
            yield

    @contextlib.contextmanager
    def _entered(self, place: Place, files: Files) -> Iterator[tuple[_Key, _Instance]]:
        key = _key(place, files)
        instance = self._enter(key)
        try:
            yield key, instance
        finally:
            self._leave(key, instance)

    def _enter(self, key: _Key) -> _Instance:
        with self._lock:
            instance = self._instances.pop(key, None) or _Instance()
            # The last one used stands at the end.
            self._instances[key] = instance
            instance.readers += 1
            return instance

    def _leave(self, key: _Key, instance: _Instance) -> None:
        with self._lock:
            instance.readers -= 1
        instance.release(lambda: instance.readers == 0)
        for closed in self._excess():
            closed.close()

    def _excess(self) -> list[_Instance]:
        """The idle instances that are not to be kept, which nobody can enter from here on."""
        with self._lock:
            idle = [
                key
                for key, instance in self._instances.items()
                if not (instance.readers or instance.is_attached)
            ]
            kept = [key for key in idle if not key.kind.is_server][-IDLE_MAX:]
            return [self._instances.pop(key) for key in idle if key not in kept]


def _has_database(connection: Any, alias: str) -> bool:
    found = connection.execute("SELECT count(*) FROM duckdb_databases() WHERE database_name = ?", [alias])
    return bool(found.fetchall()[0][0])


def _detach_other(shared: SharedConnection, alias: str) -> None:
    import duckdb

    try:
        with contextlib.suppress(duckdb.Error):  # closing the connection gives up the file as well
            shared.connection.execute(f"DETACH {alias}")
    finally:
        shared.release()


INSTANCES = Instances()


def _key(place: Place, files: Files) -> _Key:
    return _Key(place.kind, _real_paths(place, files), place.username, place.password)


def _real_paths(place: Place, files: Files) -> tuple[str, ...]:
    """The real paths of the place's files. ExternalError SS5060 without any, UserError SS5030 and SS5031 where they may
    not be read."""
    if place.kind.is_server:
        files.require_database_servers()
        return (place.path,)
    is_several = place.kind.is_files and is_pattern(place.path)
    found = files.match_glob(place.path) if is_several else [place.path]
    present = [path for path in found if files.status(path) is not None]
    real = tuple(os.path.realpath(path) for path in present)
    for path in real:
        # What is checked here is what is opened: the link that led to it may lead elsewhere since it was checked.
        files.status(path)
    if not real:
        raise no_file(place)
    return real


def attach(connection: Any, place: Place, address: str, alias: str, *, is_read_only: bool) -> None:
    """ATTACH the place's database, which is at `address`.

    duckdb.Error when DuckDB cannot; UserError SS5063 without the extension that it needs."""
    options = ["READ_ONLY"] if is_read_only else []
    if place.kind is not PlaceKind.DUCKDB:
        load_extension(connection, EXTENSIONS[place.kind])
        options.append(f"TYPE {place.kind.value}")
    if place.kind.is_server:
        login = {"user": place.username, "password": place.password}
        address += "".join(f" {key}={connection_value(value)}" for key, value in login.items() if value)
        if place.kind is PlaceKind.POSTGRES and "connect_timeout" not in address:
            address += f" connect_timeout={CONNECT_TIMEOUT_S}"
    suffix = f" ({', '.join(options)})" if options else ""
    connection.execute(f"ATTACH {text(address)} AS {alias}{suffix}")


def interrupt(connection: Any) -> None:
    """End the query of a connection that another thread waits for; nothing for None and for one that is closed."""
    import duckdb

    if connection is not None:
        with contextlib.suppress(duckdb.Error):
            connection.interrupt()


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
            detail=first_line(error),
            hint=f"use connector 'jdbc' (SQLite, Postgres), or install it: INSTALL {name} in DuckDB, or pip install {package}",
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


# A connection to DuckDB that several hold.


class SharedConnection:
    """Closes the connection when the last holder has released it; who makes it holds it. Thread-safe. State: how many hold it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._holders = 1

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last:
            self.connection.close()
