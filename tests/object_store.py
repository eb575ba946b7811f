"""A store of objects in a directory, whose process may die before and after each call that changes something."""

from __future__ import annotations

import os
from typing import Any

from pyarrow import fs

from sqlstream.runtime.host.store_files import StoreFiles
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
