"""A TaskManager inside the client's process, for jobs that end before a child process would have started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlstream.errors import ErrorInfo
from sqlstream.messages.log_levels import LogLevels, SetLogLevels
from sqlstream.messages.stacks import RequestStacks, StacksReply
from sqlstream.runtime.checkpoint.local_copies import LocalCopies
from sqlstream.runtime.host.clock import now_ms, steady_ms
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.process import LIBRARY_THREAD_LIMIT
from sqlstream.runtime.host.thread_stacks import answer_stacks
from sqlstream.runtime.logs import set_levels
from sqlstream.runtime.memory.managed_memory import ManagedMemory
from sqlstream.runtime.net.exchange import LocalExchange, LocalTransport, PartitionTable
from sqlstream.runtime.net.results import ResultReceiver
from sqlstream.runtime.taskmanager.shell import TaskExecutorShell
from sqlstream.runtime.taskmanager.task_context import TaskArtifacts
from sqlstream.runtime.taskmanager.task_manager_options import executor_config
from sqlstream.runtime.taskmanager.task_runner import ThreadTaskRunner

JOB_MANAGER = "job-manager"
TASK_MANAGER = "task-manager"
STOP_TIMEOUT_S = 2.0


class InProcessTaskManager:
    """One TaskManager of `slots` slots whose messages are calls. From `start` to `stop` Arrow has one thread in this process.
    State: its tasks' and its TaskExecutor's."""

    address = JOB_MANAGER
    result_address = JOB_MANAGER

    def __init__(
        self,
        slots: int,
        receiver: ResultReceiver,
        receive: Callable[[Any], None],
        on_crash: Callable[[ErrorInfo], None],
        cancellation_timeout_ms: int,
        copies: LocalCopies,
        memory: ManagedMemory | None = None,
        artifacts: TaskArtifacts | None = None,
    ) -> None:
        self._holds_limit = False
        self.transport = LocalTransport()
        exchange = LocalExchange(PartitionTable(), receiver)
        self._runner = ThreadTaskRunner(
            now_ms,
            LocalFiles(),
            exchange,
            lambda c: self._shell.task_state_changed(c),
            copies,
            memory,
            artifacts,
        )
        self._shell = TaskExecutorShell(
            executor_config("in-process", TASK_MANAGER, slots, cancellation_timeout_ms),
            JOB_MANAGER,
            self.transport,
            self._runner,
            steady_ms,
            on_crash,
        )
        self.transport.listen(JOB_MANAGER, receive)
        self.transport.listen(TASK_MANAGER, self._shell.receive)

    @property
    def process_ids(self) -> tuple[int, ...]:
        return ()

    def start(self) -> None:
        LIBRARY_THREAD_LIMIT.hold()
        self._holds_limit = True
        self._shell.start()

    def stop(self) -> None:
        self._runner.stop(STOP_TIMEOUT_S)
        self._shell.stop()
        if self._holds_limit:
            self._holds_limit = False
            LIBRARY_THREAD_LIMIT.release()

    def stacks(self, address: str, request: RequestStacks) -> StacksReply:
        del address
        return answer_stacks(request, self._runner.threads())

    def log_levels(self, address: str, request: SetLogLevels) -> LogLevels:
        del address
        return LogLevels(set_levels(request.levels))

    def keep_log_levels(self, levels: dict[str, str]) -> None:
        """Nothing to do: they are those of this process."""
        del levels

    def request_task_manager(self, resource_id: str) -> None:
        """Nothing to do: there is one TaskManager, whose slots are fixed; a job that needs more waits."""
        del resource_id

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        """Nothing to do: the TaskManager is this process, which only its user ends."""
        del resource_id, is_lost
