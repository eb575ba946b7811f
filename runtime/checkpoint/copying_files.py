"""The store that state is written to, with a copy of each file on the local disk."""

from __future__ import annotations

import os
from typing import BinaryIO, Protocol, cast

from sqlstream.runtime.checkpoint.local_copies import SubtaskCopies
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.whole_files import FILE_MODE
from sqlstream.spi.files import FileStatus


class StateFiles(Protocol):
    """What a writer of state needs of a store: see `Files`."""

    def open_write(self, path: str) -> BinaryIO: ...
    def sync(self, stream: BinaryIO) -> None: ...
    def status(self, path: str) -> FileStatus | None: ...
    def remove(self, path: str) -> None: ...
    def remove_directory_if_empty(self, path: str) -> None: ...


class CopyingFiles:
    """Implements `StateFiles`: what is synced has a copy, if one could be made, and what is removed has none.

    A copy on the file system of the store is a second name of the same file, and costs nothing. Otherwise each buffer is written
    to both. The copy is not synced: the power may fail, and it is found to be torn. No state."""

    def __init__(self, files: StateFiles, copies: SubtaskCopies) -> None:
        self._files = files
        self._copies = copies

    def open_write(self, path: str) -> BinaryIO:
        stream = self._files.open_write(path)
        if isinstance(self._files, LocalFiles) and self._copies.is_on_same_disk(path):
            return stream
        return cast(BinaryIO, _TeedStream(stream, path, self._copies))

    def sync(self, stream: BinaryIO) -> None:
        if isinstance(stream, _TeedStream):
            self._files.sync(stream.original)
            stream.end_copy()
        else:
            self._files.sync(stream)
            self._copies.link(stream.name)

    def status(self, path: str) -> FileStatus | None:
        return self._files.status(path)

    def remove(self, path: str) -> None:
        self._copies.drop([path])
        self._files.remove(path)

    def remove_directory_if_empty(self, path: str) -> None:
        self._files.remove_directory_if_empty(path)


class _TeedStream:
    """A file that is written, and its copy. A failure of the copy ends the copy alone.
    State: the copy's stream until its end or failure."""

    def __init__(self, original: BinaryIO, path: str, copies: SubtaskCopies) -> None:
        self.original = original
        self._path = path
        self._copies = copies
        self._copy: BinaryIO | None = None
        if (copy := copies.begin(path)) is not None:
            try:
                self._copy = _opened(copy)
            except OSError as error:
                copies.failed(path, error)

    def write(self, data: bytes) -> int:
        written = self.original.write(data)
        if self._copy is not None:
            try:
                self._copy.write(data)
            except OSError as error:
                self._fail(self._copy, error)
        return written

    def flush(self) -> None:
        self.original.flush()

    def end_copy(self) -> None:
        """All is written."""
        copy, self._copy = self._copy, None
        if copy is not None:
            try:
                copy.close()
            except OSError as error:
                self._fail(copy, error)
            else:
                self._copies.written(self._path)

    def _fail(self, copy: BinaryIO, error: OSError) -> None:
        self._copy = None
        _abandon(copy)
        self._copies.failed(self._path, error)

    def close(self) -> None:
        if self._copy is not None:
            # The original was not synced: it is worth nothing.
            copy, self._copy = self._copy, None
            _abandon(copy)
            self._copies.drop([self._path])
        self.original.close()

    def __enter__(self) -> _TeedStream:
        self.original.__enter__()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()


def _abandon(copy: BinaryIO) -> None:
    """Close it, whatever of it could not be written."""
    try:
        copy.close()
    except OSError:
        return


def _opened(path: str) -> BinaryIO:
    return open(path, "wb", opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
