"""Who plans next: the long statements of one user take turns, so that they leave most of the processor to others.

Threads share one interpreter, which gives each that is busy an equal part. A user who starts fifty statements that take minutes
to plan would have fifty parts. Here each has as many as the option allows; statements that are planned quickly never wait.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.cancellation import PlanningWatch
from sqlstream.errors import JobError

SHORT_S = 0.1
"""A statement that has taken less CPU time than this waits for no turn."""

CHECKS_PER_LOOK = 64
"""How often the planner asks between two looks at the clock."""

WAIT_S = 0.1
"""How soon a statement that waits for its turn notices that it was given up."""


class PlanningTurns:
    """Gives turns to long statements, `per_user_max` at a time to each user, of whom `waiting_max` may wait. Thread-safe.
    State: who has how many, and how many of each wait."""

    def __init__(self, per_user_max: int, cpu_max_s: float, waiting_max: int = 100) -> None:
        self._per_user_max = per_user_max
        self._waiting_max = waiting_max
        self._waiting: Counter[str] = Counter()
        self.cpu_max_s = cpu_max_s
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def planning(self, user: str, given_up: threading.Event) -> Iterator[Planning]:
        """For the time in which the calling thread executes a statement of the user."""
        planning = Planning(self, user, given_up)
        try:
            yield planning
        finally:
            planning.release()

    def take(self, user: str, given_up: threading.Event) -> bool:
        """Wait for a turn; False when the statement is given up before. JobError SS6042 when too many of the user wait: each
        holds a thread of the gateway."""
        with self._changed:
            if self._waiting[user] >= self._waiting_max:
                raise JobError("SS6042", f"{self._waiting_max} statements of the user wait to be planned")
            self._waiting[user] += 1
            try:
                while not given_up.is_set():
                    if self._changed.wait_for(lambda: self._taken[user] < self._per_user_max, WAIT_S):
                        self._taken[user] += 1
                        return True
                return False
            finally:
                self._waiting[user] -= 1
                if not self._waiting[user]:
                    del self._waiting[user]

    def give_back(self, user: str) -> None:
        with self._changed:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
            self._changed.notify_all()


class Planning(PlanningWatch):
    """One statement that is planned, on one thread. State: the CPU time that it had at its start, and whether it has a turn."""

    def __init__(self, turns: PlanningTurns, user: str, given_up: threading.Event) -> None:
        self._turns = turns
        self._user = user
        self._given_up = given_up
        self._begun_s = time.thread_time()
        self._checks = 0
        self._has_turn = False

    def is_set(self) -> bool:
        return self._given_up.is_set()

    def look(self) -> None:
        """Called by the planner again and again. JobError SS6041 when the statement has taken too much time."""
        self._checks += 1
        if self._checks % CHECKS_PER_LOOK:
            return
        cpu_s = time.thread_time() - self._begun_s
        if cpu_s > self._turns.cpu_max_s:
            raise JobError("SS6041", f"the statement was planned for more than {self._turns.cpu_max_s:g} s")
        if cpu_s > SHORT_S and not self._has_turn:
            self._has_turn = self._turns.take(self._user, self._given_up)

    def on_planned(self) -> None:
        self.release()
        self._begun_s = time.thread_time()

    def release(self) -> None:
        """Let another statement of the user be planned; harmless when repeated."""
        if self._has_turn:
            self._has_turn = False
            self._turns.give_back(self._user)
