"""Servers of files with directories and a rename, such as those of SFTP, with the methods of pyarrow's file systems that
`StoreFiles` calls.

Their libraries serve one thread at a time, and a file that is open has its connection to itself. So calls and files borrow a
connection and give it back; one on which something failed is closed.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar, cast

import msgspec

from sqlstream.errors import SqlStreamError
from sqlstream.runtime.host.clock import steady_s

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

CONNECT_TIMEOUT_S = 10.0
SILENCE_S_MAX = 60.0
"""How long a server may say nothing within a call."""

_IDLE_MAX = 4
_IDLE_S_MAX = 20.0
"""Servers close connections that are not used; a younger one is taken again."""

_DEPTH_MAX = 64
_READ_BYTES = 1 << 20
_T = TypeVar("_T")


class ReadByParts(io.RawIOBase):
    """A file of `size` bytes that is read by parts: `part` gives up to so many bytes from a position on, never none. State: the
    position."""

    def __init__(self, size: int, part_bytes: int) -> None:
        self._size, self._part_bytes = size, part_bytes
        self._position = 0

    def part(self, position: int, size: int) -> bytes:
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        size = min(len(view), self._size - self._position, self._part_bytes)
        if size <= 0:
            return 0
        data = self.part(self._position, size)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


class Entry(msgspec.Struct, frozen=True):
    """A file or directory, by its whole path on the server."""

    path: str
    is_directory: bool
    size: int
    modified_ns: int


class Connection(Protocol):
    """A connection to a server, used by one thread at a time. Failures are OSError or one of `errors`: FileNotFoundError for what
    is not there, PermissionError for what the user may not do."""

    errors: tuple[type[Exception], ...]

    def info(self, path: str) -> Entry | None:
        """Of what a link leads to; None when there is nothing."""

    def list(self, path: str) -> list[Entry]:
        """What is in a directory; links to directories are left out, which might lead back."""

    def open_read(self, path: str) -> BinaryIO: ...
    def open_write(self, path: str) -> BinaryIO:
        """A new file, in place of one that is there. FileNotFoundError without its directory."""

    def rename(self, path: str, other: str) -> None:
        """At once, in place of what is there. FileNotFoundError without the directory of `other`."""

    def remove_file(self, path: str) -> None: ...
    def make_directory(self, path: str) -> None: ...
    def remove_directory(self, path: str) -> None:
        """Fails unless the directory is empty."""

    def close(self) -> None: ...


class ReadingConnection:
    """The part of `Connection` that changes something, for servers where nothing is written."""

    def open_write(self, path: str) -> BinaryIO:
        raise PermissionError("files are only read there")

    def rename(self, path: str, other: str) -> None:
        raise PermissionError("files are only read there")

    def remove_file(self, path: str) -> None:
        raise PermissionError("files are only read there")

    def make_directory(self, path: str) -> None:
        raise PermissionError("files are only read there")

    def remove_directory(self, path: str) -> None:
        raise PermissionError("files are only read there")


class Connections:
    """Connections of one server, by `connect`. Several threads may borrow.

    State: a few that are idle, with the time since when."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Connection]] = []

    def take(self) -> tuple[Connection, bool]:
        """A connection, and whether it was used before: then the server may have closed it."""
        with self._lock:
            old = [c for since_s, c in self._idle if since_s < steady_s() - _IDLE_S_MAX]
            self._idle = [one for one in self._idle if one[1] not in old]
            taken = self._idle.pop()[1] if self._idle else None
        for connection in old:
            close_quietly(connection)
        return (taken, True) if taken is not None else (self._connect(), False)

    def close_idle(self) -> None:
        """The server may have closed them all."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            close_quietly(connection)

    def give_back(self, connection: Connection) -> None:
        with self._lock:
            if len(self._idle) < _IDLE_MAX:
                self._idle.append((steady_s(), connection))
                return
        close_quietly(connection)


def close_quietly(connection: Connection) -> None:
    """It may be broken."""
    with contextlib.suppress(EOFError, *_errors(connection)):
        connection.close()


class RemoteStore:
    """See the module. Paths are whole ones, empty for the root; errors are OSError. No state but connections."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connections = Connections(connect)

    # --- as pyarrow's

    def get_file_info(self, asked: str | fs.FileSelector) -> Any:
        return self._repeated(lambda: self._found(asked))

    def _found(self, asked: str | fs.FileSelector) -> Any:
        with self._borrowed() as connection:
            if isinstance(asked, str):
                found = connection.info(asked or "/")
                return _info(asked, found)
            root = connection.info(asked.base_dir or "/")
            if root is None or not root.is_directory:
                return []
            return [_info(e.path, e) for e in _below(connection, asked.base_dir, asked.recursive)]

    def open_input_file(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.PythonFile(self._repeated(lambda: self._stream(lambda c: c.open_read(path))), mode="r")

    def open_output_stream(self, path: str) -> BinaryIO:
        def open_() -> BinaryIO:
            return self._stream(lambda c: self._in_its_directory(c, path, lambda: c.open_write(path)))

        return self._repeated(open_)

    def move(self, path: str, other: str) -> None:
        with self._borrowed() as connection:
            self._in_its_directory(connection, other, lambda: connection.rename(path, other))

    def delete_file(self, path: str) -> None:
        with self._borrowed() as connection:
            connection.remove_file(path)

    def delete_dir(self, path: str) -> None:
        with self._borrowed() as connection:
            for entry in reversed(list(_below(connection, path, is_recursive=True))):
                with contextlib.suppress(FileNotFoundError):
                    (connection.remove_directory if entry.is_directory else connection.remove_file)(
                        entry.path
                    )
            connection.remove_directory(path)

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        with self._borrowed() as connection:
            _make_directories(connection, path)

    def remove_empty(self, path: str) -> None:
        with self._borrowed() as connection:
            found = connection.info(path)
            if found is None or not found.is_directory or connection.list(path):
                return
            try:
                connection.remove_directory(path)
            except _errors(connection):
                # Somebody was faster, with a file or to remove it.
                if connection.info(path) is not None and not connection.list(path):
                    raise

    # --- connections

    def _repeated(self, call: Callable[[], _T]) -> _T:
        """What changes nothing, or may be done twice: once more, on a new connection, when it has failed on one that was used
        before."""
        try:
            return call()
        except _StaleError:
            self._connections.close_idle()
            return call()

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        connection, is_reused = self._connections.take()
        try:
            with _stale_if(is_reused), errors_as_os_error(connection.errors):
                yield connection
        except FileNotFoundError:
            self._connections.give_back(connection)
            raise
        except BaseException:
            close_quietly(connection)
            raise
        self._connections.give_back(connection)

    def _stream(self, open_: Callable[[Connection], BinaryIO]) -> BinaryIO:
        connection, is_reused = self._connections.take()
        try:
            with _stale_if(is_reused), errors_as_os_error(connection.errors):
                opened = open_(connection)
        except BaseException:
            close_quietly(connection)
            raise
        return cast(BinaryIO, _BorrowingStream(opened, connection, self._connections))

    @staticmethod
    def _in_its_directory(connection: Connection, path: str, make: Callable[[], _T]) -> _T:
        try:
            return make()
        except FileNotFoundError:
            _make_directories(connection, os.path.dirname(path))
            return make()


class _BorrowingStream:
    """An open file of a server. It gives its connection back when it is closed, unless something failed.
    State: whether it is open and sound."""

    def __init__(self, stream: BinaryIO, connection: Connection, connections: Connections) -> None:
        self._stream, self._connection, self._connections = stream, connection, connections
        self._is_sound = True
        self.closed = False

    def _call(self, call: Callable[[], _T]) -> _T:
        if self.closed:
            raise ValueError("the file is closed")
        try:
            with errors_as_os_error(self._connection.errors):
                return call()
        except BaseException:
            self._is_sound = False
            raise

    def read(self, size: int = -1) -> bytes:
        if size >= 0:
            return self._call(lambda: self._stream.read(size))
        parts = iter(lambda: self._call(lambda: self._stream.read(_READ_BYTES)), b"")
        return b"".join(parts)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._call(lambda: self._stream.write(view))
        return len(view)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._call(lambda: self._stream.seek(offset, whence))
        return self.tell()

    def tell(self) -> int:
        return self._call(self._stream.tell)

    def flush(self) -> None:
        self._call(self._stream.flush)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """What is written is there once this returns."""
        if self.closed:
            return
        try:
            self._call(self._stream.close)
        finally:
            self.closed = True
            if self._is_sound:
                self._connections.give_back(self._connection)
            else:
                close_quietly(self._connection)

    def __enter__(self) -> _BorrowingStream:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self.closed = True
            close_quietly(self._connection)


def _errors(connection: Connection) -> tuple[type[Exception], ...]:
    return (OSError, *connection.errors)


@contextlib.contextmanager
def errors_as_os_error(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """What libraries raise, as callers of files expect it."""
    failures: tuple[type[Exception], ...] = (EOFError, *errors)
    try:
        yield
    except (OSError, SqlStreamError):
        raise
    except failures as error:
        raise OSError(str(error) or type(error).__name__) from error


class _StaleError(OSError):
    """A call has failed on a connection that was used before: the server may have closed it meanwhile."""


@contextlib.contextmanager
def _stale_if(is_reused: bool) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        if is_reused:
            raise _StaleError(str(error)) from error
        raise


def _below(connection: Connection, path: str, is_recursive: bool, depth: int = 0) -> Iterator[Entry]:
    try:
        entries = connection.list(path or "/")
    except FileNotFoundError:
        # Another process has removed the directory meanwhile.
        return
    for entry in sorted(entries, key=lambda e: e.path):
        yield entry
        if entry.is_directory and is_recursive and depth < _DEPTH_MAX:
            yield from _below(connection, entry.path, is_recursive, depth + 1)


def _make_directories(connection: Connection, path: str) -> None:
    if path in ("", "/") or connection.info(path) is not None:
        return
    _make_directories(connection, os.path.dirname(path))
    try:
        connection.make_directory(path)
    except _errors(connection):
        # Another process may have made it.
        if connection.info(path) is None:
            raise


def _info(path: str, entry: Entry | None) -> fs.FileInfo:
    from pyarrow import fs

    if entry is None:
        return fs.FileInfo(path, fs.FileType.NotFound)
    if entry.is_directory:
        return fs.FileInfo(path, fs.FileType.Directory, mtime_ns=entry.modified_ns)
    return fs.FileInfo(path, fs.FileType.File, mtime_ns=entry.modified_ns, size=entry.size)
