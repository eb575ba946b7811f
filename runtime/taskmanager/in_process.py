"""A TaskManager inside the client's process, for jobs that end before a child process would have started."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from runtime.host.clock import now_ms, steady_ms
from runtime.host.files import LocalFiles
from runtime.host.process import limit_library_threads, memory_bytes
from runtime.net.exchange import LocalExchange
from runtime.net.local_transport import LocalTransport
from runtime.net.partition_table import PartitionTable
from runtime.net.results import ResultReceiver
from runtime.taskmanager.shell import TaskExecutorShell
from runtime.taskmanager.task_executor import TaskExecutorConfig
from runtime.taskmanager.task_runner import ThreadTaskRunner
from sqlstream.errors import ErrorInfo

JOB_MANAGER = "job-manager"
TASK_MANAGER = "task-manager"
STOP_TIMEOUT_S = 2.0


class InProcessTaskManager:
    """One TaskManager of `slots` slots whose messages are calls. State: its tasks' and its TaskExecutor's."""

    address = JOB_MANAGER

    def __init__(
        self,
        slots: int,
        receiver: ResultReceiver,
        receive: Callable[[Any], None],
        on_crash: Callable[[ErrorInfo], None],
        cancellation_timeout_ms: int,
    ) -> None:
        self.transport = LocalTransport()
        exchange = LocalExchange(PartitionTable(), receiver)
        self._runner = ThreadTaskRunner(
            now_ms, LocalFiles(), exchange, lambda c: self._shell.task_state_changed(c)
        )
        self._shell = TaskExecutorShell(
            TaskExecutorConfig(
                "in-process",
                TASK_MANAGER,
                slots,
                cancellation_timeout_ms=cancellation_timeout_ms,
                process_id=os.getpid(),
                cores=os.cpu_count() or 1,
                memory_bytes=memory_bytes(),
            ),
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
        limit_library_threads(1)
        self._shell.start()

    def stop(self) -> None:
        self._runner.stop(STOP_TIMEOUT_S)
        self._shell.stop()

    def request_task_manager(self, resource_id: str) -> None:
        """Nothing to do: there is one TaskManager, whose slots are fixed; a job that needs more waits."""
        del resource_id

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        """Nothing to do: the TaskManager is this process, which only its user ends."""
        del resource_id, is_lost
