"""Calls functions when they are due."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable

from sqlstream.runtime.host.clock import steady_ms


class Timer:
    """One thread, which starts with the first function. Functions must return at once. State: what is due, and when."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._condition = threading.Condition()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._places = itertools.count()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def call(self, after_ms: int, function: Callable[[], None]) -> None:
        with self._condition:
            if self._is_closed:
                return
            heapq.heappush(self._due, (steady_ms() + after_ms, next(self._places), function))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._due.clear()
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._is_closed and not (self._due and self._due[0][0] <= steady_ms()):
                    pause_s = (self._due[0][0] - steady_ms()) / 1000 if self._due else None
                    self._condition.wait(pause_s)
                if self._is_closed:
                    return
                function = heapq.heappop(self._due)[2]
            function()
