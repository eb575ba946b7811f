"""TaskManagers as child processes of this one."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from dataclasses import dataclass

import msgspec

from sqlstream.errors import ErrorInfo, ExternalError, error_info
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.providers.child_output import LINE_BYTES_MAX, ChildOutput, PassOn, print_errors
from sqlstream.runtime.providers.early_children import EARLY_CHILDREN, start_child
from sqlstream.runtime.providers.provider import OnExit
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, encode_options

STOP_TIMEOUT_S = 5.0
"""How long a child may take to end itself."""


@dataclass(frozen=True)
class _Child:
    process: subprocess.Popen[bytes]
    output: ChildOutput


class LocalProvider:
    """Starts the TaskManagers that it is asked for as children of this process, ends those that it is told to end, and
    reports once for each that it has ended. Whether one that died is replaced is not decided here. Thread-safe. Implements
    `TaskManagerProvider`.

    State: the running children."""

    def __init__(self, options: TaskManagerOptions, on_exit: OnExit, pass_on: PassOn = print_errors) -> None:
        """`options` are the options of every child, except for its resource id; `pass_on` takes what children print."""
        self._options = options
        self._on_exit = on_exit
        self._pass_on = pass_on
        self._children: dict[str, _Child] = {}
        self._is_stopping = False
        self._lock = threading.Lock()

    @property
    def process_ids(self) -> tuple[int, ...]:
        with self._lock:
            return tuple(child.process.pid for child in self._children.values())

    def request(self, resource_id: str) -> None:
        """Start a child; does nothing once `stop` was called. ExternalError when the system refuses another process."""
        with self._lock:
            if self._is_stopping:
                return
            try:
                process_started = EARLY_CHILDREN.take() or start_child()
            except OSError as error:
                raise ExternalError(
                    "SS6006",
                    f"TaskManager {resource_id} could not be started: {error.strerror}",
                    hint="end other processes, or raise the limits of this user",
                ) from error
            child = self._children[resource_id] = _Child(process_started, ChildOutput(self._pass_on))
            # Under the lock: `stop` must not close the pipe during a write.
            tell(
                child.process, encode_options(msgspec.structs.replace(self._options, resource_id=resource_id))
            )
        name = f"watch-{resource_id}"
        threading.Thread(target=self._watch, args=(resource_id, child), name=name, daemon=True).start()

    def release(self, resource_id: str, is_lost: bool) -> None:
        """End a child: kill it when it `is_lost`, else only if it does not end itself within STOP_TIMEOUT_S."""
        with self._lock:
            child = self._children.get(resource_id)
        if child is None:
            return
        if is_lost:
            child.process.kill()
            return
        hang_up(child.process)
        name = f"end-{resource_id}"
        threading.Thread(
            target=end_within, args=(child.process, STOP_TIMEOUT_S), name=name, daemon=True
        ).start()

    def registered(self, resource_id: str) -> None:
        """A child is up: its further output goes to the user."""
        with self._lock:
            child = self._children.get(resource_id)
        if child is not None:
            child.output.release()

    def _watch(self, resource_id: str, child: _Child) -> None:
        assert child.process.stdout is not None
        while line := child.process.stdout.readline(LINE_BYTES_MAX):
            child.output.add(line)
        code = child.process.wait()
        with self._lock:
            if self._is_stopping:
                return
            del self._children[resource_id]
        self._on_exit(
            resource_id, describe_exit(resource_id, child.process.pid, code, child.output.last_words())
        )

    def stop(self) -> None:
        """End all children: they stop when their standard input ends; those that do not are killed."""
        with self._lock:
            self._is_stopping = True
            children = [child.process for child in self._children.values()]
        for child in children:
            hang_up(child)
        deadline_s = steady_s() + STOP_TIMEOUT_S
        for child in children:
            end_within(child, max(0.0, deadline_s - steady_s()))


def end_within(child: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait until a child that was told to end has ended, then kill it."""
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def tell(child: subprocess.Popen[bytes], line: bytes) -> None:
    """Write a child's options to it. The thread that watches the child notices when it has died already."""
    assert child.stdin is not None
    try:
        child.stdin.write(line)
        child.stdin.flush()
    except BrokenPipeError:
        return


def hang_up(child: subprocess.Popen[bytes]) -> None:
    """Close a child's standard input. Options that a dead child has not read are dropped."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()


def describe_exit(resource_id: str, process_id: int, code: int, last_words: str = "") -> ErrorInfo:
    """The cause of a job's failure when a TaskManager's process has ended."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return error_info(
        "SS6006",
        f"TaskManager {resource_id} (process {process_id}) {how}",
        detail=f"its last lines are\n{last_words}" if last_words else "",
        hint="run the statement again; a process killed by signal 9 has often run out of memory"
        if code == -9
        else "",
    )
