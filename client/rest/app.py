"""The JobManager's REST: Flink's monitoring API and the Prometheus endpoint, as routes of one application."""

from __future__ import annotations

import platform
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from fastapi.routing import APIRoute

from sqlstream.client.http_api.answers import error_answer
from sqlstream.client.http_api.routes import add_routes, at_other_path
from sqlstream.client.rest.checkpoint_routes import checkpoint_routes
from sqlstream.client.rest.cluster import cluster_routes, job_manager_figures, log_routes
from sqlstream.client.rest.cluster_view import ClusterView, ServerInfo, rest_id
from sqlstream.client.rest.jobs import application_routes, job_routes, totals_routes
from sqlstream.client.rest.metrics import job_metrics, metric_routes
from sqlstream.client.rest.rescale_routes import rescale_routes
from sqlstream.client.rest.route import RestRoute, error_responses
from sqlstream.client.rest.task_managers import task_manager_routes
from sqlstream.client.rest.vertices import vertex_routes
from sqlstream.errors import SqlStreamError
from sqlstream.messages.rpc import COUNTER, JobDetails, Metrics, SubtaskDetails, VertexDetails

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ServedCluster


__all__ = ["ServerInfo", "rest_routes"]


def rest_routes(cluster: ServedCluster, info: ServerInfo, shut_down: Callable[[], None]) -> APIRouter:
    """All paths of the REST, with and without `/v1`, and `/metrics`. `shut_down` is called for `DELETE /cluster`, and must not
    wait.

    Routes wait for the JobManager on the application's pool of worker threads, whose size is the application's to bound,
    and never on its event loop.
    """
    view = ClusterView(cluster, info)
    rest: list[APIRoute] = []
    for routes in (
        cluster_routes(view, shut_down),
        log_routes(info),
        metric_routes(view),
        task_manager_routes(view),
        application_routes(view),
        vertex_routes(view),
        totals_routes(view),
        checkpoint_routes(view),
        rescale_routes(view),
        job_routes(view),
        refused_routes(),
    ):
        rest += [route for route in routes.routes if isinstance(route, APIRoute)]
    router = APIRouter()
    for route in rest:
        route.tags = ["rest", *route.tags]
    add_routes(router, rest)
    add_routes(router, [at_other_path(route, f"/v1{route.path}") for route in rest])
    add_routes(router, prometheus_routes(view).routes)
    return router


_RESCALES = "No history of rescales is kept: ask for each by its trigger, /jobs/ID/rescaling/TRIGGER."
_JARS = "Jobs are SQL statements: there are no JAR files to upload or run."
_JOB_GRAPHS = "Jobs are submitted as SQL statements to the SQL gateway."
_PROFILER = "No profiles are kept: /jobs/ID/vertices/VERTEX/flamegraph has sampled stacks, and thread-dump the present ones."

REFUSED: tuple[tuple[str, str, str], ...] = (
    ("GET", "/jobs/{job_id}/rescales/{part:path}", _RESCALES),
    ("GET", "/jars", _JARS),
    ("POST", "/jars/upload", _JARS),
    ("DELETE", "/jars/{jar_id}", _JARS),
    ("GET", "/jars/{jar_id}/plan", _JARS),
    ("POST", "/jars/{jar_id}/plan", _JARS),
    ("POST", "/jars/{jar_id}/run", _JARS),
    ("POST", "/jars/{jar_id}/run-application", _JARS),
    ("POST", "/jobs", _JOB_GRAPHS),
    ("PATCH", "/jobs/{job_id}/clientHeartbeat", _JOB_GRAPHS),
    ("POST", "/jobs/{job_id}/coordinators/{operator_uid}", _JOB_GRAPHS),
    ("DELETE", "/datasets/{dataset_id}", "There are no cached data sets."),
    ("GET", "/datasets/delete/{trigger_id}", "There are no cached data sets."),
    ("GET", "/jobs/{job_id}/yarn-stop", "A job is stopped with a savepoint: POST /jobs/ID/stop."),
    *(
        (method, f"/{process}/profiler{part}", _PROFILER)
        for process in ("jobmanager", "taskmanagers/{task_manager_id}")
        for method, part in (("GET", ""), ("POST", ""), ("GET", "/{file_name}"))
    ),
    ("GET", "/jobs/{job_id}/jobmanager/log-url", "Logs have no address of their own: see /jobmanager/logs."),
    (
        *("GET", "/jobs/{job_id}/taskmanagers/{task_manager_id}/log-url"),
        "Logs have no address of their own: see /jobmanager/logs.",
    ),
)
"""Method, path and reason."""


def refused_routes() -> APIRouter:
    """To be added last: some of these paths are also matched by routes that answer."""
    router = APIRouter()
    for method, path, reason in REFUSED:
        router.add_api_route(
            path,
            _refuse(reason),
            methods=[method],
            status_code=501,
            response_class=Response,
            responses={501: {**error_responses()[501], "description": reason}},
        )
    return router


def _refuse(reason: str) -> Callable[[], Awaitable[Response]]:
    async def refuse() -> Response:
        return error_answer(501, reason)

    return refuse


# `GET /metrics`: the cluster's metrics as text for Prometheus, named as Flink's PrometheusReporter names them.


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_INVALID = re.compile(r"[^a-zA-Z0-9:_]")
"""What Flink replaces in names and, by default, in label values."""

_PRESENT = frozenset({"numRegisteredTaskManagers", "numRunningJobs", "numberOfInProgressCheckpoints"})
"""Figures of the present that are named as counters are."""

Labels = dict[str, str]


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
            if (of_split := _OF_SPLIT.fullmatch(metric)) is not None:
                own = _label_text(labels | {"split": of_split[1]})
                self._add(f"{scope}_split", of_split[2], own, value)
            else:
                self._add(scope, metric, text, value)

    def _add(self, scope: str, metric: str, labels: str, value: float) -> None:
        name = f"flink_{scope}_{filtered(metric)}"
        self._help.setdefault(name, f"{metric} (scope: {scope})")
        self._types.setdefault(name, "counter" if is_counter(metric) else "gauge")
        self._samples.setdefault(name, []).append(f"{name}{{{labels},}} {float(value)}")

    def text(self) -> str:
        lines: list[str] = []
        for name, samples in self._samples.items():
            lines += (f"# HELP {name} {self._help[name]}", f"# TYPE {name} {self._types[name]}", *samples)
        return "\n".join(lines) + "\n"


_OF_SPLIT = re.compile(r"split\.(.+)\.(watermark\.currentWatermark|pendingRecords|isIdle)")
"""A figure of one split of a source, which is a label."""


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
    """All metrics. Asks the JobManager for its lists, and once or twice per live job."""
    families = MetricFamilies()
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
        families.add("jobmanager_job", labels, job_metrics(view, job))
        _add_tasks(families, job, host, _operator_names(view, job.job_id))
    return families.text()


def _operator_names(view: ClusterView, job_id: str) -> dict[int, str]:
    try:
        graph = view.cluster.job_graph(job_id)
    except SqlStreamError:
        # The job has ended since the list was made.
        return {}
    return {operator.id: operator.name for vertex in graph.vertices for operator in vertex.operators}


def _add_tasks(families: MetricFamilies, job: JobDetails, host: str, operators: dict[int, str]) -> None:
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
            families.add("taskmanager_job_task_operator", labels | own, figures)


def _reporting(job: JobDetails) -> Iterable[tuple[VertexDetails, SubtaskDetails]]:
    return ((v, s) for v in job.vertices for s in v.subtasks if s.metrics is not None)
