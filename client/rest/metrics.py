"""Metrics of jobs, vertices and subtasks: a list of ids, the values of some, or aggregates over several holders."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NotRequired, TypedDict, cast

from fastapi import APIRouter

from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.route import RestRoute, bad_query, checked_id
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobVertex
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, Metrics, SubtaskDetails, VertexDetails

_REPLACED = re.compile(r"[ .:,]")
"""Characters of a name that Flink replaces in ids of metrics (MetricQueryService)."""

_NAMES_MAX = 1000


class Metric(TypedDict):
    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    id: str
    min: NotRequired[float]
    max: NotRequired[float]
    avg: NotRequired[float]
    sum: NotRequired[float]
    skew: NotRequired[float]


def scope_name(name: str) -> str:
    """
    >>> scope_name("Source: bids[1]")
    'Source__bids[1]'
    """
    return _REPLACED.sub("_", name)


def subtask_metrics(subtask: SubtaskDetails, planned: JobVertex) -> Metrics:
    """The task's figures, and those of each operator behind its name. No watermark is the smallest one, as in Flink."""
    if subtask.metrics is None:
        return {}
    figures: Metrics = {"currentInputWatermark": WATERMARK_MIN, **subtask.metrics.task}
    # Latencies are the job's, as in Flink.
    names = {operator.id: scope_name(operator.name) for operator in planned.operators}
    for id, values in subtask.metrics.operators.items():
        plain, _ = split_latencies(values)
        figures |= {f"{names.get(id, str(id))}.{name}": value for name, value in plain.items()}
    return figures


def vertex_metrics(vertex: VertexDetails, planned: JobVertex) -> Metrics:
    """The figures of all subtasks, each behind its index."""
    return {
        f"{subtask.subtask}.{name}": value
        for subtask in vertex.subtasks
        for name, value in subtask_metrics(subtask, planned).items()
    }


_LATENCY = re.compile(
    r"(?:source_id\.(?P<source>\d+)\.)?(?:source_subtask_index\.(?P<subtask>\d+)\.)?latency_(?P<stat>[a-z0-9]+)"
)
_END_TO_END = "endToEndLatency"

Latencies = list[tuple[dict[str, str], dict[str, float]]]
"""What latencies are kept apart by (Flink's names of groups), and the statistics of each."""


def split_latencies(figures: Metrics) -> tuple[Metrics, Latencies]:
    """The figures of an operator without those of latencies, and these.

    >>> split_latencies({"numRecordsIn": 1, "source_id.0.latency_p99": 5, "endToEndLatency_p99": 5})
    ({'numRecordsIn': 1}, [({'source_id': '0'}, {'p99': 5})])
    """
    plain: Metrics = {}
    found: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for name, value in figures.items():
        match = _LATENCY.fullmatch(name)
        if match is not None:
            groups = (("source_id", match["source"]), ("source_subtask_index", match["subtask"]))
            found.setdefault(tuple(g for g in groups if g[1] is not None), {})[match["stat"]] = value
        elif not name.startswith(_END_TO_END):
            plain[name] = value
    return plain, [(dict(groups), statistics) for groups, statistics in found.items()]


def job_latencies(job: JobDetails) -> Metrics:
    """The latencies at all operators, under Flink's names."""
    figures: Metrics = {}
    for subtask in (s for vertex in job.vertices for s in vertex.subtasks if s.metrics is not None):
        assert subtask.metrics is not None
        for id, values in subtask.metrics.operators.items():
            for source, statistics in split_latencies(values)[1]:
                groups = {**source, "operator_id": str(id), "operator_subtask_index": str(subtask.subtask)}
                scope = ".".join(f"{name}.{value}" for name, value in groups.items())
                figures |= {f"latency.{scope}.latency_{stat}": v for stat, v in statistics.items()}
    return figures


_DOWN = (JobStatus.RESTARTING, JobStatus.RECONCILING)


def job_metrics(total: Metrics, job: JobDetails, now_ms: int) -> Metrics:
    """Flink's metrics of a job, and its latency from end to end."""
    entered = job.timestamps_ms

    def time_in(status: JobStatus) -> int:
        begin_ms = entered.get(status.value)
        if begin_ms is None:
            return 0
        end_ms = min((ms for ms in entered.values() if ms > begin_ms), default=None)
        if end_ms is not None and status is not job.status:
            return end_ms - begin_ms
        return max(0, now_ms - begin_ms) if job.status is status else 0

    running_ms, is_down = time_in(JobStatus.RUNNING), job.status in _DOWN
    return {
        "uptime": running_ms if job.status is JobStatus.RUNNING else (-1 if job.status.is_terminal else 0),
        "downtime": -1 if job.status.is_terminal else (time_in(job.status) if is_down else 0),
        "runningTime": running_ms,
        "initializingTime": time_in(JobStatus.INITIALIZING),
        "createdTime": time_in(JobStatus.CREATED),
        "cancellingTime": time_in(JobStatus.CANCELLING),
        "failingTime": time_in(JobStatus.FAILING),
        "restartingTime": time_in(JobStatus.RESTARTING),
        "fullRestarts": total.get("numRestarts", 0),
        **{name: total.get(name, 0) for name in _COUNTS},
        "totalNumberOfCheckpoints": sum(total.get(name, 0) for name in _COUNTS[1:]),
        "numLedgerDifferences": total.get("numLedgerDifferences", 0),
        **{name: total[name] for name in _OF_LAST_CHECKPOINT if name in total},
        **{name: total[name] for name in _END_TO_END_STATISTICS if name in total},
    }


_COUNTS = (
    *("numRestarts", "numberOfCompletedCheckpoints", "numberOfFailedCheckpoints"),
    "numberOfInProgressCheckpoints",
)
_OF_LAST_CHECKPOINT = (
    *("lastCheckpointDuration", "lastCheckpointSize", "lastCheckpointFullSize"),
    *("lastCompletedCheckpointId", "lastCheckpointCompletedTimestamp"),
)
"""Figures that a job has once a checkpoint of it is completed."""

_END_TO_END_STATISTICS = tuple(f"{_END_TO_END}_{stat}" for stat in ("median", "p95", "p99", "max"))


def parse_names(text: str | None) -> tuple[str, ...]:
    """The parts of a list in a query, at most _NAMES_MAX."""
    return tuple(name for name in (text or "").split(",")[:_NAMES_MAX] if name)


def list_metrics(metrics: Metrics, get: str | None) -> list[Metric]:
    """Without `get` all ids; with it the values of those that exist, as texts."""
    wanted = parse_names(get)
    if not wanted:
        return [{"id": name} for name in sorted(metrics)]
    return [{"id": name, "value": metric_text(metrics[name])} for name in wanted if name in metrics]


def metric_text(value: int | float) -> str:
    return str(value)


def _skew(values: Sequence[float]) -> float:
    """The mean distance from the mean, in percent of the mean, at most 100 (Flink: DoubleSkewAccumulator)."""
    mean = sum(values) / len(values)
    if len(values) < 2 or mean == 0:
        return 0.0
    distance = sum(abs(value - mean) for value in values) / len(values)
    return min(100.0, 100 * distance / mean)


_AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "skew": _skew,
}


def aggregate_metrics(holders: Iterable[Metrics], get: str | None, agg: str | None) -> list[AggregatedMetric]:
    """Without `get` the ids that any holder has; with it min, max, avg, sum and skew (or those in `agg`) over the holders
    that have the metric."""
    holders = list(holders)
    wanted = parse_names(get)
    if not wanted:
        return [{"id": name} for name in sorted({name for metrics in holders for name in metrics})]
    chosen = _parse_aggregations(agg)
    answers: list[AggregatedMetric] = []
    for name in wanted:
        values = [float(metrics[name]) for metrics in holders if name in metrics]
        if values:
            found = {kind: compute(values) for kind, compute in chosen.items()}
            answers.append(cast(AggregatedMetric, {"id": name, **found}))
    return answers


def _parse_aggregations(agg: str | None) -> Mapping[str, Callable[[Sequence[float]], float]]:
    names = [name.lower() for name in parse_names(agg)]
    unknown = next((name for name in names if name not in _AGGREGATIONS), None)
    if unknown is not None:
        raise bad_query("agg", unknown)
    return {kind: compute for kind, compute in _AGGREGATIONS.items() if not names or kind in names}


def parse_subtasks(text: str | None, parallelism: int) -> set[int]:
    """Indexes and ranges of subtasks, `0,2-4`; all without a text.

    >>> sorted(parse_subtasks("0,2-4", 8))
    [0, 2, 3, 4]
    """
    if not text:
        return set(range(parallelism))
    chosen: set[int] = set()
    for part in parse_names(text):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise bad_query("subtasks", part)
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        chosen.update(range(first, min(last, parallelism - 1) + 1))
    return chosen


_WATERMARK = "currentInputWatermark"
_VERTEX = "/jobs/{job_id}/vertices/{vertex_id}"


def metric_routes(view: ClusterView) -> APIRouter:
    """These routes stand before those with an id in the same place (`/jobs/metrics`, `/jobs/{jobid}`)."""
    router = APIRouter(route_class=RestRoute)
    _add_jobs(router, view)
    _add_vertices(router, view)
    return router


def _add_jobs(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/metrics")
    def all_jobs(
        get: str | None = None, agg: str | None = None, jobs: str | None = None
    ) -> list[AggregatedMetric]:
        chosen = [checked_id("jobs", id) for id in parse_names(jobs)]
        if chosen:
            figures = [_job_figures(view, view.job(id)) for id in chosen]
        else:
            figures = list(_live_figures(view))
        return aggregate_metrics(figures, get, agg)

    @router.get("/jobs/{job_id}/metrics")
    def one_job(job_id: str, get: str | None = None) -> list[Metric]:
        job = view.job(job_id)
        return list_metrics(_job_figures(view, job) | job_latencies(job), get)


def _live_figures(view: ClusterView) -> Iterator[Metrics]:
    for job in view.live_jobs():
        # One that has ended since then may be forgotten.
        with contextlib.suppress(SqlStreamError):
            yield _job_figures(view, job)


def _job_figures(view: ClusterView, job: JobDetails) -> Metrics:
    return job_metrics(view.cluster.metrics(job.job_id).total, job, view.now_ms())


def _add_vertices(router: APIRouter, view: ClusterView) -> None:
    @router.get(_VERTEX + "/metrics")
    def vertex(job_id: str, vertex_id: str, get: str | None = None) -> list[Metric]:
        return list_metrics(vertex_metrics(*view.planned_vertex(job_id, vertex_id)), get)

    @router.get(_VERTEX + "/jm-operator-metrics")
    def operator_coordinators(job_id: str, vertex_id: str) -> list[Metric]:
        # No operator has a part in the JobManager.
        view.vertex(job_id, vertex_id)
        return []

    @router.get(_VERTEX + "/watermarks")
    def watermarks(job_id: str, vertex_id: str) -> list[Metric]:
        found, planned = view.planned_vertex(job_id, vertex_id)
        figures = [(s.subtask, subtask_metrics(s, planned)) for s in found.subtasks]
        return [
            {"id": f"{index}.{_WATERMARK}", "value": metric_text(metrics[_WATERMARK])}
            for index, metrics in figures
            if _WATERMARK in metrics
        ]

    @router.get(_VERTEX + "/subtasks/metrics")
    def subtasks(
        job_id: str,
        vertex_id: str,
        get: str | None = None,
        agg: str | None = None,
        subtasks: str | None = None,
    ) -> list[AggregatedMetric]:
        found, planned = view.planned_vertex(job_id, vertex_id)
        chosen = parse_subtasks(subtasks, len(found.subtasks))
        figures = [subtask_metrics(s, planned) for s in found.subtasks if s.subtask in chosen]
        return aggregate_metrics(figures, get, agg)

    @router.get(_VERTEX + "/subtasks/{index}/metrics")
    def subtask(job_id: str, vertex_id: str, index: str, get: str | None = None) -> list[Metric]:
        return list_metrics(subtask_metrics(*view.planned_subtask(job_id, vertex_id, index)), get)
