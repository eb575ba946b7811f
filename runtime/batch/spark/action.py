"""One action of Spark on a thread of its own, with its progress; it can be cancelled while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlstream.runtime.batch.spark.threaded_call import Result, ThreadedCall

if TYPE_CHECKING:
    from pyspark import SparkContext


class SparkAction(ThreadedCall[Result]):
    """Calls a function whose jobs are those of a job group."""

    def __init__(
        self, context: SparkContext, group: str, description: str, function: Callable[[], Result]
    ) -> None:
        self._context = context
        self._group = group

        def grouped() -> Result:
            # PySpark gives each thread of Python one of the JVM, so this concerns no other statement.
            context.setJobGroup(group, description, interruptOnCancel=True)
            return function()

        super().__init__(grouped, "spark-action")

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
