"""Threads for calls that may hang: a slow one does not take the place of others."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from sqlstream.runtime.host.timer import Timer

LOOKS_MAX = 8
"""Calls at once, but for those that take longer than SLOW_MS."""
SLOW_MS = 5_000


class LookThreads:
    """Each call has a thread, which does not hold up the end of the process. Safe from any thread.

    State: how many calls count as quick, and those that wait for their turn."""

    def __init__(self, timer: Timer, slow_ms: int = SLOW_MS) -> None:
        self._timer = timer
        self._slow_ms = slow_ms
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._quick = 0
        self._is_closed = False

    def start(self, call: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_closed:
                self._waiting.append(call)
        self._start_next()

    def close(self) -> None:
        """Calls that wait are dropped; those under way go on."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _start_next(self) -> None:
        with self._lock:
            if not self._waiting or self._quick >= LOOKS_MAX:
                return
            call = self._waiting.popleft()
            self._quick += 1
        threading.Thread(target=self._run, args=(call,), name="split-enumerator", daemon=True).start()

    def _run(self, call: Callable[[], None]) -> None:
        is_counted = True

        def count_out() -> None:
            nonlocal is_counted
            with self._lock:
                if not is_counted:
                    return
                is_counted = False
                self._quick -= 1
            self._start_next()

        self._timer.call(self._slow_ms, count_out)
        try:
            call()
        finally:
            count_out()
