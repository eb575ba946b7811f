"""Processing-time timers of a task: which operators are due when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlstream.runtime.operators.operator import Operator


class ProcessingTimers:
    """The operators of one task that use processing time, in chain order, and what else of the task is due at some time. No
    state here: each operator keeps its own timers, and its declared state knows when an entry expires.

    `call` expires an operator's state and runs its `on_processing_time`, with the outputs that belong to it.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._operators: list[tuple[Operator[Any], Callable[[int], None]]] = []
        self._others: list[tuple[Callable[[], int | None], Callable[[int], None]]] = []

    def watch(self, next_ms: Callable[[], int | None], call: Callable[[int], None]) -> None:
        """Call `call` once the time that `next_ms` gives has come."""
        self._others.append((next_ms, call))

    def add(self, operator: Operator[Any], call: Callable[[int], None]) -> None:
        """Add an operator, unless its class has no processing-time timers and it has declared no state."""
        has_timers = type(operator).next_processing_time_ms is not Operator.next_processing_time_ms
        if has_timers or operator.context.state.tables:
            self._operators.append((operator, call))

    def clear(self) -> None:
        """Forget all."""
        self._operators, self._others = [], []

    def next_ms(self) -> int | None:
        """The earliest time that any of them waits for."""
        if not self._operators and not self._others:
            return None
        times = [t for o, _ in self._operators if (t := next_due_ms(o)) is not None]
        times += [t for next_ms, _ in self._others if (t := next_ms()) is not None]
        return min(times) if times else None

    def wait_s(self, longest_s: float | None) -> float | None:
        """How long the task may wait for input without missing a timer; None: as long as it takes."""
        next_ms = self.next_ms()
        if next_ms is None:
            return longest_s
        due_s = max(0, next_ms - self._now_ms()) / 1000
        return due_s if longest_s is None else min(due_s, longest_s)

    def fire_due(self) -> None:
        """Call all that is due."""
        if not self._operators and not self._others:
            return
        now_ms = self._now_ms()
        for operator, call in self._operators:
            due_ms = next_due_ms(operator)
            if due_ms is not None and due_ms <= now_ms:
                call(now_ms)
        for next_ms, call in self._others:
            due_ms = next_ms()
            if due_ms is not None and due_ms <= now_ms:
                call(now_ms)


def next_due_ms(operator: Operator[Any]) -> int | None:
    """When the operator's next timer or the next sweep of its state is due."""
    timer_ms, sweep_ms = operator.next_processing_time_ms(), operator.context.state.next_sweep_ms
    if timer_ms is None or sweep_ms is None:
        return sweep_ms if timer_ms is None else timer_ms
    return min(timer_ms, sweep_ms)
