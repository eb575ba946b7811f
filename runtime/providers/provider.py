"""What the JobManager's end of a cluster of processes needs of whoever starts these processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlstream.errors import ErrorInfo
from sqlstream.runtime.providers.child_output import PassOn
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions

OnExit = Callable[[str, ErrorInfo], None]
"""Called with the resource id of a TaskManager that ended, released or not, and the cause as far as it can be seen here."""


class TaskManagerProvider(Protocol):
    """Starts and ends TaskManager processes as it is told, and reports once for each that it has ended."""

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes of this machine that belong to it."""

    def request(self, resource_id: str) -> None:
        """Start a TaskManager of that id; returns before it is up."""

    def release(self, resource_id: str, is_lost: bool) -> None:
        """End it: by force when it `is_lost`. Does nothing when it ended before."""

    def registered(self, resource_id: str) -> None:
        """It is up: its further output goes to the user."""

    def stop(self) -> None:
        """End all of them."""


MakeProvider = Callable[[TaskManagerOptions, OnExit, PassOn], TaskManagerProvider]
"""Called with the options of every TaskManager but its resource id, and what takes their output."""
