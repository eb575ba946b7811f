"""TaskManagers as child processes of this one."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from runtime.host import process
from runtime.host.clock import steady_s
from runtime.providers.child_output import LINE_BYTES_MAX, ChildOutput
from runtime.taskmanager.task_manager_options import TaskManagerOptions, encode_options
from sqlstream.errors import ErrorInfo, FailureReason

STOP_TIMEOUT_S = 5.0
REPLACEMENTS_MAX = 10
TASK_MANAGERS_MAX = 64
"""The most children: a job that needs more is refused instead of filling the machine with processes."""

KEEP_FREED_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MIMALLOC_PURGE_DELAY": "10000",
}
"""Environment of a child: glibc and (for 10 s) Arrow's allocator keep the memory of one batch for the next instead of
returning it to the system and faulting it in again, page by page (measured: 0 to 60 % of the CPU time of windows with
millions of keys). glibc uses one arena, because only the main arena grows contiguously and has room for large arrays. An
idle TaskManager returns the memory to the system (runtime.taskmanager.idle_memory)."""

OnExit = Callable[[str, ErrorInfo], None]
"""Called with the resource id of a child that ended without a request, and the cause as far as it can be seen here."""

OnGivenUp = Callable[[ErrorInfo], None]
"""Called with the cause, as far as it can be seen here, when the last child has ended and is not replaced."""


@dataclass(frozen=True)
class _Child:
    process: subprocess.Popen[bytes]
    output: ChildOutput = field(default_factory=ChildOutput)


class LocalProvider:
    """Keeps a number of TaskManagers running, more when a job needs more slots, and reports each one that dies.
    Implements `ResourceProvider`.

    Children start at once and in parallel. A child that dies is replaced, so that the next job finds its slots, at most
    REPLACEMENTS_MAX times per job: a fault that kills every new child is not cured by another child. When none is left,
    `on_given_up` is called. State: the running children, how many were started, and how many were replaced since the last
    job came."""

    def __init__(
        self, options: TaskManagerOptions, count: int, on_exit: OnExit, on_given_up: OnGivenUp
    ) -> None:
        """`options` are the options of every child; the child's number is appended to the resource id."""
        self._options = options
        self._count = count
        self._on_exit = on_exit
        self._on_given_up = on_given_up
        self._children: dict[str, _Child] = {}
        self._started = 0
        self._replaced = 0
        self._is_stopping = False
        self._lock = threading.Lock()

    @property
    def process_ids(self) -> tuple[int, ...]:
        with self._lock:
            return tuple(child.process.pid for child in self._children.values())

    def start(self) -> None:
        for _ in range(self._count):
            self._start_one()

    def reserve(self, slots: int) -> None:
        """Start children until there are that many slots; there may be more slots than cores."""
        with self._lock:
            wanted = min(-(-slots // self._options.slots), TASK_MANAGERS_MAX)
            self._count = max(self._count, wanted)
            self._replaced = 0
            # Also children that were not replaced any more: a new job is a reason to try again.
            missing = self._count - len(self._children)
        for _ in range(missing):
            self._start_one()

    def _start_one(self) -> None:
        with self._lock:
            if self._is_stopping or len(self._children) >= self._count:
                return
            self._started += 1
            resource_id = f"{self._options.resource_id}-{self._started}"
            child = _Child(process.start_python_module("runtime.taskmanager", [], KEEP_FREED_MEMORY))
            self._children[resource_id] = child
            # Under the lock: `stop` must not close the pipe during a write.
            _tell(
                child.process, encode_options(msgspec.structs.replace(self._options, resource_id=resource_id))
            )
        name = f"watch-{resource_id}"
        threading.Thread(target=self._watch, args=(resource_id, child), name=name, daemon=True).start()

    def request_slots(self, slots_missing: int) -> None:
        """Nothing to do: `reserve` has started enough slots for the widest job. A job whose slots other jobs hold waits for
        them, and fails by slot.request.timeout."""
        del slots_missing

    def release(self, resource_id: str) -> None:
        """Kill a child that does not answer; it is replaced like any other that dies."""
        with self._lock:
            child = self._children.get(resource_id)
        if child is not None:
            child.process.kill()

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
            is_replaced = self._replaced < REPLACEMENTS_MAX
            self._replaced += is_replaced
            is_last = not is_replaced and not self._children
        error = describe_exit(resource_id, child.process.pid, code, child.output.last_words())
        self._on_exit(resource_id, error)
        if is_replaced:
            self._start_one()
        elif is_last:
            self._on_given_up(describe_end(error))

    def stop(self) -> None:
        """End all children: they stop when their standard input ends; those that do not are killed."""
        with self._lock:
            self._is_stopping = True
            children = [child.process for child in self._children.values()]
        for child in children:
            _hang_up(child)
        deadline_s = steady_s() + STOP_TIMEOUT_S
        for child in children:
            try:
                child.wait(max(0.0, deadline_s - steady_s()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _tell(child: subprocess.Popen[bytes], line: bytes) -> None:
    """Write a child's options to it. The thread that watches the child notices when it has died already."""
    assert child.stdin is not None
    try:
        child.stdin.write(line)
        child.stdin.flush()
    except BrokenPipeError:
        return


def _hang_up(child: subprocess.Popen[bytes]) -> None:
    """Close a child's standard input. Options that a dead child has not read are dropped."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()


def describe_exit(resource_id: str, process_id: int, code: int, last_words: str = "") -> ErrorInfo:
    """The cause of a job's failure when a TaskManager's process has ended."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return ErrorInfo(
        code="SS6006",
        message=f"TaskManager {resource_id} (process {process_id}) {how}",
        reason=FailureReason.TASK_MANAGER_LOST,
        detail=f"its last lines are\n{last_words}" if last_words else "",
        hint="run the statement again; a process killed by signal 9 has often run out of memory"
        if code == -9
        else "",
    )


def describe_end(last: ErrorInfo) -> ErrorInfo:
    """The cause of a job's failure when every TaskManager has ended and no other is started; `last` is the last one's."""
    return msgspec.structs.replace(
        last,
        code="SS6003",
        message=f"no TaskManager is left and {REPLACEMENTS_MAX} replacements have ended too: {last.message}",
        reason=FailureReason.NO_RESOURCES,
        hint="correct the cause in the last lines, then run the statement again"
        if last.detail
        else last.hint or "see what else ends processes of this user, then run the statement again",
    )
