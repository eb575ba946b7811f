"""Runs batch plans on Spark: the engine that the executor knows, and its statements under way."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

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

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        from runtime.batch.spark.statement import SparkStatement

        with self._cancellation(plan.job_id) as cancelled:

            def is_cancelled() -> bool:
                return cancelled.is_set() or run.is_cancelled()

            group = f"{plan.job_id}-{next(self._numbers)}"
            with self._sessions.session(plan.config, run.state, is_cancelled) as (spark, session):
                SparkStatement(spark, session, group, plan, run, is_cancelled).run()

    def cancel(self, job_id: str) -> None:
        with self._lock:
            for cancelled in self._cancelled.get(job_id, ()):
                cancelled.set()

    def explain(self, plan: BatchPlan, files: Any) -> str:
        """BatchCancelled while Spark starts; what Spark's planner does is not interrupted."""
        from runtime.batch.spark.statement import explain

        with (
            self._cancellation(plan.job_id) as cancelled,
            self._sessions.session(plan.config, lambda words: None, cancelled.is_set) as (spark, session),
        ):
            return explain(spark, session, plan, files, cancelled.is_set)

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
        self._sessions.close()
