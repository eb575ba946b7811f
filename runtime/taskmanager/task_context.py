"""What a task gets from its TaskManager, and what wakes it where it waits."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from sqlstream.errors import ExternalError
from sqlstream.graph.artifacts import Artifact
from sqlstream.runtime.checkpoint.local_copies import LocalCopies, StateFigures, SubtaskCopies
from sqlstream.runtime.checkpoint.merged_files import MergedFiles
from sqlstream.runtime.memory.managed_memory import TaskMemory, unmanaged_memory
from sqlstream.runtime.net.exchange import DataExchange
from sqlstream.runtime.taskmanager.events import TaskReport
from sqlstream.runtime.taskmanager.inputs.readiness import Readiness, shared_readiness
from sqlstream.runtime.taskmanager.mailbox import Mailbox, Turns
from sqlstream.runtime.taskmanager.metrics import TaskTimes
from sqlstream.spi.files import Files


class TaskCancelled(Exception):
    """Unwinds the task's thread."""


class TaskCancellation:
    """Whether a task is to end. `request` may be called by any thread, the rest by the task's.

    State: the request, and the calls that end what the task may wait for: its outputs, which a failed task closes too, and calls
    of other systems. A call that is added after the request is made at once."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._lock = threading.Lock()
        self._outputs: list[Callable[[], None]] = []
        self._interrupts: list[Callable[[], None]] = []

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    def check(self) -> None:
        """TaskCancelled when the task is to end."""
        if self._requested.is_set():
            raise TaskCancelled

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the request, or the timeout."""
        self._requested.wait(timeout_s)

    def add_output(self, close: Callable[[], None]) -> None:
        self._add(self._outputs, close)

    def add_interrupt(self, interrupt: Callable[[], None]) -> None:
        self._add(self._interrupts, interrupt)

    def _add(self, calls: list[Callable[[], None]], call: Callable[[], None]) -> None:
        with self._lock:
            calls.append(call)
            is_late = self._requested.is_set()
        if is_late:
            call()

    def request(self) -> None:
        """Request the end, and wake the task. Returns at once."""
        self._requested.set()
        self.close_outputs()
        with self._lock:
            interrupts = list(self._interrupts)
        for interrupt in interrupts:
            interrupt()

    def close_outputs(self) -> None:
        """Wake the task where it waits for room, and close the channels that remote readers read."""
        with self._lock:
            outputs = list(self._outputs)
        for close in outputs:
            close()


class TaskArtifacts(Protocol):
    """The files that go with jobs, on this host. Implemented by `HostArtifacts`."""

    def use(self, job_id: str, artifacts: Iterable[Artifact], check: Callable[[], None]) -> dict[str, str]:
        """The paths by name, once the files are here. `check` raises when the task is to end."""

    def release(self, job_id: str) -> None:
        """No task of the job is left here. Does not wait."""


class NoArtifacts:
    """Where no job has files: implements `TaskArtifacts`."""

    def use(self, job_id: str, artifacts: Iterable[Artifact], check: Callable[[], None]) -> dict[str, str]:
        names = ", ".join(artifact.name for artifact in artifacts)
        raise ExternalError("SS5089", f"files that go with the job cannot be had here: {names}")

    def release(self, job_id: str) -> None:
        """None is held."""


def _state_files(directory: str, config: Mapping[str, str]) -> Files:
    # The clients of stores are many modules, which a job without checkpoints does not use.
    from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files

    return checkpoint_files(directory, config)


@dataclasses.dataclass(frozen=True)
class TaskContext:
    """What a task gets from outside. A TaskManager has one for all of its tasks; `of_task` gives a task one of its own.

    Of the TaskManager: `now_ms` is the wall clock, `write` has another thread make a call, and `state_files` opens the store of
    a directory of checkpoints. Tasks call `report` with each state that they enter, when a source needs further splits, and, from
    any thread, with a checkpoint that they have taken or refused. `local_copies` are the copies of state on its disk, if it
    keeps any; `turns` let tasks that wake at the same time run one after the other. `readiness` wakes tasks when file
    descriptors can be read, and `artifacts` are the files that go with jobs. `merged` are files of state that tasks share.

    Of the task: its mail, its cancellation, its times and the figures of its state. `pause_ms` waits, and raises when the task is
    to end. `on_lost` is called by any thread when the connection to a producer is lost, with the cause. `copies` are the local
    copies of its subtask, and `memory` is what its state takes. `wait_for_peers` waits for an event that only other tasks set.
    """

    now_ms: Callable[[], int]
    files: Any
    exchange: DataExchange
    report: Callable[[TaskReport], None]
    write: Callable[[Callable[[], None]], None]
    local_copies: LocalCopies | None = None
    turns: Turns = dataclasses.field(default_factory=Turns)
    readiness: Readiness = dataclasses.field(default_factory=shared_readiness)
    state_files: Callable[[str, Mapping[str, str]], Files] = _state_files
    artifacts: TaskArtifacts = dataclasses.field(default_factory=NoArtifacts)
    merged: MergedFiles = dataclasses.field(default_factory=MergedFiles)

    mailbox: Mailbox = dataclasses.field(default_factory=Mailbox)
    cancellation: TaskCancellation = dataclasses.field(default_factory=TaskCancellation)
    times: TaskTimes = dataclasses.field(default_factory=TaskTimes)
    state_figures: StateFigures = dataclasses.field(default_factory=StateFigures)
    pause_ms: Callable[[int], None] = lambda pause_ms: None
    on_lost: Callable[[str], None] = lambda cause: None
    copies: SubtaskCopies | None = None
    memory: TaskMemory = dataclasses.field(default_factory=unmanaged_memory)
    wait_for_peers: Callable[[threading.Event], None] = lambda event: None

    def of_task(
        self,
        memory: TaskMemory | None,
        pause_ms: Callable[[int], None],
        on_lost: Callable[[str], None],
        wait_for_peers: Callable[[threading.Event], None],
    ) -> TaskContext:
        """This context for one task, with mail, times and figures of its own; `memory` None: without a limit."""
        return dataclasses.replace(
            self,
            mailbox=Mailbox(),
            cancellation=TaskCancellation(),
            times=TaskTimes(),
            state_figures=StateFigures(),
            pause_ms=pause_ms,
            on_lost=on_lost,
            memory=memory or unmanaged_memory(),
            wait_for_peers=wait_for_peers,
        )
