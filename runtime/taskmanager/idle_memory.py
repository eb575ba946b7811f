"""Memory that tasks have freed and the process has kept for the next ones: given back when none come."""

from __future__ import annotations

from collections.abc import Callable


class IdleMemory:
    """Calls `give_back` once a process that ran tasks has had none between two calls of `check`.

    `tasks_started` counts all that ever were, `tasks_running` those that run. State: the count at the last check, and the
    count for which memory was given back.
    """

    def __init__(
        self,
        tasks_started: Callable[[], int],
        tasks_running: Callable[[], int],
        give_back: Callable[[], None],
    ) -> None:
        self._tasks_started = tasks_started
        self._tasks_running = tasks_running
        self._give_back = give_back
        self._seen = 0
        self._given_back = 0

    def check(self) -> None:
        """To be called every few seconds."""
        started = self._tasks_started()
        was_idle = started == self._seen and self._tasks_running() == 0
        self._seen = started
        if was_idle and self._given_back != started:
            self._given_back = started
            self._give_back()
