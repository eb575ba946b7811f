"""A job as clients see it: details per vertex and subtask, figures, one line of the overview."""

from __future__ import annotations

from collections import Counter

from runtime.jobmanager.execution_graph import ExecutionVertex, vertex_state
from runtime.jobmanager.job_master import JobMaster
from runtime.jobmanager.metrics import combine, combine_operators, job_totals
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, JobMetrics, JobOverviewEntry, SubtaskDetails, VertexDetails


def describe_job(master: JobMaster) -> JobDetails:
    return JobDetails(
        job_id=master.job_id,
        name=master.job_graph.name,
        status=master.status,
        start_ms=master.timestamps_ms[JobStatus.INITIALIZING.value],
        end_ms=_end_ms(master),
        timestamps_ms=dict(master.timestamps_ms),
        vertices=tuple(_describe_vertex(subtasks) for subtasks in master.graph.vertices.values()),
        error=master.error,
    )


def measure_job(master: JobMaster) -> JobMetrics:
    operators = combine_operators(e.metrics for e in master.graph.executions() if e.metrics is not None)
    return JobMetrics(master.job_id, master.status, job_totals(master.job_graph, operators), operators)


def summarise_job(details: JobDetails) -> JobOverviewEntry:
    states = Counter(s.state.value for v in details.vertices for s in v.subtasks)
    return JobOverviewEntry(
        details.job_id, details.name, details.status, details.start_ms, details.end_ms, dict(states)
    )


def _end_ms(master: JobMaster) -> int:
    return master.timestamps_ms[master.status.value] if master.status.is_terminal else -1


def _describe_vertex(subtasks: tuple[ExecutionVertex, ...]) -> VertexDetails:
    vertex = subtasks[0].vertex
    return VertexDetails(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        state=vertex_state(subtasks),
        subtasks=tuple(_describe_subtask(s) for s in subtasks),
        metrics=combine(s.execution.metrics.task for s in subtasks if s.execution.metrics is not None),
    )


def _describe_subtask(subtask: ExecutionVertex) -> SubtaskDetails:
    e = subtask.execution
    return SubtaskDetails(
        subtask=subtask.subtask,
        attempt=e.attempt,
        execution_id=e.execution_id,
        state=e.state,
        task_manager_id=e.task_manager_id,
        timestamps_ms=dict(e.timestamps_ms),
        metrics=e.metrics,
        error=e.error,
    )
