"""Runs batch plans on Spark: the engine that the executor knows, and its statements under way."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping

from runtime.batch.engine import BatchRun
from runtime.batch.spark.session import SparkSessions
from sqlstream.batch_plan import BatchPlan


class SparkEngine:
    """Runs each plan in a Spark session of its own; all share one Spark, which starts at the first use. Implements `BatchEngine`.

    State: that Spark, and the job groups under way by job."""

    name = "spark"

    def __init__(self) -> None:
        self._sessions = SparkSessions()
        self._numbers = itertools.count()
        self._cancelled: dict[str, set[threading.Event]] = {}
        self._lock = threading.Lock()

    def warm_up(self, config: Mapping[str, str]) -> None:
        """Start Spark in the background with these settings, unless it runs."""
        self._sessions.warm_up(config)

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        from runtime.batch.spark.statement import SparkStatement

        cancelled = threading.Event()
        with self._lock:
            self._cancelled.setdefault(plan.job_id, set()).add(cancelled)
            group = f"{plan.job_id}-{next(self._numbers)}"

        def is_cancelled() -> bool:
            return cancelled.is_set() or run.is_cancelled()

        try:
            with self._sessions.session(plan.config, run.state, is_cancelled) as (spark, session):
                SparkStatement(spark, session, group, plan, run, is_cancelled).run()
        finally:
            with self._lock:
                self._cancelled[plan.job_id].discard(cancelled)
                if not self._cancelled[plan.job_id]:
                    del self._cancelled[plan.job_id]

    def cancel(self, job_id: str) -> None:
        with self._lock:
            for cancelled in self._cancelled.get(job_id, ()):
                cancelled.set()

    def explain(self, plan: BatchPlan) -> str:
        from runtime.batch.spark.statement import explain

        with self._sessions.session(plan.config, lambda words: None, lambda: False) as (spark, session):
            return explain(spark, session, plan)

    def close(self) -> None:
        with self._lock:
            for events in self._cancelled.values():
                for cancelled in events:
                    cancelled.set()
        self._sessions.close()
