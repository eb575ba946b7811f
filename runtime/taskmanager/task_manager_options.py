"""What a TaskManager process and its executor are told when they start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from sqlstream import config as options
from sqlstream.options.state_options import directories_of
from sqlstream.runtime.checkpoint.local_copies import local_copy_directories
from sqlstream.runtime.host.process import memory_bytes
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.runtime.logs import QUIET_LEVEL
from sqlstream.runtime.net.endpoint import TlsFiles
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig


def executor_config(
    resource_id: str,
    address: str,
    slots: int,
    cancellation_timeout_ms: int,
    registration_timeout_ms: int | None = None,
    first_incarnation: int = 0,
) -> TaskExecutorConfig:
    return TaskExecutorConfig(
        resource_id,
        address,
        slots,
        cancellation_timeout_ms=cancellation_timeout_ms,
        registration_timeout_ms=registration_timeout_ms,
        process_id=os.getpid(),
        cores=os.cpu_count() or 1,
        memory_bytes=memory_bytes(),
        first_incarnation=first_incarnation,
    )


class TaskManagerOptions(msgspec.Struct, frozen=True):
    """It listens in the directory of `job_manager_address` if that is a Unix socket, else on `bind_host`, and others reach it by
    `host`; both may be empty (see options/network_options.py). `resource_id` names the process; files of tables lie at `places`,
    or anywhere. Local copies of state lie below `local_directories`, or below the directory for temporary files. Tasks keep
    state in `managed_memory_bytes` (0: no limit), and below `temporary_directories` (none: the system's). Files that go with
    jobs take `artifact_cache_bytes` of this host at most. `first_incarnation` is larger than any of the process whose place and
    `resource_id` it takes. `is_joined`: the JobManager has not asked for it, and nobody else tells it that this one ends."""

    resource_id: str
    job_manager_address: str
    token: str
    slots: int
    network_memory_bytes: int
    cancellation_timeout_ms: int
    registration_timeout_ms: int
    log_level: str = QUIET_LEVEL
    log_format: str = "TEXT"
    places: FilePlaces | None = None
    host: str = ""
    bind_host: str = ""
    tls: TlsFiles | None = None
    local_directories: tuple[str, ...] = ()
    managed_memory_bytes: int = 0
    temporary_directories: tuple[str, ...] = ()
    first_incarnation: int = 0
    artifact_cache_bytes: int = 0
    is_joined: bool = False


def options_of(
    config: Mapping[str, str], token: str, tls: TlsFiles | None, places: FilePlaces | None
) -> TaskManagerOptions:
    """The options of a TaskManager with these settings, but its id and the address of the JobManager."""

    def value(key: str) -> Any:
        return options.get(config, key)

    return TaskManagerOptions(
        "",
        "",
        token,
        value("taskmanager.numberOfTaskSlots"),
        value("taskmanager.memory.network.max"),
        value("task.cancellation.timeout"),
        value("taskmanager.registration.timeout"),
        value("sqlstream.log.level") if "sqlstream.log.level" in config else QUIET_LEVEL,
        value("sqlstream.log.format"),
        places,
        value("taskmanager.host"),
        value("taskmanager.bind-host"),
        tls,
        local_copy_directories(config),
        value("taskmanager.memory.managed.size"),
        directories_of(value("io.tmp.dirs")),
        artifact_cache_bytes=value("sqlstream.artifacts.cache-size"),
    )


def encode_options(options: TaskManagerOptions) -> bytes:
    return msgspec.json.encode(options) + b"\n"


def decode_options(line: bytes) -> TaskManagerOptions:
    return msgspec.json.decode(line, type=TaskManagerOptions)
