"""Files that are replaced whole or not at all, whenever the process or the machine stops. All errors are OSError."""

from __future__ import annotations

import contextlib
import os

FILE_MODE = 0o600
"""Only the user can read what is written here."""


def replace_file(path: str, draft: str, data: bytes, *, is_durable: bool = True) -> None:
    """Put a file in place at once, or replace it, by way of `draft`, a new name in the same directory, which only a process
    that is killed leaves behind. With `is_durable` the file is on the disk on return; without, only a crash of the machine
    can lose it."""
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
            stream.flush()
            if is_durable:
                os.fsync(number)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    if is_durable:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Return when the names in a directory are on the disk."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
