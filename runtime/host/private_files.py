"""Files of the local disk that only the user who runs sqlstream can read, and that outlive a crash of the machine."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.runtime.host.whole_files import FILE_MODE, sync_directory

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_DIRECTORY_MODE = 0o700
_TRIES = 3
_EARLY_BYTES = 8 << 20
"""Of a file that is being written, as many bytes at once begin their way to the disk: with the rest `sync` takes a few ms."""


class PrivateFiles(LocalFiles):
    """New files have mode 0600 and new directories 0700; directories that are there stay as they are. What is synced or published
    is durable under its name too. No state."""

    def open_write(self, path: str) -> BinaryIO:
        """A new file; an existing one is emptied. A symbolic link in its place is ExternalError SS5001."""
        for tries_left in reversed(range(_TRIES)):
            self.make_directories(os.path.dirname(path) or ".")
            try:
                return cast(BinaryIO, io.BufferedWriter(_EarlyFile(path, "wb", opener=_open_private)))
            except OSError as error:
                # Somebody may have removed the directory, because it was empty, since it was made.
                if not isinstance(error, FileNotFoundError) or not tries_left:
                    raise file_error("write", path, error) from error
        raise AssertionError("the last try returns or raises")

    def sync(self, stream: BinaryIO) -> None:
        super().sync(stream)
        sync_directory(os.path.dirname(stream.name) or ".")

    def publish(self, staged: str, final: str) -> None:
        self.make_directories(os.path.dirname(final) or ".")
        super().publish(staged, final)
        self.sync_directory(os.path.dirname(final) or ".")

    def make_directories(self, path: str) -> None:
        missing = []
        while not os.path.isdir(path) and path not in ("", "/"):
            missing.append(path)
            path = os.path.dirname(path)
        try:
            for directory in reversed(missing):
                os.makedirs(directory, _DIRECTORY_MODE, exist_ok=True)
                self.sync_directory(os.path.dirname(directory) or ".")
        except OSError as error:
            raise file_error("make directory", missing[0], error) from error


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)


class _EarlyFile(io.FileIO):
    """A file that goes to the disk while it is written: whoever syncs it does not wait for the disk only when all is written.

    State: how many bytes were written, and how many of them are on their way."""

    _written = 0
    _begun = 0

    def write(self, data: ReadableBuffer, /) -> int:
        count = super().write(data)
        self._written += count
        if self._written - self._begun >= _EARLY_BYTES:
            _write_back()(self.fileno(), self._begun, self._written - self._begun)
            self._begun = self._written
        return count


@functools.cache
def _write_back() -> Callable[[int, int, int], object]:
    """What has the operating system begin to write a part of a file (number, offset, length) to the disk. It promises nothing: a
    failure is that of the sync that follows. Does nothing where the system has no such call."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is None:
        return lambda number, offset, length: None
    call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    begin_write = 2  # SYNC_FILE_RANGE_WRITE of fcntl.h
    return lambda number, offset, length: call(number, offset, length, begin_write)
