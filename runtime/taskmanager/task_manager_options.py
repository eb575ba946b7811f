"""The options of a TaskManager process: one line of JSON on its standard input, so that no secret is in its
arguments."""

from __future__ import annotations

import msgspec

from runtime.host.rooted_files import FilePlaces
from runtime.logs import QUIET_LEVEL


class TaskManagerOptions(msgspec.Struct, frozen=True):
    """It listens in the directory of `job_manager_address`. `resource_id` names the process; files of tables lie at
    `places`, or anywhere."""

    resource_id: str
    job_manager_address: str
    token: str
    slots: int
    network_memory_bytes: int
    cancellation_timeout_ms: int
    log_level: str = QUIET_LEVEL
    log_format: str = "TEXT"
    places: FilePlaces | None = None


def encode_options(options: TaskManagerOptions) -> bytes:
    return msgspec.json.encode(options) + b"\n"


def decode_options(line: bytes) -> TaskManagerOptions:
    return msgspec.json.decode(line, type=TaskManagerOptions)
