"""One TaskManager in a task of Spark, as the driver sees it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from sqlstream.errors import ErrorInfo, error_info
from sqlstream.runtime.batch.spark.code_archive import ARCHIVE
from sqlstream.runtime.batch.spark.errors import described, first_line
from sqlstream.runtime.batch.spark.threaded_call import SparkAction
from sqlstream.runtime.providers.spark.launch import LaunchResult
from sqlstream.runtime.providers.spark.shipped import make_launch
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, encode_options

if TYPE_CHECKING:
    from pyspark import SparkContext

NEEDED = ("pyarrow", "msgspec", "numpy", "numba", "llvmlite", "duckdb", "psutil")
"""Packages that a TaskManager imports, and of which it must have our versions to give the same rows."""

_LOOK_S = 0.3
_TASKS_MAX = 10
_LOST = re.compile(r"ExecutorLostFailure \((.*?)\)(?: Reason: ([^\n]*))?")


class LaunchedTaskManager:
    """Starts the TaskManager at once and calls `on_end` once, from a thread of its own. One whose executor is lost has ended,
    also when Spark restarts its task. State: Spark's job, until it has ended, and whether its executor is to end with it."""

    def __init__(
        self,
        context: SparkContext,
        options: TaskManagerOptions,
        has_our_code: bool,
        on_end: Callable[[str, ErrorInfo], None],
    ) -> None:
        self.resource_id = options.resource_id
        self._context = context
        self._on_end = on_end
        self._is_released = threading.Event()
        self._is_lost = False
        launch = make_launch(
            encode_options(options).decode(), needed_packages(), None if has_our_code else ARCHIVE
        )

        def run() -> list[str]:
            return context.parallelize([0], 1).mapPartitions(launch).collect()

        self._action = SparkAction(context, self.resource_id, f"TaskManager {self.resource_id}", run)
        self._thread = threading.Thread(target=self._watch, name=f"watch-{self.resource_id}", daemon=True)
        self._thread.start()

    def release(self, is_lost: bool) -> None:
        self._is_lost = is_lost
        self._is_released.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _watch(self) -> None:
        loss: ErrorInfo | None = None
        while not self._action.wait(_LOOK_S):
            if self._is_lost:
                self._is_lost = False
                # Of a Spark in this JVM alone there is none that could be ended.
                with contextlib.suppress(Exception):
                    self._end_executor()
            # Whatever is raised when Spark ends, the action sees it too.
            with contextlib.suppress(Exception):
                if loss is None and not self._is_released.is_set():
                    loss = self._lost()
                if loss is not None or self._is_released.is_set():
                    # Again and again: a job is cancelled only once Spark knows it.
                    self._action.cancel()
        self._on_end(self.resource_id, loss or self._end())

    def _end(self) -> ErrorInfo:
        try:
            texts = self._action.result()
        except Exception as error:
            if self._is_released.is_set():
                return task_manager_failure(self.resource_id, "was released")
            loss = None
            with contextlib.suppress(Exception):
                loss = self._lost()
            reason = first_line(described(error)).removeprefix("Spark could not run the query: ")
            return loss or task_manager_failure(self.resource_id, f"could not run in Spark: {reason}")
        return end_of(self.resource_id, texts)

    def _lost(self) -> ErrorInfo | None:
        """The cause when Spark's task has failed at least once."""
        for stage in self._stages():
            if stage.numFailedTasks > 0:
                return lost_executor(self.resource_id, self._messages(stage.stageId))
        return None

    def _stages(self) -> Iterator[Any]:
        tracker: Any = self._context.statusTracker()
        for job_id in tracker.getJobIdsForGroup(self.resource_id):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    yield stage

    def _messages(self, stage_id: int) -> str:
        """What Spark says of the failed attempts of the stage's task."""
        try:
            found = [task.errorMessage() for task in self._attempts(stage_id)]
            return "\n".join(message.get() for message in found if message.isDefined())
        except Exception:  # whatever a JVM raises that ends, or another release of Spark without this store
            return ""

    def _attempts(self, stage_id: int) -> list[Any]:
        """Spark's TaskData of the stage's task."""
        tasks: Any = self._context._jsc.sc().statusStore().taskList(stage_id, 0, _TASKS_MAX)
        return [tasks.apply(i) for i in range(tasks.size())]

    def _end_executor(self) -> None:
        """End the executor that runs the task. One on a host that is cut off gets no other task from then on."""
        spark: Any = self._context._jsc.sc()
        ids = {a.executorId() for stage in self._stages() for a in self._attempts(stage.stageId)}
        chosen = self._context._jvm.PythonUtils.toSeq(sorted(ids))
        # Although it is busy, and not counted as a failure of the application. Spark's own allocation replaces it.
        spark.schedulerBackend().killExecutors(chosen, False, False, True)


def end_of(resource_id: str, texts: list[str] | None) -> ErrorInfo:
    """What became of a TaskManager whose task has ended and given these texts."""
    result = msgspec.json.decode((texts or ["{}"])[0], type=LaunchResult)
    if result.problems:
        return _unusable_worker(result)
    if result.error is not None:
        return _at(result.error, result.host)
    return task_manager_failure(resource_id, "was lost, and Spark has restarted its task")


def needed_packages() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in NEEDED}


def lost_executor(resource_id: str, messages: str) -> ErrorInfo:
    """The cause of a job's failure when the executor of a TaskManager is gone.

    >>> lost_executor("tm-1", "ExecutorLostFailure (executor 1 exited) Reason: worker lost").message
    'TaskManager tm-1 was lost with its executor: executor 1 exited: worker lost'
    """
    found = _LOST.search(messages)
    if found is not None:
        what = f"was lost with its executor: {': '.join(part for part in found.groups() if part)}"
    else:
        line = messages.strip().partition("\n")[0]
        what = f"was lost: {line or 'its task in Spark has failed'}"
    return task_manager_failure(
        resource_id,
        what,
        "look at the executor's log: it has often run out of memory (spark.executor.memoryOverhead)",
    )


def _unusable_worker(result: LaunchResult) -> ErrorInfo:
    return error_info(
        "SS6073",
        f"the Python of Spark's workers cannot run TaskManagers: {'; '.join(result.problems)}",
        detail=f"on {result.host}: {result.python}",
    )


def task_manager_failure(resource_id: str, what: str, hint: str = "") -> ErrorInfo:
    return error_info("SS6074", f"TaskManager {resource_id} {what}", hint=hint)


def _at(error: ErrorInfo, host: str) -> ErrorInfo:
    """The same with the host, which is another one."""
    detail = "\n".join(part for part in (f"on {host}", error.detail) if part)
    return msgspec.structs.replace(error, detail=detail)
