"""How a task's thread waits: for mail, for timers, and for its turn among the tasks of the process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from sqlstream.runtime.operators.operator import Operator

Mail = Callable[[], None]
Source = TypeVar("Source")


class Mailbox:
    """Mail before input; input channels in turn, so that none starves another.

    Any thread posts; the task's thread takes. A task that works is not notified, and one that waits for room is not notified of
    input. State: mail not yet run and the channels announced as readable. Both stay small: mail is rare, and a channel is
    announced once until it has been read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._mail: deque[Mail] = deque()
        self._readable: deque[object] = deque()
        self._is_waiting = False
        self._takes_input = False

    def post(self, mail: Mail) -> None:
        """Queue `mail`, which the task's thread calls before it reads more input."""
        with self._lock:
            self._mail.append(mail)
            self._wake()

    def announce(self, channel: object) -> None:
        """Announce that a channel has become readable; `take_readable` returns it once per announcement."""
        with self._lock:
            self._readable.append(channel)
            if self._takes_input:
                self._wake()

    def announce_room(self) -> None:
        """Wake the task if it waits: an output has room again."""
        with self._lock:
            self._wake()

    def _wake(self) -> None:
        if self._is_waiting:
            self._is_waiting = self._takes_input = False
            self._changed.notify()

    @property
    def queue_size(self) -> int:
        """How much mail waits."""
        return len(self._mail)

    def take_mail(self) -> Mail | None:
        """The next mail, None when there is none; never waits."""
        if not self._mail:
            return None
        return self._mail.popleft()

    def wait(self, timeout_s: float | None) -> None:
        """Wait until there is mail or input, or the timeout has passed."""
        with self._lock:
            if not self._mail and not self._readable:
                self._takes_input = True
                self._wait(timeout_s)

    def wait_for_room(self, has_room: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait until there is mail, `has_room` may have changed, or the timeout has passed."""
        with self._lock:
            if not self._mail and not has_room():
                self._wait(timeout_s)

    def _wait(self, timeout_s: float | None) -> None:
        self._is_waiting = True
        # A time to live may be centuries away.
        self._changed.wait(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
        self._is_waiting = self._takes_input = False

    def take_readable(self) -> object | None:
        """The channel whose turn it is, None when none is readable; never waits."""
        if not self._readable:
            return None
        return self._readable.popleft()


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


TURN_MAX_S = 0.02
"""How long a task waits for its turn at most."""


class Turns:
    """Lets tasks that wake from idleness run one after the other, each until it waits again.

    The interpreter runs one thread at a time in any case. Without turns, tasks that wake together pass its lock on at every call
    of a library that releases it, and most of their time goes into changing threads. A task that has waited for TURN_MAX_S runs
    in any case, and those that come later wait for it alone. State: the lock of the present turn."""

    def __init__(self, turn_max_s: float = TURN_MAX_S) -> None:
        self._turn_max_s = turn_max_s
        self._lock = threading.Lock()

    def begin(self) -> threading.Lock:
        """Wait for a turn; the caller releases what is returned when it waits again, or ends."""
        lock = self._lock
        if not lock.acquire(timeout=self._turn_max_s):
            # The task before works for long. Those behind wait for this one, not for that one too.
            lock = self._lock = threading.Lock()
            lock.acquire()
        return lock
