"""What Spark's driver process needs of Spark: tasks that run TaskManagers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.errors import ErrorInfo

OnEnd: TypeAlias = Callable[[str, ErrorInfo], None]
"""Called once for each TaskManager, with its resource id, from a thread of its own."""


class Launched(Protocol):
    """A TaskManager in a task of Spark, or on its way there. One whose executor is lost has ended, also when Spark restarts its
    task."""

    def release(self) -> None:
        """End it; returns at once."""

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended, or for that long."""


class Launcher(Protocol):
    """A connection to Spark."""

    @property
    def application_id(self) -> str:
        """What Spark calls it."""

    def launch(self, options: TaskManagerOptions, on_end: OnEnd) -> Launched: ...

    def failure(self) -> ErrorInfo | None:
        """Why it can run no TaskManager any more, None while it can; returns at once."""

    def stop(self) -> None:
        """Give everything back. TaskManagers that still run end with it."""
