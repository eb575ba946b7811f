"""The thread around a machine."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.event_loop import EventLoop

TIMEOUT_S = 10.0


def _loop(
    handle: Callable[[int], None], tick: Callable[[], None], crashes: list[BaseException]
) -> EventLoop[int]:
    return EventLoop("test", handle, tick, crashes.append, tick_ms=1)


def test_time_passes_while_events_keep_coming() -> None:
    ticks: list[int] = []
    enough = threading.Event()

    def handle(event: int) -> None:
        loop.put(event + 1)

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 5:
            enough.set()

    loop = _loop(handle, tick, [])
    loop.start()
    loop.put(0)
    assert enough.wait(TIMEOUT_S)
    loop.stop()


def test_events_are_handled_in_order_and_an_error_ends_the_loop() -> None:
    seen: list[int] = []
    crashed = threading.Event()
    crashes: list[BaseException] = []

    def handle(event: int) -> None:
        seen.append(event)
        if event == 2:
            raise ValueError("two")

    def on_crash(error: BaseException) -> None:
        crashes.append(error)
        crashed.set()

    loop: EventLoop[int] = EventLoop("test", handle, lambda: None, on_crash, tick_ms=1)
    for event in range(5):
        loop.put(event)
    loop.start()
    assert crashed.wait(TIMEOUT_S)
    loop.stop()
    assert seen == [0, 1, 2]
    assert [str(e) for e in crashes] == ["two"]
