"""A lock file that counts the changes of what it guards, for processes that share a directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.files import file_error

LOCK_TIMEOUT_S = 30.0
_POLL_S = 0.002
_DIGITS = 20


class SharedVersion:
    """A number in a file, raised before each change under an exclusive lock; so who reads the number under the lock and then
    the directory knows, as long as the number stays, that nothing has changed. It holds also when a writer is killed at any
    point, as the operating system then releases the lock.

    State: the open file. Threads of one process take turns by a lock of their owner's.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise file_error("open", path, error) from error
        self._file = os.fdopen(number, "rb+", buffering=0)

    def read(self) -> int:
        """The number as it is, which a writer may be about to raise."""
        text = os.pread(self._file.fileno(), _DIGITS, 0)
        return int(text) if text.isdigit() else 0

    def advance(self) -> None:
        """Announce a change. Only under the exclusive lock."""
        try:
            os.pwrite(self._file.fileno(), f"{self.read() + 1:0{_DIGITS}d}\n".encode(), 0)
        except OSError as error:
            raise file_error("write", self._path, error) from error

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Nobody changes the directory meanwhile."""
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else reads or changes the directory meanwhile."""
        with self._locked(fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        deadline_s = time.monotonic() + LOCK_TIMEOUT_S
        while not self._try(kind):
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    "SS5023",
                    f'"{self._path}" is locked by another process for more than {LOCK_TIMEOUT_S:g} s',
                )
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._file.fileno(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise file_error("lock", self._path, error) from error
        return True

    def close(self) -> None:
        self._file.close()
