"""The settings of the Spark application that runs TaskManagers: ours, and over them those of the user."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.runtime.batch.spark.connect.address import REMOTE, ConnectAddress, connect_address
from sqlstream.runtime.batch.spark.settings import is_of_this_machine, launch_keys, spark_keys
from sqlstream.spark import MASTER, SECRET

_SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_DEFAULTS = {
    "spark.app.name": "sqlstream TaskManagers",
    "spark.driver.memory": "512m",
    # The executor's JVM only starts a process: what it is given beyond that is for the TaskManager.
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "2g",
    # One TaskManager each, so that a lost executor takes one of them along.
    "spark.executor.cores": "1",
    # Executors come as TaskManagers wait for them, and go when they have none.
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
    # JVMs that compute nothing: a smaller compiler and collector halve the processor time of their start.
    "spark.driver.extraJavaOptions": _SMALL_JVM,
    "spark.executor.extraJavaOptions": _SMALL_JVM,
    # The process that waits for a TaskManager has nothing to tidy up.
    "spark.python.task.killTimeout": "100ms",
}

_FIXED = {
    # Whether a lost TaskManager is replaced, and under which id, is decided by the JobManager.
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
}

_ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""For a cluster of several hosts: the secret of the TaskManagers goes through Spark's connections. One on this machine that has a
secret was started with both as well."""

JOB_MANAGER = "jobmanager.rpc.address"

_FIXED_NUMBER = "spark.executor.instances"
_DYNAMIC = "spark.dynamicAllocation.enabled"


def driver_settings(config: Mapping[str, str]) -> dict[str, str]:
    """The `spark.*` settings of a cluster with `execution.target` = spark. UserError SS4052 and SS4053 as for batch, SS4072 for
    settings that are missing or wrong for TaskManagers."""
    given = launch_keys(spark_keys(config))
    address = connect_address(given)
    if address is not None:
        _check_connect(address, options.get(config, JOB_MANAGER))
        return given
    if MASTER not in given:
        raise UserError(
            "SS4072",
            f'option "{MASTER}" is not set, but jobs go to a Spark cluster',
            hint=f"give -D {MASTER}=spark://HOST:PORT, yarn or k8s://…, or -D {REMOTE}=sc://HOST:PORT",
        )
    for key, value in _FIXED.items():
        if given.get(key, value) != value:
            raise UserError(
                "SS4072",
                f'option "{key}" cannot be "{given[key]}": tasks that run TaskManagers need "{value}"',
                hint="leave it out",
            )
    settings = {**_DEFAULTS, **_FIXED}
    if given.get(_FIXED_NUMBER) is not None and _DYNAMIC not in given:
        settings[_DYNAMIC] = "false"
    if not is_of_this_machine(given[MASTER]):
        settings |= _of_several_hosts(given, options.get(config, JOB_MANAGER))
    elif SECRET in given:
        settings |= _ENCRYPTED
    return {**settings, **given}


def _check_connect(address: ConnectAddress, job_manager: str) -> None:
    """What a server starts with is its own; the way there is ours."""
    if address.is_loopback:
        return
    _check_job_manager(job_manager)
    if not address.is_encrypted:
        raise UserError(
            "SS4072",
            f'the secret of the TaskManagers would go to "{address}" without encryption',
            hint="add ;use_ssl=true to the address",
        )


def _check_job_manager(address: str) -> None:
    if not address:
        raise UserError(
            "SS4072",
            f'option "{JOB_MANAGER}" is not set, but the Spark cluster has other machines',
            hint="give the name under which they reach this one, and certificates (security.ssl.internal.*)",
        )


def _of_several_hosts(given: Mapping[str, str], job_manager: str) -> dict[str, str]:
    _check_job_manager(job_manager)
    for key, value in _ENCRYPTED.items():
        if given.get(key, value).lower() != value:
            raise UserError(
                "SS4072",
                f'option "{key}" cannot be "{given[key]}": the secret of the TaskManagers goes through Spark\'s connections',
                hint="leave it out",
            )
    if given[MASTER].startswith("spark://") and SECRET not in given:
        raise UserError(
            "SS4072",
            'option "spark.authenticate.secret" is not set: the master and the workers of a standalone cluster must have one',
            hint="start them with spark.authenticate = true and a secret, and give it in sqlstream.yaml",
        )
    return {**_ENCRYPTED, "spark.driver.host": job_manager}
