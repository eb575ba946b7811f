"""Runs a TaskManager as a child of a Python worker of Spark."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections import deque

import msgspec

from sqlstream.errors import ErrorInfo, ExternalError, FailureReason, SqlStreamError
from sqlstream.runtime.net.endpoint import host_towards, is_tcp, read_identity
from sqlstream.runtime.net.socket_directory import directory_of
from sqlstream.runtime.providers.child_output import LINE_BYTES_MAX, LINES_KEPT
from sqlstream.runtime.providers.early_children import start_child
from sqlstream.runtime.providers.local import describe_exit
from sqlstream.runtime.taskmanager.task_manager_options import (
    TaskManagerOptions,
    decode_options,
    encode_options,
)


class LaunchResult(msgspec.Struct, frozen=True):
    """What became of a task that was to run a TaskManager: one of its fields says."""

    error: ErrorInfo | None = None
    """It has run and ended, or could not start."""
    problems: tuple[str, ...] = ()
    """The worker lacks these packages."""
    is_restarted: bool = False
    """Spark has restarted a task on its own; no TaskManager was started."""
    host: str = ""
    python: str = ""


def launch_task_manager(options: str) -> str:
    """Start it and return when it has ended. It ends when this process does, however that ends: its standard input is a pipe from
    here. What it prints goes to the executor's log."""
    told = decode_options(options.encode())
    try:
        _check(told)
    except SqlStreamError as error:
        # The next one would fail alike.
        return _encode(msgspec.structs.replace(ErrorInfo.of(error), reason=FailureReason.NO_RESOURCES))
    child = start_child()
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(encode_options(told))
        child.stdin.flush()
    lines: deque[str] = deque(maxlen=LINES_KEPT)
    while line := child.stdout.readline(LINE_BYTES_MAX):
        lines.append(line.decode("utf-8", "replace"))
        sys.stderr.write(lines[-1])
    code = child.wait()
    return _encode(describe_exit(told.resource_id, child.pid, code, "".join(lines).rstrip()))


def _check(told: TaskManagerOptions) -> None:
    """SqlStreamError for what would keep it from reaching the JobManager."""
    if told.tls is not None:
        read_identity(told.tls)
    if is_tcp(told.job_manager_address):
        host_towards(told.job_manager_address)
        return
    directory = directory_of(told.job_manager_address)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ExternalError(
            "SS6072",
            f'the executor on {socket.gethostname()} may not enter "{directory}", where processes of one machine and user meet',
            hint="set jobmanager.rpc.address (127.0.0.1 where executors of another user run on this machine)",
        )


def _encode(error: ErrorInfo) -> str:
    return msgspec.json.encode(LaunchResult(error=error, host=socket.gethostname())).decode()
