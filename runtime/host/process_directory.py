"""A directory on the local disk that belongs to one process, and what those of killed processes have left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from sqlstream.runtime.host.process_end import before_end

ABANDONED_S = 600.0
"""How long the directory of a killed process stays: whoever takes its place looks into it."""


class ProcessDirectory:
    """`<parent>/<prefix><random>`, which only this user may enter. It is made at its first use, locked while this process lives,
    and removed before the process ends; one whose process was killed is removed ABANDONED_S later by the next that makes its
    own. All errors are OSError. Thread-safe. State: the path and its lock, once it is made."""

    def __init__(self, parent: str, prefix: str) -> None:
        self._parent = os.path.abspath(parent)
        self._prefix = prefix
        self._mutex = threading.Lock()
        self.made = ""
        """The directory; empty before its first use."""

    @property
    def path(self) -> str:
        """The directory, which is made by the first call."""
        with self._mutex:
            if not self.made:
                self.made = self._make()
            return self.made

    def _make(self) -> str:
        os.makedirs(self._parent, 0o700, exist_ok=True)
        for path in self.abandoned():
            with suppress(OSError):
                if time.time() - _last_change_s(path) > ABANDONED_S:
                    shutil.rmtree(path, ignore_errors=True)
        path = tempfile.mkdtemp(prefix=self._prefix, dir=self._parent)
        # The lock is held by the open file, until the process ends, however it does.
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_EX)
        before_end(lambda: shutil.rmtree(path, ignore_errors=True))
        return path

    def others(self) -> list[str]:
        """The directories of this user's other processes beside it, running or killed."""
        try:
            with os.scandir(self._parent) as entries:
                return sorted(e.path for e in entries if e.path != self.made and self._is_ours(e))
        except FileNotFoundError:
            return []

    def abandoned(self) -> Iterator[str]:
        """Those of processes that were killed."""
        for path in self.others():
            with suppress(OSError):
                number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path
                finally:
                    os.close(number)

    def _is_ours(self, entry: os.DirEntry[str]) -> bool:
        with suppress(OSError):
            return (
                entry.name.startswith(self._prefix)
                and entry.is_dir(follow_symlinks=False)
                and entry.stat(follow_symlinks=False).st_uid == os.getuid()
            )
        return False


def _last_change_s(path: str) -> float:
    """When a name in the directory, or in one in it, changed last."""
    with os.scandir(path) as entries:
        times = [e.stat(follow_symlinks=False).st_mtime for e in entries]
    return max([os.stat(path).st_mtime, *times])
