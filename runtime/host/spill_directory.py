"""Where engines put rows for which memory is too small: directories that are removed with their run, or with this process."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlstream.runtime.host.process_end import before_end

PREFIX = "sqlstream-spill-"
YOUNG_S = 60.0
"""A directory younger than this may belong to a process that has not locked it yet."""

_locks: dict[str, int] = {}
"""The directories of this process, with the descriptors that lock them."""


@contextmanager
def spill_directory(parent: str | None = None) -> Iterator[str]:
    """A directory as `make_spill_directory` makes it, for the time of one run."""
    directory = make_spill_directory(parent)
    try:
        yield directory
    finally:
        _remove(directory)


def make_spill_directory(parent: str | None = None) -> str:
    """A directory that only this user may enter, below `parent` or else that for temporary files; it is removed before the
    process ends. Those of processes that were killed are removed first: their locks went with them."""
    _remove_abandoned(parent or tempfile.gettempdir())
    directory = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    _locks[directory] = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    with suppress(OSError):
        fcntl.flock(_locks[directory], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return directory


def _remove(directory: str) -> None:
    lock = _locks.pop(directory, None)
    shutil.rmtree(directory, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _remove_all() -> None:
    for directory in list(_locks):
        _remove(directory)


before_end(_remove_all)


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
