"""The end of a task that another thread asks for: what the task checks, and what wakes it where it waits."""

from __future__ import annotations

import threading
from collections.abc import Callable


class TaskCancelled(Exception):
    """Unwinds the task's thread."""


class TaskCancellation:
    """Whether a task is to end. `request` may be called by any thread, the rest by the task's.

    State: the request, and the calls that end what the task may wait for: its outputs, which a failed task closes too, and calls
    of other systems. A call that is added after the request is made at once."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._lock = threading.Lock()
        self._outputs: list[Callable[[], None]] = []
        self._interrupts: list[Callable[[], None]] = []

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def check(self) -> None:
        """TaskCancelled when the task is to end."""
        if self._requested.is_set():
            raise TaskCancelled

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the request, or the timeout."""
        self._requested.wait(timeout_s)

    def add_output(self, close: Callable[[], None]) -> None:
        self._add(self._outputs, close)

    def add_interrupt(self, interrupt: Callable[[], None]) -> None:
        self._add(self._interrupts, interrupt)

    def _add(self, calls: list[Callable[[], None]], call: Callable[[], None]) -> None:
        with self._lock:
            calls.append(call)
            is_late = self._requested.is_set()
        if is_late:
            call()

    def request(self) -> None:
        """Request the end, and wake the task. Returns at once."""
        self._requested.set()
        self.close_outputs()
        with self._lock:
            interrupts = list(self._interrupts)
        for interrupt in interrupts:
            interrupt()

    def close_outputs(self) -> None:
        """Wake the task where it waits for room, and close the channels that remote readers read."""
        with self._lock:
            outputs = list(self._outputs)
        for close in outputs:
            close()
