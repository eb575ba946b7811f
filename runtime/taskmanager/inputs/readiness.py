"""File descriptors that tasks wait for beside their mail."""

from __future__ import annotations

import functools
import selectors
import threading
from collections.abc import Callable

from sqlstream.spi.connector import WaitsForDescriptor


class Readiness:
    """Calls a function once when a descriptor can be read. Any thread asks; functions must return at once.

    State: what is waited for, by descriptor, and one thread, from the first on, for as long as the process lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._is_started = False

    def call_when_readable(self, fileno: int, call: Callable[[], None]) -> None:
        """Nobody else may wait for this descriptor."""
        with self._lock:
            self._selector.register(fileno, selectors.EVENT_READ, call)
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._run, name="readiness", daemon=True).start()

    def forget(self, fileno: int) -> None:
        """Before a descriptor is closed. A call that is under way is made."""
        with self._lock:
            if fileno in self._selector.get_map():
                self._selector.unregister(fileno)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                with self._lock:
                    is_wanted = self._selector.get_map().get(key.fd) is key
                    if is_wanted:
                        self._selector.unregister(key.fd)
                if is_wanted:
                    key.data()


@functools.cache
def shared_readiness() -> Readiness:
    """That of this process."""
    return Readiness()


GATHER_MS = 5
"""How long after a poll a reader whose descriptor can be read is left alone: rows that come one by one are taken together."""


class DescriptorWait:
    """One reader's wait for its descriptor, which ends with `wake`. All but the waking is the task's thread.

    State: what is waited for, whether it came, and when the reader was last polled."""

    def __init__(
        self,
        reader: WaitsForDescriptor,
        readiness: Readiness,
        post: Callable[[Callable[[], None]], None],
        steady_ms: Callable[[], int],
    ) -> None:
        self._reader, self._readiness, self._post, self._steady_ms = reader, readiness, post, steady_ms
        self._waited_for: int | None = None
        self._has_come = False
        self._polled_ms = steady_ms() - GATHER_MS

    def early_s(self) -> float:
        """How long until the reader is polled, because of what has come."""
        if not self._has_come:
            return 0.0
        return max(0, self._polled_ms + GATHER_MS - self._steady_ms()) / 1000

    def on_poll(self) -> None:
        self._has_come = False
        self._polled_ms = self._steady_ms()

    def begin(self) -> None:
        """The reader has nothing: have the task woken when it has."""
        fileno = self._reader.wait_fileno()
        if fileno == self._waited_for:
            return
        self.end()
        if fileno is not None:
            self._waited_for = fileno
            self._readiness.call_when_readable(fileno, lambda: self._post(lambda: self._on_readable(fileno)))

    def _on_readable(self, fileno: int) -> None:
        if fileno == self._waited_for:
            self._waited_for, self._has_come = None, True

    def end(self) -> None:
        if self._waited_for is not None:
            self._readiness.forget(self._waited_for)
            self._waited_for = None
