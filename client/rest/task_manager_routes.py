"""Routes about TaskManagers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from client.http_api.answers import json_answer
from client.rest.cluster_view import ClusterView
from client.rest.metric_view import aggregate_metrics, list_metrics, parse_names
from client.rest.route import RestRoute
from client.rest.task_manager_view import task_manager_details, task_manager_summary
from sqlstream.messages.rpc import Metrics, TaskManagerOverview


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

    @router.get("/{task_manager_id}/logs")
    def logs(task_manager_id: str) -> Response:
        # A TaskManager writes into the JobManager's log.
        view.task_manager(task_manager_id)
        return json_answer({"logs": []})

    return router


def _metrics(view: ClusterView, found: TaskManagerOverview) -> Metrics:
    process = view.process_of(found)
    return process.as_metrics() if process is not None else {}
