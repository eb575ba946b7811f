"""Vertices and their subtasks as the REST shows them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from sqlstream.client.rest.job_view import end_of, io_metrics, state_counts, subtask_times, times_of
from sqlstream.client.rest.messages import Aggregated, SubtaskBody, VertexTaskManager
from sqlstream.client.rest.task_manager_view import rest_id
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


def vertex_details(vertex: VertexDetails, planned: JobVertex, now_ms: int) -> dict[str, object]:
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


def endpoint_of(subtask: SubtaskDetails) -> str:
    """TaskManagers have no host and port that a client could use: their id names them."""
    return rest_id(subtask.task_manager_id) or "(unassigned)"


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


def subtask_timestamps(vertex: VertexDetails, now_ms: int) -> dict[str, object]:
    subtasks = [
        {
            "subtask": subtask.subtask,
            "endpoint": endpoint_of(subtask),
            "duration": subtask_times(subtask, now_ms)[2],
            "timestamps": {s.value: subtask.timestamps_ms.get(s.value, 0) for s in ExecutionState},
        }
        for subtask in vertex.subtasks
    ]
    return {"id": vertex.id, "name": vertex.name, "now": now_ms, "subtasks": subtasks}


def vertex_task_managers(vertex: VertexDetails, now_ms: int) -> dict[str, object]:
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


def back_pressure(vertex: VertexDetails, now_ms: int) -> dict[str, object]:
    """Flink's answer about a vertex: `deprecated` while no running subtask has reported."""
    measured = [
        (s, s.metrics.task) for s in vertex.subtasks if s.metrics is not None and not s.state.is_terminal
    ]
    subtasks = []
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
