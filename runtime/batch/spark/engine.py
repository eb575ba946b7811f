"""Runs batch plans on Spark: the engine that the executor knows, and its statements under way."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from sqlstream.batch_plan import BatchPlan
from sqlstream.runtime.batch.engine import BatchRun
from sqlstream.runtime.batch.spark.connect.address import ConnectAddress, connect_address
from sqlstream.runtime.batch.spark.connect.sessions import ConnectSessions
from sqlstream.runtime.batch.spark.packages import require_packages
from sqlstream.runtime.batch.spark.session import SparkSessions
from sqlstream.runtime.batch.spark.settings import spark_keys


class SparkEngine:
    """Runs each plan in a Spark session of its own. All share one Spark, which starts at the first use, but for those whose
    settings name a Spark Connect server. Implements `BatchEngine`.

    State: that Spark, sessions at servers, and the statements under way by job."""

    name = "spark"

    def __init__(self) -> None:
        self._sessions = SparkSessions()
        self._remote = ConnectSessions()
        self._numbers = itertools.count()
        self._cancelled: dict[str, set[threading.Event]] = {}
        self._lock = threading.Lock()

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        given = spark_keys(plan.config)
        address = connect_address(given)
        with self._cancellation(plan.job_id) as cancelled:

            def is_cancelled() -> bool:
                return cancelled.is_set() or run.is_cancelled()

            if address is not None:
                self._run_remotely(address, given, plan, run, is_cancelled)
                return
            require_packages(is_connect=False)
            from sqlstream.runtime.batch.spark.statement import SparkStatement

            group = f"{plan.job_id}-{next(self._numbers)}"
            with self._sessions.session(given, run.state, is_cancelled) as (spark, session):
                SparkStatement(spark, session, group, plan, run, is_cancelled).run()
                spark.jvm.has_run_statement = True

    def _run_remotely(
        self,
        address: ConnectAddress,
        given: dict[str, str],
        plan: BatchPlan,
        run: BatchRun,
        is_cancelled: Callable[[], bool],
    ) -> None:
        with self._remote.session(address, given, run.state, is_cancelled) as session:
            # It imports PySpark's client, for which the session has made room.
            from sqlstream.runtime.batch.spark.connect.statement import ConnectStatement

            ConnectStatement(session, plan, run, is_cancelled).run()

    def cancel(self, job_id: str) -> None:
        with self._lock:
            for cancelled in self._cancelled.get(job_id, ()):
                cancelled.set()

    def explain(self, plan: BatchPlan, files: Any) -> str:
        """BatchCancelled while Spark starts; what Spark's planner does is not interrupted."""
        given = spark_keys(plan.config)
        address = connect_address(given)
        with self._cancellation(plan.job_id) as cancelled:
            if address is not None:
                with self._remote.session(address, given, _say_nothing, cancelled.is_set) as session:
                    from sqlstream.runtime.batch.spark.connect.tables import explain as explain_remotely

                    return explain_remotely(session, plan)
            from sqlstream.runtime.batch.spark.statement import explain

            with self._sessions.session(given, _say_nothing, cancelled.is_set) as (spark, local):
                return explain(spark, local, plan, files, cancelled.is_set)

    @contextlib.contextmanager
    def _cancellation(self, job_id: str) -> Iterator[threading.Event]:
        """Set by `cancel` and `close` while this is entered."""
        cancelled = threading.Event()
        with self._lock:
            self._cancelled.setdefault(job_id, set()).add(cancelled)
        try:
            yield cancelled
        finally:
            with self._lock:
                self._cancelled[job_id].discard(cancelled)
                if not self._cancelled[job_id]:
                    del self._cancelled[job_id]

    def close(self) -> None:
        with self._lock:
            for events in self._cancelled.values():
                for cancelled in events:
                    cancelled.set()
        self._remote.close()
        self._sessions.close()


def _say_nothing(words: str) -> None:
    return None
