"""The tasks of one TaskManager: starts, cancels and measures them for the TaskExecutor's shell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import TaskDeploymentDescriptor, TaskMetrics
from sqlstream.runtime.checkpoint.local_copies import LocalCopies
from sqlstream.runtime.memory.managed_memory import ManagedMemory
from sqlstream.runtime.net.exchange import DataExchange
from sqlstream.runtime.taskmanager.checkpoints.state_write import WritingThreads
from sqlstream.runtime.taskmanager.events import CheckpointMessage, TaskReport, TaskStateChanged
from sqlstream.runtime.taskmanager.task import Task
from sqlstream.runtime.taskmanager.task_context import NoArtifacts, TaskArtifacts, TaskContext
from sqlstream.spi.connector import AssignedSplits


class ThreadTaskRunner:
    """Runs each task on a thread of its own. Implements `TaskRunner`.

    State: the tasks that have not ended, and the jobs with a failed or cancelled task here, until their last task has ended.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        files: Any,
        exchange: DataExchange,
        on_state: Callable[[TaskReport], None],
        copies: LocalCopies | None = None,
        memory: ManagedMemory | None = None,
        artifacts: TaskArtifacts | None = None,
    ) -> None:
        """`artifacts` are the files that go with jobs; None: with none. `memory` is that of the TaskManager, and is stopped
        with this; None: without a limit."""
        self._on_state = on_state
        self._memory = memory or ManagedMemory()
        self._writing = WritingThreads()
        self._copies = copies
        self._artifacts = artifacts or NoArtifacts()
        self._context = TaskContext(
            now_ms,
            files,
            exchange,
            self._on_change,
            self._writing.submit,
            copies,
            artifacts=self._artifacts,
        )
        self._tasks: dict[str, Task] = {}
        self._ending: list[Task] = []
        self._broken_off: set[str] = set()
        self._started = 0
        self._lock = threading.Lock()

    def start(self, descriptor: TaskDeploymentDescriptor) -> None:
        memory = self._memory.open(descriptor.allocation_id, descriptor.execution_id, descriptor.config)
        task = Task(descriptor, self._context, memory)
        with self._lock:
            self._tasks[descriptor.execution_id] = task
            self._started += 1
        task.start()

    def cancel(self, execution_id: str) -> None:
        with self._lock:
            task = self._tasks.get(execution_id)
        if task is not None:
            task.cancel()

    def give_splits(self, execution_id: str, number: int, assigned: AssignedSplits) -> None:
        with self._lock:
            task = self._tasks.get(execution_id)
        if task is not None:
            task.give_splits(number, assigned)

    def align(self, execution_id: str, watermark_ms: int) -> None:
        with self._lock:
            task = self._tasks.get(execution_id)
        if task is not None:
            task.align(watermark_ms)

    def limit(self, execution_id: str, rows: int, is_debloating: bool) -> None:
        with self._lock:
            task = self._tasks.get(execution_id)
        if task is not None:
            task.limit(rows, is_debloating)

    def tell_of_checkpoint(self, message: CheckpointMessage) -> None:
        with self._lock:
            task = self._tasks.get(message.execution_id)
        if task is not None:
            task.tell_of_checkpoint(message)

    def forget_job(self, job_id: str) -> None:
        # At once: the job may come back before a writing thread has time to remove anything.
        if self._copies is not None and (remove := self._copies.release(job_id)) is not None:
            self._writing.submit(remove)

    def metrics(self) -> tuple[TaskMetrics, ...]:
        return tuple(task.metrics() for task in self._running())

    def threads(self) -> dict[str, threading.Thread]:
        """The threads of the running tasks, by execution id."""
        return {task.descriptor.execution_id: task.thread for task in self._running()}

    def stop(self, timeout_s: float) -> None:
        """Cancel all tasks and wait for their threads."""
        tasks = self._running()
        for task in tasks:
            task.cancel()
        with self._lock:
            ending = list(self._ending)
        for task in (*tasks, *ending):
            task.join(timeout_s)
        self._writing.stop()
        self._memory.stop()

    @property
    def tasks_started(self) -> int:
        """The number of tasks started so far."""
        return self._started

    @property
    def tasks_running(self) -> int:
        return len(self._tasks)

    def _running(self) -> list[Task]:
        with self._lock:
            return list(self._tasks.values())

    def _on_change(self, change: TaskReport) -> None:
        if isinstance(change, TaskStateChanged) and change.state.is_terminal:
            self._forget(change)
        self._on_state(change)

    def _forget(self, change: TaskStateChanged) -> None:
        with self._lock:
            task = self._tasks.pop(change.execution_id)
            job_id = task.descriptor.job_id
            # Its thread still has to unwind: `stop` waits for it, so that none is left when the interpreter ends.
            self._ending = [t for t in self._ending if not t.join(0)]
            self._ending.append(task)
            if change.state is not ExecutionState.FINISHED:
                self._broken_off.add(job_id)
            is_last = all(task.descriptor.job_id != job_id for task in self._tasks.values())
            # A task that finished has seen its channels opened by both ends; others may leave some that nobody
            # will.
            is_released = is_last and job_id in self._broken_off
            if is_last:
                self._broken_off.discard(job_id)
            if is_last and task.descriptor.artifacts:
                # Before a task of a new attempt starts here, and takes them.
                self._artifacts.release(job_id)
        if is_released:
            self._context.exchange.release_job(job_id)
