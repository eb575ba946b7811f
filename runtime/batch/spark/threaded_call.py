"""A call on a thread of its own, which the caller need not wait for to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark import SparkContext


Result = TypeVar("Result")


class ThreadedCall(Generic[Result]):
    """Calls a function at once. State: the thread, then the result or the failure."""

    def __init__(
        self, function: Callable[[], Result], name: str, when_done: Callable[[], None] = lambda: None
    ) -> None:
        """`when_done` is called on that thread once `result` tells how the call has ended."""
        self._function = function
        self._when_done = when_done
        self._result: Result | None = None
        self._failure: BaseException | None = None
        self._is_done = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # the thread's boundary: `result` raises it
            self._failure = error
        self._is_done = True
        self._when_done()

    def wait(self, timeout_s: float) -> bool:
        """Whether the call has ended, after at most that long."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def result(self) -> Result | None:
        """What the function has returned; None while it runs. Raises what it has raised."""
        if self._failure is not None:
            raise self._failure
        return self._result if self._is_done else None


# One action of Spark on a thread of its own, with its progress; it can be cancelled while it runs.


class SparkAction(ThreadedCall[Result]):
    """Calls a function whose jobs are those of a job group."""

    def __init__(
        self,
        context: SparkContext,
        group: str,
        description: str,
        function: Callable[[], Result],
        when_done: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._group = group

        def grouped() -> Result:
            # PySpark gives each thread of Python one of the JVM, so this concerns no other statement.
            context.setJobGroup(group, description, interruptOnCancel=True)
            return function()

        super().__init__(grouped, "spark-action", when_done)

    def progress(self) -> tuple[int, int]:
        """Finished tasks and all tasks of the jobs that Spark has begun so far."""
        tracker: Any = self._context.statusTracker()
        done = total = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            has_ended = job is not None and job.status != "RUNNING"
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    done += stage.numCompletedTasks
                    # A stage of an ended job that has run no task was skipped: an earlier job left its rows.
                    total += stage.numCompletedTasks if has_ended else stage.numTasks
        return done, total

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)
