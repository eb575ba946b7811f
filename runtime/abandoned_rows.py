"""Removes, beside the work of the jobs, what sinks of killed processes have staged."""

from __future__ import annotations

import glob
import logging
import threading
from collections.abc import Callable
from typing import BinaryIO, TypeAlias

from sqlstream.errors import ExternalError, SqlStreamError
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

CLAIM = "claim"
"""The name that a claim has in place of a writer's id, which is a hexadecimal number."""

BETWEEN_PATHS = "\0"
"""What separates the paths in a claim."""

IsThere: TypeAlias = Callable[[str], bool]
"""Whether what a claim names is there: a path, or the words for a place that is none of this machine. True when in doubt."""

_PATTERNS_MAX = 100
_PATHS_BYTES_MAX = 1 << 14


class AbandonedRows:
    """Removes the rows of claims that nobody holds, on a thread of its own: one tree after the other, so that a large one delays
    no job. The thread ends with its last pattern, and with the process: a claim goes after its rows, so that the next job goes on
    with what is left.

    State: the patterns that wait or are at work, at most _PATTERNS_MAX; one more is left to the next job on its table."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._patterns: dict[str, IsThere] = {}
        self._thread: threading.Thread | None = None

    def remove(self, pattern: str, is_there: IsThere) -> None:
        """Remove the rows of the abandoned claims that fit the pattern, unless something that they name `is_there`. Returns at
        once."""
        with self._lock:
            if pattern in self._patterns or len(self._patterns) >= _PATTERNS_MAX:
                return
            self._patterns[pattern] = is_there
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="abandoned-rows", daemon=True)
                self._thread.start()

    def wait(self, timeout_s: float) -> None:
        """Return when nothing is left to remove, or after the timeout."""
        if (thread := self._thread) is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._patterns:
                    self._thread = None
                    return
                pattern, is_there = next(iter(self._patterns.items()))
            try:
                _remove_abandoned(pattern, self._files, is_there)
            except (
                Exception
            ) as error:  # the thread's boundary: what stays is left to the next job on the table
                logger.warning('could not remove what is staged at "%s": %s', pattern, error)
            with self._lock:
                del self._patterns[pattern]


def remove_staged(claim: str, files: Files) -> None:
    """Remove the staging directories of the job with this claim."""
    for directory in files.match_glob(glob.escape(claim.removesuffix(CLAIM)) + "*"):
        if directory != claim:
            logger.warning('removing "%s", which a killed process left', directory)
            files.remove(directory)


def is_claimed(path: str, files: Files) -> bool:
    """Whether the job of the claim at this path lives, or something is there that it is kept for. A store is not asked: what
    it may have is kept."""
    if files.status(path) is None:
        return False
    lock = files.lock(path)
    if lock is None:
        return files.status(path) is not None
    try:
        return _is_kept(lock, is_on_disk)
    finally:
        lock.close()


def _remove_abandoned(pattern: str, files: Files, is_there: IsThere) -> None:
    for path in files.match_glob(pattern):
        lock = files.lock(path)
        if lock is None:
            continue
        try:
            if _is_kept(lock, is_there):
                continue
            # The claim goes last: what a process that is killed here leaves is found again.
            remove_staged(path, files)
            files.remove(path)
        except SqlStreamError as error:
            logger.warning('could not remove what is staged for "%s": %s', path, error)
        finally:
            lock.close()


def _is_kept(claim: BinaryIO, is_there: IsThere) -> bool:
    """Whether something of the job is there that will complete its commit or remove its rows: a server that is stopped keeps it,
    or its checkpoints are where a user wants them."""
    paths = claim.read(_PATHS_BYTES_MAX).decode(errors="surrogateescape").split(BETWEEN_PATHS)
    return any(is_there(path) for path in paths if path)


def is_on_disk(path: str) -> bool:
    """An `IsThere` that knows this machine alone."""
    if "://" in path and not path.startswith("/"):
        return True
    try:
        # Jobs are kept where no table can be.
        return LocalFiles().status(path) is not None
    except (ExternalError, ValueError):
        # In a directory of another user.
        return True
