"""Where an engine puts rows for which memory is too small: a directory of one run, removed with it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PREFIX = "sqlstream-spill-"
YOUNG_S = 60.0
"""A directory younger than this may belong to a process that has not locked it yet."""


@contextmanager
def spill_directory(parent: str | None = None) -> Iterator[str]:
    """A directory that only this user may enter, below `parent` or else that for temporary files. Those of processes that were
    killed are removed first: their locks went with them."""
    _remove_abandoned(parent or tempfile.gettempdir())
    directory = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    lock = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(parent: str) -> None:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    status = entry.stat(follow_symlinks=False)
    if status.st_uid != os.getuid() or not entry.is_dir(follow_symlinks=False):
        return
    if time.time() - status.st_mtime < YOUNG_S:
        return
    lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(lock)
