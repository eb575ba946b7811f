"""The vertices of a job and their subtasks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypedDict

import msgspec
from fastapi import APIRouter, Query

from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_view import ClusterView, endpoint_of
from sqlstream.client.rest.flame_graph import FlameGraph, FlameGraphs, ThreadKind
from sqlstream.client.rest.job_view import end_of, io_metrics, state_counts, subtask_times, times_of
from sqlstream.client.rest.messages import Aggregated, SubtaskBody, VertexTaskManager
from sqlstream.client.rest.route import RestRoute, bad_query, checked_id, checked_number
from sqlstream.graph.job_graph import JobVertex
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import SubtaskDetails, VertexDetails

_STAYS = (
    *(ExecutionState.CREATED, ExecutionState.SCHEDULED, ExecutionState.DEPLOYING),
    *(ExecutionState.INITIALIZING, ExecutionState.RUNNING),
)
"""States that a subtask leaves again, in order."""

_LOW_BACKPRESSURE = 0.1
_HIGH_BACKPRESSURE = 0.5


class Vertex(TypedDict):
    id: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: list[SubtaskBody]
    aggregated: Any


class SubtaskTime(TypedDict):
    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]


class SubtaskTimes(TypedDict):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTime]


class VertexTaskManagers(TypedDict):
    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManager]


SubtaskBackPressure = TypedDict(
    "SubtaskBackPressure",
    {
        "subtask": int,
        "attempt-number": int,
        "backpressureLevel": str,
        "backpressure-level": str,
        "ratio": float,
        "idleRatio": float,
        "busyRatio": float,
        "other-concurrent-attempts": list[Any],
    },
)


BackPressure = TypedDict(
    "BackPressure",
    {
        "status": str,
        "backpressureLevel": str,
        "backpressure-level": str,
        "end-timestamp": int,
        "subtasks": list[SubtaskBackPressure],
    },
)


UserAccumulators = TypedDict("UserAccumulators", {"id": str, "user-accumulators": list[Any]})


SubtaskAccumulators = TypedDict(
    "SubtaskAccumulators",
    {"subtask": int, "attempt": int, "endpoint": str, "user-accumulators": list[Any]},
)


class VertexAccumulators(TypedDict):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


AttemptAccumulators = TypedDict(
    "AttemptAccumulators", {"subtask": int, "attempt": int, "id": str, "user-accumulators": list[Any]}
)


def vertex_details(vertex: VertexDetails, planned: JobVertex, now_ms: int) -> Vertex:
    return {
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": planned.max_parallelism,
        "now": now_ms,
        "subtasks": [subtask_details(subtask, now_ms) for subtask in vertex.subtasks],
        "aggregated": _aggregate(vertex.subtasks, now_ms),
    }


def subtask_details(subtask: SubtaskDetails, now_ms: int) -> SubtaskBody:
    start_ms, end_ms, duration_ms = subtask_times(subtask, now_ms)
    return SubtaskBody(
        subtask=subtask.subtask,
        status=subtask.state.value,
        attempt=subtask.attempt,
        endpoint=endpoint_of(subtask),
        start_time=start_ms,
        end_time=end_ms,
        duration=duration_ms,
        metrics=io_metrics((subtask,)),
        taskmanager_id=endpoint_of(subtask),
        status_duration=_status_durations(subtask, now_ms),
        start_time_underscored=start_ms,
    )


def _status_durations(subtask: SubtaskDetails, now_ms: int) -> dict[str, int]:
    """How long the subtask was in each state, -1 for those that it has not entered."""
    entered = subtask.timestamps_ms
    durations = {}
    for index, state in enumerate(_STAYS):
        begin_ms = entered.get(state.value)
        if begin_ms is None:
            durations[state.value] = -1
            continue
        later = [entered[s.value] for s in _STAYS[index + 1 :] if s.value in entered]
        end_ms = min(later) if later else end_of(subtask)
        durations[state.value] = max(0, (end_ms if end_ms >= 0 else now_ms) - begin_ms)
    return durations


def _aggregate(subtasks: Sequence[SubtaskDetails], now_ms: int) -> Aggregated:
    figures = [msgspec.to_builtins(io_metrics((s,))) for s in subtasks]
    names = [name for name in figures[0] if not name.endswith("-complete")] if figures else []
    durations = [_status_durations(s, now_ms) for s in subtasks]
    return Aggregated(
        metrics={name: _statistics([int(f[name]) for f in figures]) for name in names},
        status_duration={
            state.value: _statistics([d[state.value] for d in durations if d[state.value] >= 0])
            for state in _STAYS
        },
    )


def _statistics(values: list[int]) -> dict[str, int]:
    """Flink's statistics over subtasks; all 0 without values."""
    values = sorted(values) or [0]

    def percentile(share: float) -> int:
        return values[min(len(values) - 1, int(share * len(values)))]

    return {
        "min": values[0],
        "max": values[-1],
        "avg": sum(values) // len(values),
        "sum": sum(values),
        "median": int(statistics.median(values)),
        "p25": percentile(0.25),
        "p75": percentile(0.75),
        "p95": percentile(0.95),
    }


def subtask_timestamps(vertex: VertexDetails, now_ms: int) -> SubtaskTimes:
    subtasks: list[SubtaskTime] = [
        {
            "subtask": subtask.subtask,
            "endpoint": endpoint_of(subtask),
            "duration": subtask_times(subtask, now_ms)[2],
            "timestamps": {s.value: subtask.timestamps_ms.get(s.value, 0) for s in ExecutionState},
        }
        for subtask in vertex.subtasks
    ]
    return {"id": vertex.id, "name": vertex.name, "now": now_ms, "subtasks": subtasks}


def vertex_task_managers(vertex: VertexDetails, now_ms: int) -> VertexTaskManagers:
    by_task_manager: dict[str, list[SubtaskDetails]] = {}
    for subtask in vertex.subtasks:
        by_task_manager.setdefault(endpoint_of(subtask), []).append(subtask)
    found = [_on_task_manager(id, subtasks, now_ms) for id, subtasks in by_task_manager.items()]
    return {"id": vertex.id, "name": vertex.name, "now": now_ms, "taskmanagers": found}


def _on_task_manager(id: str, subtasks: Sequence[SubtaskDetails], now_ms: int) -> VertexTaskManager:
    start_ms, end_ms, duration_ms = times_of(subtasks, now_ms)
    return VertexTaskManager(
        endpoint=id,
        status=_least_advanced(subtasks),
        start_time=start_ms,
        end_time=end_ms,
        duration=duration_ms,
        metrics=io_metrics(subtasks),
        status_counts=state_counts(subtasks),
        taskmanager_id=id,
        aggregated=_aggregate(subtasks, now_ms),
    )


def _least_advanced(subtasks: Iterable[SubtaskDetails]) -> str:
    states = {subtask.state for subtask in subtasks}
    order = (
        *(ExecutionState.FAILED, ExecutionState.CANCELING, ExecutionState.CANCELED),
        *(*_STAYS, ExecutionState.RECONCILING, ExecutionState.FINISHED),
    )
    return next(state.value for state in order if state in states)


def back_pressure(vertex: VertexDetails, now_ms: int) -> BackPressure:
    """Flink's answer about a vertex: `deprecated` while no running subtask has reported."""
    measured = [
        (s, s.metrics.task) for s in vertex.subtasks if s.metrics is not None and not s.state.is_terminal
    ]
    subtasks: list[SubtaskBackPressure] = []
    for subtask, figures in measured:
        ratio = figures.get("backPressuredTimeMsPerSecond", 0) / 1000
        level = _level(ratio)
        subtasks.append(
            {
                "subtask": subtask.subtask,
                "attempt-number": subtask.attempt,
                "backpressureLevel": level,
                "ratio": ratio,
                "idleRatio": figures.get("idleTimeMsPerSecond", 0) / 1000,
                "busyRatio": figures.get("busyTimeMsPerSecond", 0) / 1000,
                "other-concurrent-attempts": [],
                "backpressure-level": level,
            }
        )
    worst = max((figures.get("backPressuredTimeMsPerSecond", 0) / 1000 for _, figures in measured), default=0)
    return {
        "status": "ok" if measured else "deprecated",
        "backpressureLevel": _level(worst),
        "end-timestamp": now_ms,
        "subtasks": subtasks,
        "backpressure-level": _level(worst),
    }


def _level(ratio: float) -> str:
    if ratio <= _LOW_BACKPRESSURE:
        return "ok"
    return "low" if ratio <= _HIGH_BACKPRESSURE else "high"


def vertex_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute, prefix="/jobs/{job_id}/vertices/{vertex_id}")
    _add_details(router, view)
    _add_accumulators(router, view)
    _add_subtasks(router, view)
    return router


def _add_details(router: APIRouter, view: ClusterView) -> None:
    @router.get("")
    def vertex(job_id: str, vertex_id: str) -> Vertex:
        return vertex_details(*view.planned_vertex(job_id, vertex_id), view.now_ms())

    @router.get("/subtasktimes")
    def subtask_times(job_id: str, vertex_id: str) -> SubtaskTimes:
        return subtask_timestamps(view.vertex(job_id, vertex_id), view.now_ms())

    @router.get("/taskmanagers")
    def task_managers(job_id: str, vertex_id: str) -> VertexTaskManagers:
        return vertex_task_managers(view.vertex(job_id, vertex_id), view.now_ms())

    @router.get("/backpressure")
    def backpressure(job_id: str, vertex_id: str) -> BackPressure:
        return back_pressure(view.vertex(job_id, vertex_id), view.now_ms())

    graphs = FlameGraphs(view)

    @router.get("/flamegraph")
    def flame_graph(
        job_id: str,
        vertex_id: str,
        kind: Annotated[str, Query(alias="type")] = ThreadKind.FULL.value,
        index: Annotated[str | None, Query(alias="subtaskindex")] = None,
    ) -> FlameGraph:
        found = view.vertex(job_id, vertex_id)
        if kind.lower() not in [each.value for each in ThreadKind]:
            raise bad_query("type", kind)
        subtask = None if index is None else view.subtask(job_id, vertex_id, index).subtask
        return graphs.graph(checked_id("jobid", job_id), found, ThreadKind(kind.lower()), subtask)


def _add_subtasks(router: APIRouter, view: ClusterView) -> None:
    @router.get("/subtasks/{index}")
    def subtask(job_id: str, vertex_id: str, index: str) -> SubtaskBody:
        return subtask_details(view.subtask(job_id, vertex_id, index), view.now_ms())

    @router.get("/subtasks/{index}/attempts/{attempt}")
    def attempt(job_id: str, vertex_id: str, index: str, attempt: str) -> SubtaskBody:
        found = _attempt(view, job_id, vertex_id, index, attempt)
        return subtask_details(found, view.now_ms())

    @router.get("/subtasks/{index}/attempts/{attempt}/accumulators")
    def attempt_accumulators(job_id: str, vertex_id: str, index: str, attempt: str) -> AttemptAccumulators:
        found = _attempt(view, job_id, vertex_id, index, attempt)
        return {
            "subtask": found.subtask,
            "attempt": found.attempt,
            "id": found.execution_id,
            "user-accumulators": [],
        }


def _attempt(view: ClusterView, job_id: str, vertex_id: str, index: str, attempt: str) -> SubtaskDetails:
    found = view.subtask(job_id, vertex_id, index)
    if checked_number("attempt", attempt) != found.attempt:
        raise RestError(404, f"Attempt {attempt} of subtask {index} is not known")
    return found


def _add_accumulators(router: APIRouter, view: ClusterView) -> None:
    @router.get("/accumulators")
    def accumulators(job_id: str, vertex_id: str) -> UserAccumulators:
        return {"id": view.vertex(job_id, vertex_id).id, "user-accumulators": []}

    @router.get("/subtasks/accumulators")
    def subtask_accumulators(job_id: str, vertex_id: str) -> VertexAccumulators:
        found = view.vertex(job_id, vertex_id)
        subtasks: list[SubtaskAccumulators] = [
            {
                "subtask": s.subtask,
                "attempt": s.attempt,
                "endpoint": endpoint_of(s),
                "user-accumulators": [],
            }
            for s in found.subtasks
        ]
        return {"id": found.id, "parallelism": found.parallelism, "subtasks": subtasks}
