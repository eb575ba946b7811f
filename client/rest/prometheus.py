"""`GET /metrics`: the cluster's metrics as text for Prometheus, named as Flink's PrometheusReporter names them."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from fastapi import APIRouter, Response

from sqlstream.client.rest.cluster import job_manager_figures
from sqlstream.client.rest.cluster_view import ClusterView, rest_id
from sqlstream.client.rest.metrics import job_metrics, split_latencies
from sqlstream.client.rest.route import RestRoute
from sqlstream.errors import SqlStreamError
from sqlstream.messages.histogram import split_histograms
from sqlstream.messages.rpc import COUNTER, JobDetails, Metrics, SubtaskDetails, VertexDetails

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_INVALID = re.compile(r"[^a-zA-Z0-9:_]")
"""What Flink replaces in names and, by default, in label values."""

_PRESENT = frozenset({"numRegisteredTaskManagers", "numRunningJobs", "numberOfInProgressCheckpoints"})
"""Figures of the present that are named as counters are."""

Labels = dict[str, str]


class Families(Protocol):
    """Takes the figures of one holder after the other, each with its labels. `scope` is Flink's, with _ between its parts."""

    def add(self, scope: str, labels: Labels, metrics: Metrics) -> None: ...

    def add_histogram(self, scope: str, labels: Labels, name: str, parts: Metrics) -> None: ...

    def add_summary(self, scope: str, labels: Labels, name: str, statistics: Mapping[str, float]) -> None: ...


class MetricFamilies:
    """Collects samples and writes them by family. State: the samples so far."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}
        self._help: dict[str, str] = {}
        self._types: dict[str, str] = {}

    def add(self, scope: str, labels: Labels, metrics: Metrics) -> None:
        """The figures of one holder, all with its labels. Counters keep Flink's names, without `_total`, for the dashboards that
        look for them."""
        text = _label_text(labels)
        for metric, value in metrics.items():
            name = f"flink_{scope}_{filtered(metric)}"
            kind = "counter" if is_counter(metric) else "gauge"
            self._set(name, kind, f"{metric} (scope: {scope})", (f"{name}{{{text},}} {float(value)}",))

    def add_histogram(self, scope: str, labels: Labels, name: str, parts: Metrics) -> None:
        """Durations by size, in milliseconds as Flink's are: how many are at most so long."""
        family, text = f"flink_{scope}_{name}", _label_text(labels)
        bounds = sorted(int(part.removeprefix("le.")) for part in parts if part.startswith("le."))
        samples = [f'{family}_bucket{{{text},le="{bound}",}} {parts[f"le.{bound}"]}' for bound in bounds]
        samples.append(f'{family}_bucket{{{text},le="+Inf",}} {parts["count"]}')
        samples += (f"{family}_sum{{{text},}} {parts['sum']}", f"{family}_count{{{text},}} {parts['count']}")
        self._set(family, "histogram", f"{name} (scope: {scope})", samples)

    def add_summary(self, scope: str, labels: Labels, name: str, statistics: Mapping[str, float]) -> None:
        """Flink's statistics of a histogram of its own."""
        family, text = f"flink_{scope}_{name}", _label_text(labels)
        samples = [
            f'{family}{{{text},quantile="{quantile}",}} {float(statistics[stat])}'
            for stat, quantile in _QUANTILES
        ]
        samples.append(f"{family}_count{{{text},}} {float(statistics['count'])}")
        self._set(family, "summary", f"{name} (scope: {scope})", samples)

    def _set(self, family: str, kind: str, help: str, samples: Iterable[str]) -> None:
        self._help.setdefault(family, help)
        self._types.setdefault(family, kind)
        self._samples.setdefault(family, []).extend(samples)

    def text(self) -> str:
        lines: list[str] = []
        for name, samples in self._samples.items():
            lines += (f"# HELP {name} {self._help[name]}", f"# TYPE {name} {self._types[name]}", *samples)
        return "\n".join(lines) + "\n"


_OF_SPLIT = re.compile(r"split\.(.+)\.(watermark\.currentWatermark|pendingRecords|isIdle)")
"""A figure of one split of a source, which is a label."""


_QUANTILES = (
    *(("median", "0.5"), ("p75", "0.75"), ("p95", "0.95")),
    *(("p98", "0.98"), ("p99", "0.99"), ("p999", "0.999")),
)


def _label_text(labels: Labels) -> str:
    return ",".join(f'{name}="{filtered(value)}"' for name, value in labels.items())


def is_counter(metric: str) -> bool:
    """Whether a figure only grows while its task or job lives.

    >>> is_counter("numRecordsIn"), is_counter("numRecordsInPerSecond"), is_counter("numRunningJobs")
    (True, False, False)
    """
    is_counted = metric.startswith((COUNTER, "accumulate")) or metric == "Status.JVM.CPU.Time"
    return is_counted and metric not in _PRESENT and not metric.endswith("PerSecond")


def filtered(text: str) -> str:
    """
    >>> filtered("Source: bids[1]")
    'Source:_bids_1_'
    """
    return _INVALID.sub("_", text)


def prometheus_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute)

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(scrape(view), media_type=CONTENT_TYPE)

    return router


def scrape(view: ClusterView) -> str:
    """All metrics as text."""
    families = MetricFamilies()
    collect(view, families)
    return families.text()


def collect(view: ClusterView, families: Families) -> None:
    """All metrics. Asks the JobManager for its lists, and once or twice per live job."""
    host = platform.node()
    families.add("jobmanager", {"host": host}, job_manager_figures(view))
    for found in view.cluster.task_managers():
        process = view.process_of(found)
        if process is not None:
            families.add(
                "taskmanager", {"host": host, "tm_id": rest_id(found.task_manager_id)}, process.as_metrics()
            )
    for job in view.live_jobs():
        labels = {"host": host, "job_id": job.job_id, "job_name": job.name}
        try:
            total, graph = view.cluster.metrics(job.job_id).total, view.cluster.job_graph(job.job_id)
        except SqlStreamError:
            # It has ended and been forgotten since the list was made.
            continue
        # Of the latency from end to end there is a histogram.
        figures = job_metrics(total, job, view.now_ms())
        plain = {name: value for name, value in figures.items() if not name.startswith("endToEndLatency_")}
        families.add("jobmanager_job", labels, plain)
        for name, parts in split_histograms(total)[1].items():
            families.add_histogram("jobmanager_job", labels, name, parts)
        names = {operator.id: operator.name for vertex in graph.vertices for operator in vertex.operators}
        _add_tasks(families, job, host, names)


def _add_tasks(families: Families, job: JobDetails, host: str, operators: dict[int, str]) -> None:
    for vertex, subtask in _reporting(job):
        assert subtask.metrics is not None
        labels = {
            "job_id": job.job_id,
            "job_name": job.name,
            "task_id": vertex.id,
            "task_name": vertex.name,
            "task_attempt_id": subtask.execution_id,
            "task_attempt_num": str(subtask.attempt),
            "subtask_index": str(subtask.subtask),
            "host": host,
            "tm_id": rest_id(subtask.task_manager_id),
        }
        families.add("taskmanager_job_task", labels, subtask.metrics.task)
        for id, figures in subtask.metrics.operators.items():
            own = {"operator_id": str(id), "operator_name": operators.get(id, str(id))}
            plain, latencies = split_latencies(figures)
            rest, splits = _by_split(plain)
            families.add("taskmanager_job_task_operator", labels | own, rest)
            for split, of_split in splits.items():
                families.add(
                    "taskmanager_job_task_operator_split", {**labels, **own, "split": split}, of_split
                )
            for source, statistics in latencies:
                _add_latency(families, labels, source, id, statistics)


def _by_split(figures: Metrics) -> tuple[Metrics, dict[str, Metrics]]:
    """The figures of an operator, and those of each split that it reads."""
    rest: Metrics = {}
    splits: dict[str, Metrics] = {}
    for name, value in figures.items():
        if (of_split := _OF_SPLIT.fullmatch(name)) is not None:
            splits.setdefault(of_split[1], {})[of_split[2]] = value
        else:
            rest[name] = value
    return rest, splits


def _add_latency(
    families: Families,
    of_task: Labels,
    source: Mapping[str, str],
    operator: int,
    stats: Mapping[str, float],
) -> None:
    """Flink has latencies with the job, and what they are between in the name as well as in labels."""
    groups = {**source, "operator_id": str(operator), "operator_subtask_index": of_task["subtask_index"]}
    labels = {name: of_task[name] for name in ("job_id", "job_name", "host", "tm_id")} | groups
    families.add_summary("taskmanager_job", labels, f"latency_{'_'.join(groups)}_latency", stats)


def _reporting(job: JobDetails) -> Iterable[tuple[VertexDetails, SubtaskDetails]]:
    return ((v, s) for v in job.vertices for s in v.subtasks if s.metrics is not None)
