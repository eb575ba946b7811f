"""Routes about the parallelism of a running job."""

from __future__ import annotations

import re
import secrets
from typing import Annotated, NotRequired, TypedDict

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from sqlstream.bounds import Count
from sqlstream.client.http_api.answers import read_value
from sqlstream.client.http_api.errors import BAD_REQUEST, RestError
from sqlstream.client.rest import route
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.errors import ErrorInfo, render_error
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.messages.rescale import RescaleStatus

_BODY_BYTES_MAX = 1024 * 1024
_TRIGGER_ID = re.compile(r"[0-9a-f]{32}")


class Bounds(TypedDict):
    lowerBound: int
    upperBound: int


class VertexParallelism(TypedDict):
    parallelism: Bounds


class RescaleStepId(TypedDict):
    id: str
    step: str


RescaleOperation = TypedDict(
    "RescaleOperation",
    {
        "parallelism": NotRequired[int],
        "earlier": NotRequired[int],
        "failure-cause": NotRequired[route.FailureCause],
    },
)


class RescaleTriggerStatus(TypedDict):
    status: RescaleStepId
    operation: RescaleOperation | None


class LoadOfVertex(TypedDict):
    name: str
    parallelism: int
    busyRatio: float
    backpressuredRatio: float


class Decision(TypedDict):
    timestamp: int
    parallelism: int
    wanted: int
    applied: bool
    reason: str


class Autoscaler(TypedDict):
    enabled: bool
    parallelism: NotRequired[int]
    recordsPerSecond: NotRequired[float]
    pendingRecords: NotRequired[float]
    vertices: list[LoadOfVertex]
    decisions: list[Decision]


class Chosen(TypedDict):
    key: str
    value: str
    reason: str


class BatchSize(TypedDict):
    timestamp: int
    before: int
    rows: int
    p99: int
    mode: str
    reason: str


Latency = TypedDict(
    "Latency",
    {
        "enabled": bool,
        "target": NotRequired[int],
        "p99": NotRequired[int],
        "batch-rows": NotRequired[int],
        "tuned": NotRequired[bool],
        "mode": NotRequired[str],
        "reason": NotRequired[str],
        "chosen": list[Chosen],
        "decisions": list[BatchSize],
    },
)


class ParallelismBounds(msgspec.Struct, rename="camel"):
    upper_bound: Count
    lower_bound: Count = 1


class VertexRequirements(msgspec.Struct):
    parallelism: ParallelismBounds


def rescale_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=route.RestRoute)
    _add_rescaling(router, view)
    _add_requirements(router, view)
    _add_autoscaler(router, view)
    _add_latency(router, view)
    return router


def _add_rescaling(router: APIRouter, view: ClusterView) -> None:
    @router.patch("/jobs/{job_id}/rescaling", status_code=202)
    def rescale(
        job_id: str, parallelism: str = "", given_id: Annotated[str, Query(alias="triggerId")] = ""
    ) -> route.Trigger:
        if not (parallelism.isascii() and parallelism.isdecimal() and 1 <= len(parallelism) <= 9):
            raise route.bad_query("parallelism", parallelism)
        trigger_id = given_id or secrets.token_hex(16)
        if _TRIGGER_ID.fullmatch(trigger_id) is None:
            raise route.bad_query("triggerId", given_id)
        id = route.checked_id("jobid", job_id)
        view.check_runs(id, "Rescaling")
        view.cluster.rescale(rescaled_job_graph(view.graph(id), int(parallelism)), trigger_id)
        return {"request-id": trigger_id}

    @router.get("/jobs/{job_id}/rescaling/{trigger_id}")
    def rescaling(job_id: str, trigger_id: str) -> RescaleTriggerStatus:
        status = view.cluster.rescale_status(
            route.checked_id("jobid", job_id), route.checked_id("triggerid", trigger_id)
        )
        return _status(status)


def _add_requirements(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/resource-requirements")
    def resource_requirements(job_id: str) -> dict[str, VertexParallelism]:
        return {
            v.id: {"parallelism": {"lowerBound": 1, "upperBound": v.parallelism}}
            for v in view.graph(job_id).vertices
        }

    @router.put(
        "/jobs/{job_id}/resource-requirements", openapi_extra=route.reads(dict[str, VertexParallelism])
    )
    async def update_resource_requirements(job_id: str, request: Request) -> route.Nothing:
        id = route.checked_id("jobid", job_id)
        asked = await read_value(request, dict[str, VertexRequirements], _BODY_BYTES_MAX, empty=b"{}")

        def update() -> None:
            view.check_runs(id, "Rescaling")
            rescaled = _fulfilling(asked, view.graph(id))
            view.cluster.rescale(rescaled, secrets.token_hex(16))

        await run_in_threadpool(update)
        return {}


def _add_autoscaler(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/autoscaler")
    def autoscaler(job_id: str) -> Autoscaler:
        status = view.job(job_id).autoscaler
        if status is None:
            return {"enabled": False, "vertices": [], "decisions": []}
        found: Autoscaler = {
            "enabled": True,
            "parallelism": status.parallelism,
            "recordsPerSecond": status.rate,
            "vertices": [
                {
                    "name": v.name,
                    "parallelism": v.parallelism,
                    "busyRatio": v.busy,
                    "backpressuredRatio": v.pressed,
                }
                for v in status.vertices
            ],
            "decisions": [
                {
                    "timestamp": d.at_ms,
                    "parallelism": d.parallelism,
                    "wanted": d.wanted,
                    "applied": d.is_applied,
                    "reason": d.reason,
                }
                for d in status.decisions
            ],
        }
        if status.pending is not None:
            found["pendingRecords"] = status.pending
        return found


def _add_latency(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/latency")
    def latency(job_id: str) -> Latency:
        """What follows from `latency.target`: settings with the reason for each, and the sizes of batches; times are in ms."""
        details, graph = view.described(job_id)
        status = details.latency
        if status is None:
            return {"enabled": False, "chosen": [], "decisions": []}
        found: Latency = {
            "enabled": True,
            "target": status.target_ms,
            "batch-rows": status.batch_rows,
            "tuned": status.is_tuned,
            "mode": status.mode.value,
            "reason": status.reason,
            "chosen": [
                {"key": key, "value": graph.config[key], "reason": why} for key, why in graph.chosen.items()
            ],
            "decisions": [
                {
                    "timestamp": d.at_ms,
                    "before": d.before,
                    "rows": d.rows,
                    "p99": d.p99_ms,
                    "mode": d.mode.value,
                    "reason": d.reason,
                }
                for d in status.decisions
            ],
        }
        if status.p99_ms is not None:
            found["p99"] = status.p99_ms
        return found


def _fulfilling(asked: dict[str, VertexRequirements], job: JobGraph) -> JobGraph:
    """The job at the parallelism that is asked for. A job has one parallelism, which those of its operators follow. A vertex asks
    for another one by an upper bound that differs from its present parallelism; Flink's dashboard changes that of one vertex.
    The highest wish that raises a vertex counts, else the lowest of all. RestError 400 where a vertex would come to less than its
    lower bound, or to more than an upper bound that was asked for."""
    vertices = {vertex.id: vertex for vertex in job.vertices}
    if asked.keys() != vertices.keys():
        raise RestError(BAD_REQUEST, "The requirements must name every vertex of the job, and no other.")
    wishes = {
        id: each.parallelism.upper_bound
        for id, each in asked.items()
        if each.parallelism.upper_bound != vertices[id].parallelism
    }
    _check_open(wishes, job)
    raised = [wish for id, wish in wishes.items() if wish > vertices[id].parallelism]
    present = max((v.parallelism for id, v in vertices.items() if not _is_fixed(id, job)), default=1)
    wanted = max(raised) if raised else min(wishes.values(), default=present)
    rescaled = rescaled_job_graph(job, wanted)
    found = {o.uid: v.parallelism for v in rescaled.vertices for o in v.operators}
    for id, each in asked.items():
        lower, upper = each.parallelism.lower_bound, wishes.get(id, wanted)
        parallelism = found[vertices[id].operators[0].uid]
        if parallelism < lower or (parallelism > upper and not _is_fixed(id, job)):
            raise RestError(
                BAD_REQUEST,
                f"Vertex {id} would have the parallelism {parallelism}, which is not from {lower} to {upper}: all vertices "
                "have that of the job, but those with one of their own.",
            )
    return rescaled


def _check_open(wishes: dict[str, int], job: JobGraph) -> None:
    """RestError 400 for a vertex of a fixed parallelism that is to have another one."""
    for id, wish in wishes.items():
        if wish < 1 or _is_fixed(id, job):
            parallelism = job.vertex(id).parallelism
            raise RestError(
                BAD_REQUEST,
                f"Vertex {id} has the parallelism {parallelism} of its own: it cannot have {wish}.",
            )


def _is_fixed(vertex_id: str, job: JobGraph) -> bool:
    """Whether the head of the vertex has a parallelism of its own."""
    head = job.vertex(vertex_id).operators[0].id
    nodes = job.scaling.nodes if job.scaling is not None else ()
    return any(node.operator == head and node.parallelism for node in nodes)


def _status(status: RescaleStatus) -> RescaleTriggerStatus:
    """As of a savepoint; what is in progress says which step it is at."""
    said: RescaleStepId = {"id": "COMPLETED" if status.is_done else "IN_PROGRESS", "step": status.step.value}
    if not status.is_done:
        return {"status": said, "operation": None}
    if status.error is not None:
        return {"status": said, "operation": {"failure-cause": _cause(status.error)}}
    return {"status": said, "operation": {"parallelism": status.parallelism, "earlier": status.earlier}}


def _cause(error: ErrorInfo) -> route.FailureCause:
    return {"class": error.code, "stack-trace": render_error(error)}
