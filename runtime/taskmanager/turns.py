"""Turns of the tasks of one process that wake at the same time."""

from __future__ import annotations

import threading

TURN_MAX_S = 0.02
"""How long a task waits for its turn at most."""


class Turns:
    """Lets tasks that wake from idleness run one after the other, each until it waits again.

    The interpreter runs one thread at a time in any case. Without turns, tasks that wake together pass its lock on at every call
    of a library that releases it, and most of their time goes into changing threads. A task that has waited for TURN_MAX_S runs
    in any case, and those that come later wait for it alone. State: the lock of the present turn."""

    def __init__(self, turn_max_s: float = TURN_MAX_S) -> None:
        self._turn_max_s = turn_max_s
        self._lock = threading.Lock()

    def begin(self) -> threading.Lock:
        """Wait for a turn; the caller releases what is returned when it waits again, or ends."""
        lock = self._lock
        if not lock.acquire(timeout=self._turn_max_s):
            # The task before works for long. Those behind wait for this one, not for that one too.
            lock = self._lock = threading.Lock()
            lock.acquire()
        return lock
