"""Routes about the vertices of a job and their subtasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.flame_graph import FlameGraphs, ThreadKind
from sqlstream.client.rest.parameters import bad_query, checked_id, checked_number
from sqlstream.client.rest.route import RestRoute
from sqlstream.client.rest.vertex_view import (
    back_pressure,
    endpoint_of,
    subtask_details,
    subtask_timestamps,
    vertex_details,
    vertex_task_managers,
)
from sqlstream.messages.rpc import SubtaskDetails


def vertex_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute, prefix="/jobs/{job_id}/vertices/{vertex_id}")
    _add_details(router, view)
    _add_accumulators(router, view)
    _add_subtasks(router, view)
    return router


def _add_details(router: APIRouter, view: ClusterView) -> None:
    @router.get("")
    def vertex(job_id: str, vertex_id: str) -> Response:
        found = view.vertex(job_id, vertex_id)
        return json_answer(vertex_details(found, view.planned(job_id, vertex_id), view.now_ms()))

    @router.get("/subtasktimes")
    def subtask_times(job_id: str, vertex_id: str) -> Response:
        return json_answer(subtask_timestamps(view.vertex(job_id, vertex_id), view.now_ms()))

    @router.get("/taskmanagers")
    def task_managers(job_id: str, vertex_id: str) -> Response:
        return json_answer(vertex_task_managers(view.vertex(job_id, vertex_id), view.now_ms()))

    @router.get("/backpressure")
    def backpressure(job_id: str, vertex_id: str) -> Response:
        return json_answer(back_pressure(view.vertex(job_id, vertex_id), view.now_ms()))

    graphs = FlameGraphs(view)

    @router.get("/flamegraph")
    def flame_graph(
        job_id: str,
        vertex_id: str,
        kind: Annotated[str, Query(alias="type")] = ThreadKind.FULL.value,
        index: Annotated[str | None, Query(alias="subtaskindex")] = None,
    ) -> Response:
        found = view.vertex(job_id, vertex_id)
        if kind.lower() not in [each.value for each in ThreadKind]:
            raise bad_query("type", kind)
        subtask = None if index is None else view.subtask(job_id, vertex_id, index).subtask
        return json_answer(
            graphs.graph(checked_id("jobid", job_id), found, ThreadKind(kind.lower()), subtask)
        )


def _add_subtasks(router: APIRouter, view: ClusterView) -> None:
    @router.get("/subtasks/{index}")
    def subtask(job_id: str, vertex_id: str, index: str) -> Response:
        return json_answer(subtask_details(view.subtask(job_id, vertex_id, index), view.now_ms()))

    @router.get("/subtasks/{index}/attempts/{attempt}")
    def attempt(job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        found = _attempt(view, job_id, vertex_id, index, attempt)
        return json_answer(subtask_details(found, view.now_ms()))

    @router.get("/subtasks/{index}/attempts/{attempt}/accumulators")
    def attempt_accumulators(job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        found = _attempt(view, job_id, vertex_id, index, attempt)
        return json_answer(
            {
                "subtask": found.subtask,
                "attempt": found.attempt,
                "id": found.execution_id,
                "user-accumulators": [],
            }
        )


def _attempt(view: ClusterView, job_id: str, vertex_id: str, index: str, attempt: str) -> SubtaskDetails:
    found = view.subtask(job_id, vertex_id, index)
    if checked_number("attempt", attempt) != found.attempt:
        raise RestError(404, f"Attempt {attempt} of subtask {index} is not known")
    return found


def _add_accumulators(router: APIRouter, view: ClusterView) -> None:
    @router.get("/accumulators")
    def accumulators(job_id: str, vertex_id: str) -> Response:
        return json_answer({"id": view.vertex(job_id, vertex_id).id, "user-accumulators": []})

    @router.get("/subtasks/accumulators")
    def subtask_accumulators(job_id: str, vertex_id: str) -> Response:
        found = view.vertex(job_id, vertex_id)
        subtasks = [
            {
                "subtask": s.subtask,
                "attempt": s.attempt,
                "endpoint": endpoint_of(s),
                "user-accumulators": [],
            }
            for s in found.subtasks
        ]
        return json_answer({"id": found.id, "parallelism": found.parallelism, "subtasks": subtasks})
