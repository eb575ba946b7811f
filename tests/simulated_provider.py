"""A resource provider for simulations: its processes start late or never, die early, and end when they are told to; for a while
there may be no room for another."""

from __future__ import annotations

import random
from collections.abc import Callable

from sqlstream.errors import ErrorInfo, FailureReason

REFUSED = ErrorInfo(code="SS6006", message="process not started", reason=FailureReason.TASK_MANAGER_LOST)
FULL = ErrorInfo(code="SS6006", message="no room for a process", reason=FailureReason.NO_RESOURCES)
KILLED = ErrorInfo(code="SS6001", message="process ended", reason=FailureReason.TASK_MANAGER_LOST)


class SimulatedProvider:
    """Obeys RequestTaskManagers and ReleaseTaskManager, and reports each end once, some of them late.

    `start(resource_id)` makes a process, `kill(resource_id)` ends it if it is there; `report(resource_id, error)` tells the
    JobManager, and `say` the story what befalls a request. With `is_deadly` no process lives long; while `is_full` each request
    is refused, and the JobManager is told that others would be too. One that `is_gone`, with its
    JobManager, starts none.

    State: the ids of all TaskManagers ever requested and released, of those whose end is not reported, of
    those that run; and how many ended without a release."""

    def __init__(
        self,
        rng: random.Random,
        after: Callable[[int, Callable[[], None]], None],
        start: Callable[[str], None],
        kill: Callable[[str], None],
        report: Callable[[str, ErrorInfo], None],
        say: Callable[[str], None],
    ) -> None:
        self.is_faulty = True
        self.is_deadly = False
        self.is_full = False
        self.is_gone = False
        self.lost = 0
        self.released: set[str] = set()
        self.requested: set[str] = set()
        self.unended: set[str] = set()
        self.running: set[str] = set()
        self._rng = rng
        self._after = after
        self._start = start
        self._kill = kill
        self._report = report
        self._say = say

    def request(self, resource_id: str) -> None:
        assert resource_id not in self.requested, f"{resource_id} is requested twice"
        self.requested.add(resource_id)
        self.unended.add(resource_id)
        fate = self._fate()
        self._say(f"{resource_id} {fate}")
        match fate:
            case "finds no room":
                self._after(self._rng.randint(1, 100), lambda: self._ended(resource_id, FULL))
            case "is refused":
                self._after(self._rng.randint(1, 100), lambda: self._ended(resource_id, REFUSED))
            case "never starts":
                pass
            case "starts slowly":
                self._after(self._rng.randint(1500, 6000), lambda: self._up(resource_id))
            case "starts too slowly":
                # Around the end of the time that the JobManager gives it to register.
                self._after(self._rng.randint(9_500, 13_000), lambda: self._up(resource_id))
            case _:
                self._after(self._rng.randint(50, 1500), lambda: self._up(resource_id))
        if self.is_deadly or fate == "dies early":
            self._after(self._rng.randint(50, 2500), lambda: self._kill(resource_id))

    def _fate(self) -> str:
        if self.is_full:
            return "finds no room"
        if not self.is_faulty:
            return "starts"
        fates = ["is refused", "never starts", "starts slowly", "starts too slowly", "dies early", "starts"]
        return self._rng.choices(fates, [10, 5, 10, 5, 10, 60])[0]

    def _up(self, resource_id: str) -> None:
        if resource_id in self.released and resource_id in self.unended:
            self._say(f"{resource_id} starts after its release")
        if resource_id in self.unended and not self.is_gone:
            self.running.add(resource_id)
            self._start(resource_id)

    def release(self, resource_id: str) -> None:
        def end() -> None:
            if resource_id in self.running:
                self._kill(resource_id)
            else:
                self._ended(resource_id, KILLED)

        self.released.add(resource_id)
        self._after(self._rng.randint(1, 3000 if self.is_faulty else 300), end)

    def died(self, resource_id: str) -> None:
        """The process has ended, for whatever reason; that is reported, now and then late."""
        if resource_id not in self.running:
            return
        self.running.discard(resource_id)
        is_late = self.is_faulty and self._rng.random() < 0.2
        delay_ms = self._rng.randint(1, 6000 if is_late else 300)
        self._after(delay_ms, lambda: self._ended(resource_id, KILLED))

    def _ended(self, resource_id: str, error: ErrorInfo) -> None:
        if resource_id in self.unended:
            self.unended.discard(resource_id)
            self.lost += resource_id not in self.released
            self._report(resource_id, error)
