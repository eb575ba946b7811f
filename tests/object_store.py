"""A store of objects in a directory, whose process may die before and after each call that changes something."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any, BinaryIO

from pyarrow import fs

from sqlstream.runtime.host.store_files import StoreFiles
from sqlstream.runtime.host.stores.remote_store import Entry, RemoteStore
from sqlstream.testing.mortal_files import Process

_CHANGES = frozenset({"copy_file", "delete_file", "delete_dir", "create_dir", "open_output_stream"})


class ObjectStore:
    """Arrow's local file system as far as `StoreFiles` calls it. Objects need no directories made for them."""

    def __init__(self, directory: str, process: Process) -> None:
        self._store = fs.SubTreeFileSystem(directory, fs.LocalFileSystem())
        self._process = process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in _CHANGES:
            return method

        def call(*arguments: Any, **named: Any) -> Any:
            self._process.call()
            if name in ("copy_file", "open_output_stream"):
                self._store.create_dir(os.path.dirname(arguments[-1]), recursive=True)
            result = method(*arguments, **named)
            self._process.call()
            return result

        return call


def store_in(directory: str, process: Process | None = None) -> StoreFiles:
    return StoreFiles(ObjectStore(directory, process or Process(None)), "s3://")  # type: ignore[arg-type]


class DirectoryConnection:
    """A server of files with directories and a rename, such as those of SFTP, over a local directory."""

    errors: tuple[type[Exception], ...] = ()

    def __init__(self, directory: str, process: Process) -> None:
        self._directory = directory
        self._process = process

    def _at(self, path: str) -> str:
        return self._directory + path

    def _change(self, make: Callable[[], Any]) -> Any:
        self._process.call()
        result = make()
        self._process.call()
        return result

    def info(self, path: str) -> Entry | None:
        try:
            found = os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Entry(path, stat.S_ISDIR(found.st_mode), found.st_size, found.st_mtime_ns)

    def list(self, path: str) -> list[Entry]:
        found = (self.info(f"{path.rstrip('/')}/{name}") for name in os.listdir(self._at(path)))
        return [entry for entry in found if entry is not None]

    def open_read(self, path: str) -> BinaryIO:
        return open(self._at(path), "rb")

    def open_write(self, path: str) -> BinaryIO:
        return self._change(lambda: open(self._at(path), "wb"))

    def rename(self, path: str, other: str) -> None:
        self._change(lambda: os.replace(self._at(path), self._at(other)))

    def remove_file(self, path: str) -> None:
        self._change(lambda: os.remove(self._at(path)))

    def make_directory(self, path: str) -> None:
        self._change(lambda: os.mkdir(self._at(path)))

    def remove_directory(self, path: str) -> None:
        self._change(lambda: os.rmdir(self._at(path)))

    def close(self) -> None:
        return


def renaming_store_in(directory: str, process: Process | None = None) -> StoreFiles:
    """The same as a server of files has them."""
    connection = DirectoryConnection(directory, process or Process(None))
    return StoreFiles(RemoteStore(lambda: connection), "sftp://b", renames=True)  # type: ignore[arg-type]
