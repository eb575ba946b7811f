"""What Spark's driver process needs of Spark: tasks that run TaskManagers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from sqlstream.errors import ErrorInfo
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions

OnEnd: TypeAlias = Callable[[str, ErrorInfo], None]
"""Called once for each TaskManager, with its resource id, from a thread of its own."""


class Launched(Protocol):
    """A TaskManager in a task of Spark, or on its way there. One whose executor is lost has ended, also when Spark restarts its
    task."""

    def release(self, is_lost: bool) -> None:
        """End it; returns at once. Of one that `is_lost` Spark's executor is ended too where it can be: it may hang as well, and
        would be given the next TaskManager."""

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended, or for that long."""


class Launcher(Protocol):
    """A connection to Spark."""

    @property
    def application_id(self) -> str:
        """What Spark calls it."""

    @property
    def jvm_process_id(self) -> int:
        """The child of this process in which Spark runs; 0 where it has none."""

    def launch(self, options: TaskManagerOptions, on_end: OnEnd) -> Launched: ...

    def failure(self) -> ErrorInfo | None:
        """Why it can run no TaskManager any more, None while it can; returns at once."""

    def stop(self) -> None:
        """Give everything back. TaskManagers that still run end with it."""
