"""Who starts the TaskManagers of a cluster, by `execution.target`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream import config as options
from sqlstream.errors import InternalError
from sqlstream.runtime.net.endpoint import Endpoint, is_loopback, job_manager_endpoint
from sqlstream.runtime.providers.provider import MakeProvider
from sqlstream.spark import MASTER

TARGET = "execution.target"


SPARK = "spark"
STANDALONE = "standalone"

LOOPBACK = "127.0.0.1"


class JoinedTaskManagers:
    """TaskManagers that come by themselves, and end by themselves when the JobManager does not want them any more. Implements
    `TaskManagerProvider`. No state."""

    process_ids: tuple[int, ...] = ()

    def request(self, resource_id: str) -> None:
        raise InternalError(f"{resource_id} was requested of a cluster that waits for TaskManagers")

    def release(self, resource_id: str, is_lost: bool) -> None:
        """It hears of it by itself."""

    def registered(self, resource_id: str) -> None:
        """Nothing waited for it."""

    def stop(self) -> None:
        """They wait for the next JobManager."""


def provider_of(config: Mapping[str, str]) -> MakeProvider:
    """The provider that the settings name. UserError for settings that it cannot obey."""
    if options.get(config, TARGET) == SPARK:
        from sqlstream.runtime.providers.spark.provider import spark_provider

        return spark_provider(config)
    if options.get(config, TARGET) == STANDALONE:
        return lambda told, on_exit, pass_on: JoinedTaskManagers()
    from sqlstream.runtime.providers.local import LocalProvider

    return LocalProvider


def endpoint_of(config: Mapping[str, str]) -> Endpoint | None:
    """Where the JobManager listens for TaskManagers of other hosts or users; None for those of this host and user, which meet on
    Unix sockets. Errors are those of `job_manager_endpoint`."""
    return job_manager_endpoint(config) if options.get(config, TARGET) in (SPARK, STANDALONE) else None


def standalone_host(config: Mapping[str, str]) -> str:
    """Under which name TaskManagers that join reach the JobManager."""
    return options.get(config, "jobmanager.rpc.address") or LOOPBACK


def is_on_one_host(config: Mapping[str, str]) -> bool:
    """Whether all TaskManagers run on the host of the JobManager, so that they see its files."""
    if options.get(config, TARGET) == STANDALONE:
        return is_loopback(standalone_host(config))
    if options.get(config, TARGET) != SPARK:
        return True
    from sqlstream.runtime.batch.spark.connect.address import LOOPBACK_NAMES, connect_address
    from sqlstream.runtime.batch.spark.settings import is_of_this_machine, spark_keys

    server = connect_address(spark_keys(config))
    if server is not None:
        # A server here may have executors elsewhere; those that meet the JobManager on this host do not.
        return server.is_loopback and options.get(config, "jobmanager.rpc.address") in ("", *LOOPBACK_NAMES)
    return is_of_this_machine(config.get(MASTER, "local"))
