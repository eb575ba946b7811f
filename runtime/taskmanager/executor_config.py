"""The settings of a TaskExecutor in this process."""

from __future__ import annotations

import os

from sqlstream.runtime.host.process import memory_bytes
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig


def executor_config(
    resource_id: str,
    address: str,
    slots: int,
    cancellation_timeout_ms: int,
    registration_timeout_ms: int | None = None,
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
    )
