"""Routes about TaskManagers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import json_answer, text_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_routes import thread_infos
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.metric_view import aggregate_metrics, list_metrics, parse_names
from sqlstream.client.rest.route import RestRoute
from sqlstream.client.rest.task_manager_view import resource_id, task_manager_details, task_manager_summary
from sqlstream.messages.rpc import Metrics, TaskManagerOverview
from sqlstream.messages.stacks import RequestStacks

LOG_NAME = "taskmanager.log"


def task_manager_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute, prefix="/taskmanagers")

    @router.get("")
    def task_managers() -> Response:
        assigned, network_bytes = view.assignments(), view.network_bytes()
        found = [
            task_manager_summary(t, assigned.get(t.task_manager_id, []), network_bytes)
            for t in view.cluster.task_managers()
        ]
        return json_answer({"taskmanagers": found})

    @router.get("/metrics")
    def all_metrics(
        get: str | None = None, agg: str | None = None, taskmanagers: str | None = None
    ) -> Response:
        chosen = parse_names(taskmanagers)
        found = [view.task_manager(id) for id in chosen] if chosen else view.cluster.task_managers()
        return json_answer(aggregate_metrics([_metrics(view, t) for t in found], get, agg))

    @router.get("/{task_manager_id}")
    def task_manager(task_manager_id: str) -> Response:
        found = view.task_manager(task_manager_id)
        assigned = view.assignments().get(found.task_manager_id, [])
        return json_answer(
            task_manager_details(found, assigned, view.network_bytes(), view.process_of(found))
        )

    @router.get("/{task_manager_id}/metrics")
    def metrics(task_manager_id: str, get: str | None = None) -> Response:
        return json_answer(list_metrics(_metrics(view, view.task_manager(task_manager_id)), get))

    _add_logs(router, view)
    return router


def _add_logs(router: APIRouter, view: ClusterView) -> None:
    """A TaskManager writes into the JobManager's log: its records are shown as a file of its own."""

    def log_of(task_manager_id: str) -> str:
        return view.info.task_manager_log(resource_id(view.task_manager(task_manager_id).task_manager_id))

    @router.get("/{task_manager_id}/logs")
    def logs(task_manager_id: str) -> Response:
        size = len(log_of(task_manager_id).encode())
        return json_answer({"logs": [{"name": LOG_NAME, "size": size, "mtime": view.now_ms()}]})

    @router.get("/{task_manager_id}/log")
    def log(task_manager_id: str) -> Response:
        return text_answer(log_of(task_manager_id))

    @router.get("/{task_manager_id}/logs/{name}")
    def log_by_name(task_manager_id: str, name: str) -> Response:
        found = log_of(task_manager_id)
        if name != LOG_NAME:
            raise RestError(404, f"The file {name[:100]} does not exist.")
        return text_answer(found)

    @router.get("/{task_manager_id}/stdout")
    def stdout(task_manager_id: str) -> Response:
        view.task_manager(task_manager_id)
        raise RestError(
            404,
            "A TaskManager has no file for its standard output: see /jobmanager/stdout for rows of print tables.",
        )

    @router.get("/{task_manager_id}/thread-dump")
    def thread_dump(task_manager_id: str) -> Response:
        found = view.task_manager(task_manager_id)
        return json_answer(thread_infos(view.cluster.stacks(found.address, RequestStacks()).threads))


def _metrics(view: ClusterView, found: TaskManagerOverview) -> Metrics:
    process = view.process_of(found)
    return process.as_metrics() if process is not None else {}
