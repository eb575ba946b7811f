"""TaskManagers as jobs of a SparkContext, whose JVM is a child of the driver process."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.errors import ErrorInfo, ExternalError
from sqlstream.runtime.batch.spark.session import RunningSpark, SparkStart, check_reachable
from sqlstream.runtime.providers.spark.launched import LaunchedTaskManager
from sqlstream.runtime.providers.spark.launcher import OnEnd
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.spark import MASTER


class ContextLauncher:
    """TaskManagers as jobs of a SparkContext, whose JVM is a child of this process.

    Implements `Launcher`. State: the running Spark, until `stop`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """SqlStreamError when Spark cannot be started."""
        check_reachable(settings[MASTER])
        launch = dict(settings)
        self._running = RunningSpark(launch, SparkStart(launch))

    @property
    def application_id(self) -> str:
        found: str = self._running.session.sparkContext.applicationId
        return found

    @property
    def jvm_process_id(self) -> int:
        return self._running.jvm.process_id

    def launch(self, options: TaskManagerOptions, on_end: OnEnd) -> LaunchedTaskManager:
        context = self._running.session.sparkContext
        return LaunchedTaskManager(context, options, self._running.has_our_code, on_end)

    def failure(self) -> ErrorInfo | None:
        return None if self._running.is_alive else _spark_ended(self._running.jvm.last_words())

    def stop(self) -> None:
        self._running.stop()


def _spark_ended(last_words: str) -> ErrorInfo:
    return ErrorInfo.of(
        ExternalError(
            "SS6075",
            "Spark ended while it ran TaskManagers",
            detail=f"its last lines are\n{last_words}" if last_words else "",
            hint="look at the logs of the Spark cluster: it ends an application whose executors fail again and again",
        )
    )
