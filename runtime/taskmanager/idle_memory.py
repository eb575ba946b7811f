"""Returns memory that the process kept for its next tasks to the system, once no tasks come."""

from __future__ import annotations

from collections.abc import Callable


class IdleMemory:
    """Calls `give_back` once after tasks have run and none ran or started between two calls of `check`.

    `tasks_started` counts all tasks of the process so far, `tasks_running` the running ones. State: the count at the last
    check, and the count at which memory was last returned.
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
        """Return memory if the process is idle; to be called every few seconds."""
        started = self._tasks_started()
        was_idle = started == self._seen and self._tasks_running() == 0
        self._seen = started
        if was_idle and self._given_back != started:
            self._given_back = started
            self._give_back()
