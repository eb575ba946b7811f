"""When a task has to wake for its operators."""

from __future__ import annotations

from typing import Any

import pytest
from operator_harness import ManualClock, operator_context

from sqlstream.runtime.operators.operator import Operator, Output
from sqlstream.runtime.taskmanager.mailbox import ProcessingTimers
from sqlstream.schema import Schema


class Silent(Operator[Any]):
    """An operator without timers."""

    def on_batch(self, batch: Any, input_index: int, output: Output) -> None:
        raise AssertionError


class Waiting(Silent):
    """An operator that is due at `due_ms`."""

    due_ms: int | None = None

    def next_processing_time_ms(self) -> int | None:
        return self.due_ms


def made(kind: type[Silent], due_ms: int | None = None) -> Any:
    operator: Any = kind(None, operator_context([Schema(())], Schema(())))
    operator.due_ms = due_ms
    return operator


@pytest.mark.parametrize(
    ("due", "next_ms", "waits"),
    [
        ([], None, {None: None, 0.5: 0.5}),
        ([None], None, {None: None, 0.5: 0.5}),
        ([1_250], 1_250, {None: 0.25, 0.5: 0.25, 0.1: 0.1}),
        ([None, 1_400, 1_250], 1_250, {None: 0.25}),
        ([900], 900, {None: 0.0, 0.5: 0.0}),
        ([1_000], 1_000, {None: 0.0}),
    ],
)
def test_a_task_waits_no_longer_than_its_earliest_timer(
    due: list[int | None], next_ms: int | None, waits: dict[float | None, float | None]
) -> None:
    timers = ProcessingTimers(ManualClock(1_000))
    timers.add(made(Silent), lambda now_ms: None)
    for due_ms in due:
        timers.add(made(Waiting, due_ms), lambda now_ms: None)
    assert timers.next_ms() == next_ms
    assert {longest: timers.wait_s(longest) for longest in waits} == waits


def test_those_that_are_due_are_called_in_their_order_with_the_time() -> None:
    clock, called = ManualClock(1_000), []
    timers = ProcessingTimers(clock)
    for number, due_ms in enumerate((1_001, 1_000, None, 5)):
        timers.add(made(Waiting, due_ms), lambda now_ms, number=number: called.append((number, now_ms)))  # type: ignore[misc]
    timers.fire_due()
    assert called == [(1, 1_000), (3, 1_000)]
    clock.now_ms = 1_001
    timers.fire_due()
    assert called[2:] == [(0, 1_001), (1, 1_001), (3, 1_001)]


def test_a_task_without_timers_fires_none() -> None:
    ProcessingTimers(ManualClock(1_000)).fire_due()
