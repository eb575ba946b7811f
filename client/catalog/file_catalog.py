"""A catalog in a directory: one JSON file for each table, view, function and model, for several processes at once.

    <path>/catalog.json                               marks the directory as a catalog, with the format's version
    <path>/lock                                       locked by writers; counts changes
    <path>/databases/<database>/database.json         comment and properties
    <path>/databases/<database>/tables/<name>.json    a table or a view
    <path>/databases/<database>/functions/<name>.json a function; the directory is there from the first one on
    <path>/databases/<database>/models/<name>.json    a model, in the same way

Other directories beside these are left alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from sqlstream import catalog
from sqlstream.catalog.changes import ContentsChange
from sqlstream.catalog.contents import changed
from sqlstream.client.catalog.definition_files import (
    SUFFIX,
    entries,
    file_name,
    files_below,
    make_directory,
    read_definition,
    remove_definition,
    remove_directory,
    remove_leftovers,
    rename_definition,
    sql_name,
    write_definition,
)
from sqlstream.client.catalog.stored import (
    FORMAT,
    CatalogHead,
    DamagedDefinition,
    decode,
    decode_database,
    decode_function,
    decode_model,
    decode_object,
    encode,
    encode_database,
    encode_function,
    encode_model,
    encode_object,
)
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.host.files import file_error
from sqlstream.spi.files import refuse_home

logger = logging.getLogger(__name__)

TYPE = "file"
_HEAD = "catalog.json"
_DATABASES = "databases"
_DATABASE = "database.json"
_TABLES = "tables"
_FUNCTIONS = "functions"
_MODELS = "models"

Keep = Callable[[Mapping[str, bytes | None]], None]
"""Takes the files that are about to be written, by their paths, or removed (None)."""

Signature = tuple[int, int, int]
"""Inode, size and time of modification in nanoseconds: another file of the same name has another one."""

Definition = TypeVar("Definition")


@dataclasses.dataclass(frozen=True)
class _State:
    """What a directory held when its version was `version`."""

    version: int
    contents: catalog.CatalogContents


def open_file_catalog(
    path: str,
    name: str = catalog.DEFAULT_CATALOG,
    default_database: str = catalog.DEFAULT_DATABASE,
    keep: Keep = lambda changes: None,
) -> FileCatalog:
    """The catalog `name` kept in the directory `path`, which is made when it is missing or empty. What is about to change
    there is given to `keep`, which may refuse it."""
    options = {"type": TYPE, "path": path, "default-database": default_database}
    return FileCatalog(name, catalog.CatalogDefinition(options), keep)


def _complete(definition: catalog.CatalogDefinition) -> catalog.CatalogDefinition:
    """The definition with the path made absolute and the default database named."""
    default = definition.options.get("default-database", catalog.DEFAULT_DATABASE)
    path = os.path.abspath(definition.options["path"])
    options = definition.options | {"path": path, "default-database": default}
    return msgspec.structs.replace(definition, options=options)


class FileCatalog:
    """Keeps definitions in files: a change that `apply` has acknowledged survives the death of the process and of the machine
    at any point, and one that was under way is there whole or not at all.

    Several processes may use one directory: they take turns to write, and each sees the changes of the others with its next
    statement. A file that cannot be read makes only its own object unusable. Thread-safe. State: the last contents read, and
    the signatures of their files, so that after a change only changed files are read.
    """

    def __init__(
        self, name: str, definition: catalog.CatalogDefinition, keep: Keep = lambda changes: None
    ) -> None:
        """UserError when the directory is no catalog or one of another format; ExternalError when it cannot be used."""
        refuse_home(definition.options["path"], 'option "path"')
        self._path = os.path.abspath(definition.options["path"])
        self.definition = _complete(definition)
        default = self.definition.default_database
        self._name = name
        self._keep = keep
        self._lock = threading.Lock()
        self._read: dict[str, tuple[Signature, object]] = {}
        self._state = _State(-1, catalog.CatalogContents())
        _prepare_directory(self._path)
        self._version = SharedVersion(os.path.join(self._path, "lock"))
        try:
            with self._version.exclusive():
                self._open(default)
        except BaseException:
            self._version.close()
            raise

    def _open(self, default_database: str) -> None:
        head = os.path.join(self._path, _HEAD)
        if os.path.exists(head):
            try:
                decode(read_definition(head), CatalogHead)
            except DamagedDefinition as damage:
                raise UserError(
                    "SS5022",
                    f'"{head}" cannot be read: {damage}',
                    hint="repair the file, or name another directory",
                ) from None
        else:
            self._put(head, encode(CatalogHead(FORMAT)))
        remove_leftovers(self._path)
        databases = os.path.join(self._path, _DATABASES)
        if not entries(databases):
            os.makedirs(databases, 0o700, exist_ok=True)
            self._prepared_database(default_database, encode_database(catalog.CatalogDatabase()))()
        for entry in entries(databases):
            # A copy of the files alone has no empty directories.
            os.makedirs(os.path.join(entry.path, _TABLES), 0o700, exist_ok=True)
        self._version.advance()
        self._reload()

    # -- reading -----------------------------------------------------------------------------------

    def redefine(self, definition: catalog.CatalogDefinition) -> bool:
        completed = _complete(definition)
        if completed.options["path"] != self._path:
            return False
        self.definition = completed
        return True

    def contents(self) -> catalog.CatalogContents:
        state = self._state
        if self._version.read() == state.version:
            return state.contents
        with self._lock, self._version.shared():
            self._refresh()
            return self._state.contents

    def _refresh(self) -> None:
        """Read what other processes have changed. Only under the locks."""
        if self._version.read() != self._state.version:
            self._reload()

    def _reload(self) -> None:
        before, self._read = self._read, {}
        databases, damaged = {}, {}
        for entry in entries(os.path.join(self._path, _DATABASES)):
            name = sql_name(entry.name)
            if name is None or not entry.is_dir(follow_symlinks=False):
                logger.warning('"%s" belongs to no database and is passed over', entry.path)
                continue
            found = self._definition(os.path.join(entry.path, _DATABASE), before, decode_database)
            if isinstance(found, catalog.CatalogDatabase):
                databases[name] = self._read_database(name, found, before)
            else:
                damaged[name] = str(found)
        self._state = _State(self._version.read(), catalog.CatalogContents(databases, damaged))

    def _read_database(
        self, name: str, database: catalog.CatalogDatabase, before: Mapping[str, tuple[Signature, object]]
    ) -> catalog.DatabaseContents:
        objects, damaged = self._read_definitions(name, _TABLES, "table or view", decode_object, before)
        functions, damaged_functions = self._read_definitions(
            name, _FUNCTIONS, "function", decode_function, before
        )
        models, damaged_models = self._read_definitions(name, _MODELS, "model", decode_model, before)
        return catalog.DatabaseContents(
            database, objects, damaged, functions, damaged_functions, models, damaged_models
        )

    def _read_definitions(
        self,
        database: str,
        directory: str,
        kind: str,
        decode_content: Callable[..., Definition],
        before: Mapping[str, tuple[Signature, object]],
    ) -> tuple[dict[str, Definition], dict[str, str]]:
        """What the files of a directory define, by name, and what is wrong with those that cannot be read."""
        found: dict[str, Definition] = {}
        damaged: dict[str, str] = {}
        for entry in entries(os.path.join(self._database_path(database), directory)):
            stem = entry.name.removesuffix(SUFFIX)
            name = sql_name(stem)
            if name is None or stem == entry.name:
                logger.warning('"%s" belongs to no %s and is passed over', entry.path, kind)
                continue
            path = catalog.ObjectPath(self._name, database, name)
            definition = self._definition(entry.path, before, functools.partial(decode_content, path=path))
            if isinstance(definition, str):
                damaged[name] = definition
            else:
                found[name] = definition
        return found, damaged

    def _definition(
        self,
        path: str,
        before: Mapping[str, tuple[Signature, object]],
        decode_content: Callable[[bytes], Definition],
    ) -> Definition | str:
        """The definition in a file, decoded anew if the file has changed, or what is wrong with it."""
        try:
            signature = _signature(path)
            if path in before and before[path][0] == signature:
                self._read[path] = before[path]
            else:
                self._read[path] = (signature, decode_content(read_definition(path)))
        except SqlStreamError as error:
            return error.message
        except DamagedDefinition as damage:
            return f'"{path}": {damage}'
        return self._read[path][1]  # type: ignore[return-value]

    # -- writing -----------------------------------------------------------------------------------

    def apply(self, change: ContentsChange) -> None:
        with self._lock, self._version.exclusive():
            self._refresh()
            after = changed(self._state.contents, change)
            write = self._prepared(change)
            self._version.advance()
            try:
                write()
            except BaseException:
                # Whether the change is there is unknown: the next reader looks.
                self._state = dataclasses.replace(self._state, version=-1)
                raise
            self._state = _State(self._version.read(), after)

    def _prepared(self, change: ContentsChange) -> Callable[[], None]:
        """The change of the files, with all that can be wrong with names and texts found before."""
        match change:
            case catalog.PutObject(entry):
                path, content = self._object_path(entry.path), encode_object(entry)
                return lambda: self._put(path, content)
            case catalog.RemoveObject(entry):
                path = self._object_path(entry.path)
                return lambda: self._remove(path)
            case catalog.RemoveDamaged(damaged):
                path = self._object_path(damaged)
                return lambda: self._remove(path)
            case catalog.RenameObject(entry):
                path, target = self._object_path(entry.path), self._object_path(change.target)

                def rename() -> None:
                    self._keep({target: read_definition(path), path: None})
                    rename_definition(path, target)

                return rename
            case catalog.PutFunction(function):
                path, content = self._path_of(_FUNCTIONS, function.path), encode_function(function)
                return lambda: self._put_beside(path, content)
            case catalog.RemoveFunction(function):
                path = self._path_of(_FUNCTIONS, function.path)
                return lambda: self._remove(path)
            case catalog.RemoveDamagedFunction(damaged):
                path = self._path_of(_FUNCTIONS, damaged)
                return lambda: self._remove(path)
            case catalog.ChangeModel(before, after):
                return self._prepared_model(before, after)
            case catalog.RemoveDamagedModel(damaged):
                path = self._path_of(_MODELS, damaged)
                return lambda: self._remove(path)
            case catalog.PutDatabase(_, name, database, expected):
                path, content = self._database_path(name), encode_database(database)
                if expected is not None:
                    return lambda: self._put(os.path.join(path, _DATABASE), content)
                return self._prepared_database(name, content)
            case catalog.RemoveDatabase(_, name):
                path = self._database_path(name)

                def remove() -> None:
                    self._keep(dict.fromkeys(files_below(path)))
                    remove_directory(path)

                return remove

    def _prepared_database(self, name: str, content: bytes) -> Callable[[], None]:
        path = self._database_path(name)

        def make() -> None:
            self._keep({os.path.join(path, _DATABASE): content})
            make_directory(path, {_DATABASE: content}, (_TABLES,))

        return make

    def _prepared_model(
        self, before: catalog.CatalogModel | None, after: catalog.CatalogModel | None
    ) -> Callable[[], None]:
        former = "" if before is None else self._path_of(_MODELS, before.path)
        path = "" if after is None else self._path_of(_MODELS, after.path)
        content = b"" if after is None else encode_model(after)

        def write() -> None:
            if path:
                self._put_beside(path, content)
            if former and former != path:
                self._remove(former)

        return write

    def _put_beside(self, path: str, content: bytes) -> None:
        """Write a file of a directory that is made with its first file."""
        directory = os.path.dirname(path)
        if not os.path.isdir(directory):
            make_directory(directory, {}, ())
        self._put(path, content)

    def _put(self, path: str, content: bytes) -> None:
        self._keep({path: content})
        write_definition(path, content)

    def _remove(self, path: str) -> None:
        self._keep({path: None})
        remove_definition(path)

    def close(self) -> None:
        """The catalog is not to be used after this."""
        self._version.close()

    def _database_path(self, name: str) -> str:
        return os.path.join(self._path, _DATABASES, file_name(name))

    def _object_path(self, path: catalog.ObjectPath) -> str:
        return os.path.join(self._database_path(path.database), _TABLES, file_name(path.name) + SUFFIX)

    def _path_of(self, directory: str, path: catalog.ObjectPath) -> str:
        return os.path.join(self._database_path(path.database), directory, file_name(path.name) + SUFFIX)


def _signature(path: str) -> Signature:
    try:
        status = os.stat(path)
    except OSError as error:
        raise file_error("read", path, error) from error
    return status.st_ino, status.st_size, status.st_mtime_ns


def _prepare_directory(path: str) -> None:
    """Make the directory of a catalog; one with other content is refused, so that no catalog mixes with other files."""
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        present = os.listdir(path)
        if not present:
            os.chmod(path, 0o700)
    except OSError as error:
        raise file_error("make directory", path, error) from error
    if present and not {_HEAD, "lock"} & set(present):
        raise UserError(
            "SS5022",
            f'"{path}" is not empty and holds no catalog',
            hint="name an empty directory, one that does not exist yet, or one that a catalog has made",
        )


# A lock file that counts the changes of what it guards, for processes that share a directory.


LOCK_TIMEOUT_S = 30.0
_POLL_S = 0.002
_DIGITS = 20


class SharedVersion:
    """A number in a file, raised before each change under an exclusive lock; so who reads the number under the lock and then
    the directory knows, as long as the number stays, that nothing has changed. It holds also when a writer is killed at any
    point, as the operating system then releases the lock.

    State: the open file. Threads of one process take turns by a lock of their owner's.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise file_error("open", path, error) from error
        self._file = os.fdopen(number, "rb+", buffering=0)

    def read(self) -> int:
        """The number as it is, which a writer may be about to raise."""
        text = os.pread(self._file.fileno(), _DIGITS, 0)
        return int(text) if text.isdigit() else 0

    def advance(self) -> None:
        """Announce a change. Only under the exclusive lock."""
        try:
            os.pwrite(self._file.fileno(), f"{self.read() + 1:0{_DIGITS}d}\n".encode(), 0)
        except OSError as error:
            raise file_error("write", self._path, error) from error

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Nobody changes the directory meanwhile."""
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else reads or changes the directory meanwhile."""
        with self._locked(fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        deadline_s = time.monotonic() + LOCK_TIMEOUT_S
        while not self._try(kind):
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    "SS5023",
                    f'"{self._path}" is locked by another process for more than {LOCK_TIMEOUT_S:g} s',
                )
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._file.fileno(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise file_error("lock", self._path, error) from error
        return True

    def close(self) -> None:
        self._file.close()
