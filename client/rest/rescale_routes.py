"""Routes about the parallelism of a running job."""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from client.http_api.answers import json_answer
from client.http_api.errors import BAD_REQUEST, RestError
from client.http_api.request_body import read_value
from client.rest.cluster_view import ClusterView
from client.rest.ended_jobs import check_runs
from client.rest.parameters import bad_query, checked_id
from client.rest.route import RestRoute
from planner.translate.rescale import rescaled_job_graph
from sqlstream.errors import ErrorInfo, render_error
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.rescale import RescaleStatus

_BODY_BYTES_MAX = 1024 * 1024
_TRIGGER_ID = re.compile(r"[0-9a-f]{32}")


class ParallelismBounds(msgspec.Struct, rename="camel"):
    upper_bound: int
    lower_bound: int = 1


class VertexRequirements(msgspec.Struct):
    parallelism: ParallelismBounds


def rescale_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute)
    _add_rescaling(router, view)
    _add_requirements(router, view)
    return router


def _add_rescaling(router: APIRouter, view: ClusterView) -> None:
    @router.patch("/jobs/{job_id}/rescaling")
    def rescale(
        job_id: str, parallelism: str = "", given_id: Annotated[str, Query(alias="triggerId")] = ""
    ) -> Response:
        if not (parallelism.isascii() and parallelism.isdecimal() and 1 <= len(parallelism) <= 9):
            raise bad_query("parallelism", parallelism)
        trigger_id = given_id or secrets.token_hex(16)
        if _TRIGGER_ID.fullmatch(trigger_id) is None:
            raise bad_query("triggerId", given_id)
        id = checked_id("jobid", job_id)
        check_runs(view, id, "Rescaling")
        view.cluster.rescale(rescaled_job_graph(view.graph(id), int(parallelism)), trigger_id)
        return json_answer({"request-id": trigger_id}, 202)

    @router.get("/jobs/{job_id}/rescaling/{trigger_id}")
    def rescaling(job_id: str, trigger_id: str) -> Response:
        status = view.cluster.rescale_status(checked_id("jobid", job_id), checked_id("triggerid", trigger_id))
        return json_answer(_status(status))


def _add_requirements(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/resource-requirements")
    def resource_requirements(job_id: str) -> Response:
        wanted = {
            v.id: {"parallelism": {"lowerBound": v.parallelism, "upperBound": v.parallelism}}
            for v in view.graph(job_id).vertices
        }
        return json_answer(wanted)

    @router.put("/jobs/{job_id}/resource-requirements")
    async def update_resource_requirements(job_id: str, request: Request) -> Response:
        id = checked_id("jobid", job_id)
        asked = await read_value(request, dict[str, VertexRequirements], _BODY_BYTES_MAX, empty=b"{}")

        def update() -> None:
            check_runs(view, id, "Rescaling")
            rescaled = _fulfilling(asked, view.graph(id))
            view.cluster.rescale(rescaled, secrets.token_hex(16))

        await run_in_threadpool(update)
        return json_answer({})


def _fulfilling(asked: dict[str, VertexRequirements], job: JobGraph) -> JobGraph:
    """The job at the highest parallelism that is wanted. RestError 400 unless it is within the bounds of every vertex: a job has
    one parallelism, and those of its operators follow."""
    vertices = {vertex.id: vertex for vertex in job.vertices}
    if asked.keys() != vertices.keys():
        raise RestError(BAD_REQUEST, "The requirements must name every vertex of the job, and no other.")
    fixed = {v.id for v in job.vertices if _is_fixed(v.id, job)}
    open_bounds = [each.parallelism.upper_bound for id, each in asked.items() if id not in fixed]
    wanted = max(open_bounds, default=1)
    rescaled = rescaled_job_graph(job, wanted)
    found = {o.uid: v.parallelism for v in rescaled.vertices for o in v.operators}
    for id, each in asked.items():
        bounds, parallelism = each.parallelism, found[vertices[id].operators[0].uid]
        if not bounds.lower_bound <= parallelism <= bounds.upper_bound:
            raise RestError(
                BAD_REQUEST,
                f"Vertex {id} would have the parallelism {parallelism}, which is not from {bounds.lower_bound} to "
                f"{bounds.upper_bound}: all vertices have that of the job, but those with one of their own.",
            )
    return rescaled


def _is_fixed(vertex_id: str, job: JobGraph) -> bool:
    """Whether the head of the vertex has a parallelism of its own."""
    head = job.vertex(vertex_id).operators[0].id
    nodes = job.scaling.nodes if job.scaling is not None else ()
    return any(node.operator == head and node.parallelism for node in nodes)


def _status(status: RescaleStatus) -> dict[str, Any]:
    """As of a savepoint; what is in progress says which step it is at."""
    said = {"id": "COMPLETED" if status.is_done else "IN_PROGRESS", "step": status.step.value}
    if not status.is_done:
        return {"status": said, "operation": None}
    if status.error is not None:
        return {"status": said, "operation": {"failure-cause": _cause(status.error)}}
    return {"status": said, "operation": {"parallelism": status.parallelism, "earlier": status.earlier}}


def _cause(error: ErrorInfo) -> dict[str, str]:
    return {"class": error.code, "stack-trace": render_error(error)}
