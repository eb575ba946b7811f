"""A job as clients see it: details per vertex and subtask, figures, one line of the overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from sqlstream.messages import rpc
from sqlstream.messages.checkpoint_statistics import CheckpointRecord, CheckpointStatistics
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.latency import LatencyStatus
from sqlstream.messages.rescale import AutoscalerStatus
from sqlstream.runtime.jobmanager.execution_graph import ExecutionVertex, vertex_state
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.metrics import (
    add_operators,
    combine,
    combine_all,
    combine_operators,
    job_totals,
)


def describe_job(master: JobMaster) -> rpc.JobDetails:
    return rpc.JobDetails(
        job_id=master.job_id,
        name=master.job_graph.name,
        status=master.status,
        start_ms=master.timestamps_ms[JobStatus.INITIALIZING.value],
        end_ms=_end_ms(master),
        timestamps_ms=dict(master.timestamps_ms),
        vertices=tuple(_describe_vertex(subtasks) for subtasks in master.graph.vertices.values()),
        error=master.error,
        is_batch=master.job_graph.is_batch,
        restarts=master.restarts.records,
        autoscaler=master.autoscaling.status() if master.autoscaling is not None else None,
        latency=master.latency.status() if master.latency is not None else None,
        state_growth=master.state_history.growth(),
    )


def measure_job(master: JobMaster) -> rpc.JobMetrics:
    present = combine_operators(e.metrics for e in master.graph.executions() if e.metrics is not None)
    earlier = combine_all(s.counted for s in master.graph.subtasks())
    operators = add_operators(earlier, present)
    total = job_totals(master.job_graph, operators) | _checkpoint_figures(master)
    is_rescaled = master.rescaling.is_under_way
    last_failure = master.restarts.records[0].error if master.restarts.records else None
    failure = last_failure if master.status is JobStatus.RESTARTING and not is_rescaled else None
    return rpc.JobMetrics(master.job_id, master.status, total, operators, failure, last_failure)


def _checkpoint_figures(master: JobMaster) -> rpc.Metrics:
    """Flink's figures of a job's checkpoints and restarts, those above 0."""
    history = master.checkpoints.coordinator.history
    figures: rpc.Metrics = {
        "numRestarts": master.restarts.count,
        "numberOfCompletedCheckpoints": history.counts.completed,
        "numberOfFailedCheckpoints": history.counts.failed,
        "numberOfInProgressCheckpoints": len(master.checkpoints.coordinator.pending),
    }
    if (latest := history.latest_completed) is not None:
        figures |= {
            "lastCompletedCheckpointId": latest.id,
            "lastCheckpointCompletedTimestamp": latest.ended_ms,
            "lastCheckpointDuration": latest.ended_ms - latest.triggered_ms,
            "lastCheckpointFullSize": latest.state_bytes,
            "lastCheckpointSize": latest.written_bytes,
        }
    if (ledger := master.checkpoints.ledger) is not None:
        figures["numLedgerDifferences"] = sum(not entry.is_balanced for entry in ledger.entries)
    found = {name: figure for name, figure in figures.items() if figure}
    return found | history.durations.figures("checkpointDuration")


def metrics_at(metrics: rpc.JobMetrics, clock: Callable[[int], int]) -> rpc.JobMetrics:
    """The figures of a job, with the wall clock's time of its last checkpoint."""
    name = "lastCheckpointCompletedTimestamp"
    if name not in metrics.total:
        return metrics
    return replace(metrics, total=metrics.total | {name: clock(int(metrics.total[name]))})


def checkpoints_at(statistics: CheckpointStatistics, clock: Callable[[int], int]) -> CheckpointStatistics:
    """The checkpoints of a job; `clock` turns steady-clock times into wall-clock times."""

    def record_at(record: CheckpointRecord | None) -> CheckpointRecord | None:
        return _record_at(record, clock) if record is not None else None

    restored = statistics.latest_restored
    return replace(
        statistics,
        latest_completed=record_at(statistics.latest_completed),
        latest_savepoint=record_at(statistics.latest_savepoint),
        latest_failed=record_at(statistics.latest_failed),
        latest_restored=replace(restored, restored_ms=clock(restored.restored_ms)) if restored else None,
        history=tuple(_record_at(record, clock) for record in statistics.history),
        ledger=replace(ledger, taken_ms=clock(ledger.taken_ms)) if (ledger := statistics.ledger) else None,
    )


def _record_at(record: CheckpointRecord, clock: Callable[[int], int]) -> CheckpointRecord:
    vertices = tuple(
        replace(
            vertex,
            subtasks=tuple(
                replace(s, acknowledged_ms=_end_at(s.acknowledged_ms, clock)) for s in vertex.subtasks
            ),
        )
        for vertex in record.vertices
    )
    return replace(
        record,
        triggered_ms=clock(record.triggered_ms),
        ended_ms=_end_at(record.ended_ms, clock),
        vertices=vertices,
    )


def summarise_job(details: rpc.JobDetails) -> rpc.JobOverviewEntry:
    states = Counter(s.state.value for v in details.vertices for s in v.subtasks)
    return rpc.JobOverviewEntry(
        details.job_id,
        details.name,
        details.status,
        details.start_ms,
        details.end_ms,
        dict(states),
        details.is_batch,
    )


def _end_ms(master: JobMaster) -> int:
    return master.timestamps_ms[master.status.value] if master.status.is_terminal else -1


def _describe_vertex(subtasks: tuple[ExecutionVertex, ...]) -> rpc.VertexDetails:
    vertex = subtasks[0].vertex
    return rpc.VertexDetails(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        state=vertex_state(subtasks),
        subtasks=tuple(_describe_subtask(s) for s in subtasks),
        metrics=combine(s.execution.metrics.task for s in subtasks if s.execution.metrics is not None),
    )


def _describe_subtask(subtask: ExecutionVertex) -> rpc.SubtaskDetails:
    e = subtask.execution
    return rpc.SubtaskDetails(
        subtask=subtask.subtask,
        attempt=e.attempt,
        execution_id=e.execution_id,
        state=e.state,
        task_manager_id=e.task_manager_id,
        timestamps_ms=dict(e.timestamps_ms),
        metrics=e.metrics,
        error=e.error,
    )


def details_at(details: rpc.JobDetails, clock: Callable[[int], int]) -> rpc.JobDetails:
    """The details of a job; `clock` turns its steady-clock times into wall-clock times."""
    subtasks = [
        tuple(replace(s, timestamps_ms=_timestamps_at(s.timestamps_ms, clock)) for s in vertex.subtasks)
        for vertex in details.vertices
    ]
    vertices = zip(details.vertices, subtasks, strict=True)
    return replace(
        details,
        start_ms=clock(details.start_ms),
        end_ms=_end_at(details.end_ms, clock),
        timestamps_ms=_timestamps_at(details.timestamps_ms, clock),
        vertices=tuple(replace(vertex, subtasks=of_vertex) for vertex, of_vertex in vertices),
        restarts=tuple(replace(r, failed_ms=clock(r.failed_ms)) for r in details.restarts),
        autoscaler=_autoscaler_at(details.autoscaler, clock),
        latency=_latency_at(details.latency, clock),
    )


def _autoscaler_at(status: AutoscalerStatus | None, clock: Callable[[int], int]) -> AutoscalerStatus | None:
    if status is None:
        return None
    return replace(status, decisions=tuple(replace(d, at_ms=clock(d.at_ms)) for d in status.decisions))


def _latency_at(status: LatencyStatus | None, clock: Callable[[int], int]) -> LatencyStatus | None:
    if status is None:
        return None
    return replace(status, decisions=tuple(replace(d, at_ms=clock(d.at_ms)) for d in status.decisions))


def entry_at(entry: rpc.JobOverviewEntry, clock: Callable[[int], int]) -> rpc.JobOverviewEntry:
    return replace(entry, start_ms=clock(entry.start_ms), end_ms=_end_at(entry.end_ms, clock))


def task_manager_at(found: rpc.TaskManagerOverview, clock: Callable[[int], int]) -> rpc.TaskManagerOverview:
    return replace(
        found,
        registered_ms=clock(found.registered_ms),
        last_heartbeat_ms=clock(found.last_heartbeat_ms),
    )


def _timestamps_at(timestamps_ms: dict[str, int], clock: Callable[[int], int]) -> dict[str, int]:
    return {name: clock(ms) for name, ms in timestamps_ms.items()}


def _end_at(end_ms: int, clock: Callable[[int], int]) -> int:
    return end_ms if end_ms == -1 else clock(end_ms)
