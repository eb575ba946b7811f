"""One thread that passes events from a queue, and ticks when they are due, to a pure state machine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from sqlstream.runtime.host.clock import steady_s

Event = TypeVar("Event")

STOP_TIMEOUT_S = 5.0


class EventLoop(Generic[Event]):
    """Calls `handle` for each event, one at a time, on one thread, and `tick` when one is due.

    `tick_after_ms` returns the time until the next tick. It is called after each event and each tick, so that an idle machine
    wakes no processor. An error of `handle` ends the loop: it is our bug, and is passed to `on_crash`.
    State: the events not yet handled, dropped when the loop stops.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Event], None],
        tick: Callable[[], None],
        on_crash: Callable[[BaseException], None],
        tick_after_ms: Callable[[], int],
    ) -> None:
        # Without a lock of Python's own, which an interrupt of the thread that puts could leave taken.
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._handle = handle
        self._tick = tick
        self._on_crash = on_crash
        self._tick_after_ms = tick_after_ms
        self._next_tick_s = 0.0
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, event: Event) -> None:
        """Thread-safe; returns at once."""
        self._queue.put(event)

    def stop(self) -> bool:
        """End the loop after the event in hand; waits for the thread unless called from it. Whether it has ended."""
        self._is_stopped = True
        self._queue.put(None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_stopped:
                self._step()
        except Exception as error:  # the thread's boundary: nobody above could see it
            self._on_crash(error)

    def _step(self) -> None:
        # By the clock, not by an empty queue: under a steady trickle of events the queue never stays empty.
        left_s = self._next_tick_s - steady_s()
        if left_s <= 0:
            self._tick()
            self._next_tick_s = steady_s() + self._tick_after_ms() / 1000
            return
        try:
            event = self._queue.get(timeout=left_s)
        except queue.Empty:
            return
        if event is not None:
            self._handle(event)
            self._next_tick_s = min(self._next_tick_s, steady_s() + self._tick_after_ms() / 1000)
