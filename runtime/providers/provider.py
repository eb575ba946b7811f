"""What the JobManager's end of a cluster of processes needs of whoever starts these processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sqlstream import config as options
from sqlstream.errors import ErrorInfo
from sqlstream.runtime.net.endpoint import Endpoint, job_manager_endpoint
from sqlstream.runtime.providers.child_output import PassOn
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.spark import MASTER

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


# Who starts the TaskManagers of a cluster, by `execution.target`.


TARGET = "execution.target"
SPARK = "spark"


def provider_of(config: Mapping[str, str]) -> MakeProvider:
    """The provider that the settings name. UserError for settings that it cannot obey."""
    if options.get(config, TARGET) == SPARK:
        from sqlstream.runtime.providers.spark.provider import spark_provider

        return spark_provider(config)
    from sqlstream.runtime.providers.local import LocalProvider

    return LocalProvider


def endpoint_of(config: Mapping[str, str]) -> Endpoint | None:
    """Where the JobManager listens for TaskManagers of other hosts or users; None for those of this host and user, which meet on
    Unix sockets. Errors are those of `job_manager_endpoint`."""
    return job_manager_endpoint(config) if options.get(config, TARGET) == SPARK else None


def is_on_one_host(config: Mapping[str, str]) -> bool:
    """Whether all TaskManagers run on the host of the JobManager, so that they see its files."""
    if options.get(config, TARGET) != SPARK:
        return True
    from sqlstream.runtime.batch.spark.connect.address import LOOPBACK_NAMES, connect_address
    from sqlstream.runtime.batch.spark.settings import is_of_this_machine, spark_keys

    server = connect_address(spark_keys(config))
    if server is not None:
        # A server here may have executors elsewhere; those that meet the JobManager on this host do not.
        return server.is_loopback and options.get(config, "jobmanager.rpc.address") in ("", *LOOPBACK_NAMES)
    return is_of_this_machine(config.get(MASTER, "local"))
