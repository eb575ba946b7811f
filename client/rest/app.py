"""The JobManager's REST: Flink's monitoring API and the Prometheus endpoint, as routes of one application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Response
from fastapi.routing import APIRoute

from sqlstream.client.http_api.answers import error_answer
from sqlstream.client.http_api.routes import add_routes, at_other_path
from sqlstream.client.rest.artifact_routes import artifact_routes
from sqlstream.client.rest.checkpoint_routes import checkpoint_routes
from sqlstream.client.rest.cluster import cluster_routes, log_level_routes, log_routes
from sqlstream.client.rest.cluster_view import ClusterView, ServerInfo
from sqlstream.client.rest.jobs import application_routes, job_routes, totals_routes
from sqlstream.client.rest.metrics import metric_routes
from sqlstream.client.rest.prometheus import prometheus_routes
from sqlstream.client.rest.rescale_routes import rescale_routes
from sqlstream.client.rest.route import error_responses
from sqlstream.client.rest.task_managers import task_manager_routes
from sqlstream.client.rest.vertices import vertex_routes

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
        log_level_routes(view),
        metric_routes(view),
        task_manager_routes(view),
        application_routes(view),
        vertex_routes(view),
        totals_routes(view),
        checkpoint_routes(view),
        rescale_routes(view),
        job_routes(view),
        artifact_routes(view),
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
