"""The thread around a machine."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlstream.runtime.event_loop import EventLoop

TIMEOUT_S = 60.0


def _loop(
    handle: Callable[[int], None], tick: Callable[[], None], crashes: list[BaseException]
) -> EventLoop[int]:
    return EventLoop("test", handle, tick, crashes.append, lambda: 1)


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

    loop: EventLoop[int] = EventLoop("test", handle, lambda: None, on_crash, lambda: 1)
    for event in range(5):
        loop.put(event)
    loop.start()
    assert crashed.wait(TIMEOUT_S)
    loop.stop()
    assert seen == [0, 1, 2]
    assert [str(e) for e in crashes] == ["two"]


def test_an_event_brings_the_next_tick_forward() -> None:
    ticks: list[int] = []
    ticked = threading.Event()
    wanted_ms = [60_000]

    def handle(event: int) -> None:
        wanted_ms[0] = event

    def tick() -> None:
        ticks.append(wanted_ms[0])
        if len(ticks) == 2:
            ticked.set()

    loop: EventLoop[int] = EventLoop("test", handle, tick, lambda error: None, lambda: wanted_ms[0])
    loop.start()
    loop.put(1)
    assert ticked.wait(TIMEOUT_S)
    loop.stop()
    assert ticks[:2] == [60_000, 1]
