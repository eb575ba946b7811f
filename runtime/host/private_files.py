"""Files of the local disk that only the user who runs sqlstream can read, and that outlive a crash of the machine."""

from __future__ import annotations

import os
from typing import BinaryIO

from sqlstream.runtime.host.files import LocalFiles, file_error
from sqlstream.runtime.host.whole_files import FILE_MODE, sync_directory

_DIRECTORY_MODE = 0o700
_TRIES = 3


class PrivateFiles(LocalFiles):
    """New files have mode 0600 and new directories 0700; directories that are there stay as they are. What is synced or published
    is durable under its name too. No state."""

    def open_write(self, path: str) -> BinaryIO:
        """A new file; an existing one is emptied. A symbolic link in its place is ExternalError SS5001."""
        for tries_left in reversed(range(_TRIES)):
            self.make_directories(os.path.dirname(path) or ".")
            try:
                return open(path, "wb", opener=_open_private)
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
