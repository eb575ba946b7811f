"""What the JobManager's process and that of Spark's driver tell each other: lines of JSON over the driver's standard input and
output."""

from __future__ import annotations

import msgspec

from sqlstream.errors import ErrorInfo
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions


class _Line(msgspec.Struct, frozen=True, tag=True):
    pass


class StartDriver(_Line, frozen=True):
    """The first line: connect to the cluster with these settings of Spark."""

    settings: dict[str, str]


class StartTaskManager(_Line, frozen=True):
    """Run a TaskManager in a task of Spark, once. It may wait for an executor as long as it has to."""

    options: TaskManagerOptions


class EndTaskManager(_Line, frozen=True):
    """End it, or take it out of Spark's queue. One that `is_lost` does not answer, and its executor may not either."""

    resource_id: str
    is_lost: bool = False


ToDriver = StartDriver | StartTaskManager | EndTaskManager


class DriverStarted(_Line, frozen=True):
    """The driver is connected. `application_id` is what the cluster calls it; `jvm_process_id` is the child in which Spark runs,
    0 where it has none."""

    application_id: str
    jvm_process_id: int = 0


class TaskManagerEnded(_Line, frozen=True):
    """A TaskManager has ended, or none will start: sent once for each that was to start."""

    resource_id: str
    error: ErrorInfo


class DriverFailed(_Line, frozen=True):
    """The last line: the driver ends, and all TaskManagers with it."""

    error: ErrorInfo


FromDriver = DriverStarted | TaskManagerEnded | DriverFailed


_decode_to_driver = msgspec.json.Decoder(ToDriver).decode


_decode_from_driver = msgspec.json.Decoder(FromDriver).decode


def encode_line(line: ToDriver | FromDriver) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def decode_to_driver(line: bytes) -> ToDriver:
    return _decode_to_driver(line)


def decode_from_driver(line: bytes) -> FromDriver | None:
    """None for a line that something else in that process has printed."""
    try:
        return _decode_from_driver(line)
    except msgspec.MsgspecError:
        return None
