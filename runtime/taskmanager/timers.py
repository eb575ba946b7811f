"""Processing-time timers of a task: which operators are due when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.operators.operator import Operator


class ProcessingTimers:
    """The operators of one task that use processing time, in chain order. No state here: each operator keeps its own
    timers.

    `call` runs an operator's `on_processing_time` with the outputs that belong to it.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._operators: list[tuple[Operator[Any], Callable[[int], None]]] = []

    def add(self, operator: Operator[Any], call: Callable[[int], None]) -> None:
        """Add an operator, unless its class has no processing-time timers."""
        if type(operator).next_processing_time_ms is not Operator.next_processing_time_ms:
            self._operators.append((operator, call))

    def next_ms(self) -> int | None:
        """The earliest time that any operator waits for."""
        if not self._operators:
            return None
        times = [t for o, _ in self._operators if (t := o.next_processing_time_ms()) is not None]
        return min(times) if times else None

    def wait_s(self, longest_s: float | None) -> float | None:
        """How long the task may wait for input without missing a timer; None: as long as it takes."""
        next_ms = self.next_ms()
        if next_ms is None:
            return longest_s
        due_s = max(0, next_ms - self._now_ms()) / 1000
        return due_s if longest_s is None else min(due_s, longest_s)

    def fire_due(self) -> None:
        """Call each operator that is due."""
        if not self._operators:
            return
        now_ms = self._now_ms()
        for operator, call in self._operators:
            due_ms = operator.next_processing_time_ms()
            if due_ms is not None and due_ms <= now_ms:
                call(now_ms)
