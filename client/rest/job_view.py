"""Jobs as the REST shows them: details of the cluster turned into Flink's bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sqlstream.client.rest.messages import IOMetrics, JobDetailsBody, JobSummary, JobVertexSummary
from sqlstream.client.rest.plan import describe_plan, job_type, slot_sharing_group_id
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import JobDetails, JobOverviewEntry, SubtaskDetails, VertexDetails

SCHEDULER_TYPE = "Default"


def job_summary(entry: JobOverviewEntry, now_ms: int) -> JobSummary:
    """One job of the list. Of an entry only the start and the end are known: the latest counts as the last change."""
    tasks = {"total": sum(entry.tasks.values())}
    tasks |= {state.value.lower(): entry.tasks.get(state.value, 0) for state in ExecutionState}
    return JobSummary(
        jid=entry.job_id,
        name=entry.name,
        job_type=job_type(entry.is_batch),
        scheduler_type=SCHEDULER_TYPE,
        start_time=entry.start_ms,
        end_time=entry.end_ms,
        duration=_duration(entry.start_ms, entry.end_ms, now_ms),
        state=entry.status.value,
        last_modification=max(entry.start_ms, entry.end_ms),
        tasks=tasks,
    )


def job_details(details: JobDetails, graph: JobGraph, now_ms: int) -> JobDetailsBody:
    states = Counter(vertex.state.value for vertex in details.vertices)
    return JobDetailsBody(
        jid=details.job_id,
        application_id=details.job_id,
        name=details.name,
        is_stoppable=False,
        state=details.status.value,
        job_type=job_type(graph.is_batch),
        scheduler_type=SCHEDULER_TYPE,
        start_time=details.start_ms,
        end_time=details.end_ms,
        duration=_duration(details.start_ms, details.end_ms, now_ms),
        max_parallelism=max((v.max_parallelism for v in graph.vertices), default=-1),
        now=now_ms,
        timestamps={status.value: details.timestamps_ms.get(status.value, 0) for status in JobStatus},
        vertices=[_vertex_summary(vertex, graph, now_ms) for vertex in details.vertices],
        status_counts={state.value: states[state.value] for state in ExecutionState},
        plan=describe_plan(graph),
        stream_graph=None,
    )


def _vertex_summary(vertex: VertexDetails, graph: JobGraph, now_ms: int) -> JobVertexSummary:
    planned = graph.vertex(vertex.id)
    start_ms, end_ms, duration_ms = times_of(vertex.subtasks, now_ms)
    return JobVertexSummary(
        id=vertex.id,
        slot_sharing_group_id=slot_sharing_group_id(planned.slot_sharing_group),
        name=vertex.name,
        max_parallelism=planned.max_parallelism,
        parallelism=vertex.parallelism,
        status=vertex.state.value,
        start_time=start_ms,
        end_time=end_ms,
        duration=duration_ms,
        tasks=state_counts(vertex.subtasks),
        metrics=io_metrics(vertex.subtasks),
    )


def state_counts(subtasks: Iterable[SubtaskDetails]) -> dict[str, int]:
    counts = Counter(subtask.state.value for subtask in subtasks)
    return {state.value: counts[state.value] for state in ExecutionState}


def times_of(subtasks: Iterable[SubtaskDetails], now_ms: int) -> tuple[int, int, int]:
    """Start, end and duration of several subtasks: from the first deployment until all have ended; -1 for what is not
    yet."""
    subtasks = tuple(subtasks)
    starts = [start for start, _, _ in (subtask_times(s, now_ms) for s in subtasks) if start >= 0]
    if not starts:
        return -1, -1, -1
    start_ms = min(starts)
    ends = [end_of(s) for s in subtasks]
    end_ms = max(ends) if all(end >= 0 for end in ends) else -1
    return start_ms, end_ms, _duration(start_ms, end_ms, now_ms)


def subtask_times(subtask: SubtaskDetails, now_ms: int) -> tuple[int, int, int]:
    """Start, end and duration of one subtask, -1 for what is not yet."""
    start_ms = subtask.timestamps_ms.get(ExecutionState.DEPLOYING.value, -1)
    if start_ms < 0:
        return -1, -1, -1
    end_ms = end_of(subtask)
    return start_ms, end_ms, _duration(start_ms, end_ms, now_ms)


def end_of(subtask: SubtaskDetails) -> int:
    return subtask.timestamps_ms[subtask.state.value] if subtask.state.is_terminal else -1


def _duration(start_ms: int, end_ms: int, now_ms: int) -> int:
    return max(0, (end_ms if end_ms >= 0 else now_ms) - start_ms)


def io_metrics(subtasks: Iterable[SubtaskDetails]) -> IOMetrics:
    """Counters of several subtasks added up; complete when each has reported."""
    subtasks = tuple(subtasks)
    reported: list[Mapping[str, int | float]] = [s.metrics.task for s in subtasks if s.metrics is not None]
    is_complete = len(reported) == len(subtasks)

    def total(name: str) -> int:
        return int(sum(figures.get(name, 0) for figures in reported))

    return IOMetrics(
        read_bytes=total("numBytesIn"),
        read_bytes_complete=is_complete,
        write_bytes=total("numBytesOut"),
        write_bytes_complete=is_complete,
        read_records=total("numRecordsIn"),
        read_records_complete=is_complete,
        write_records=total("numRecordsOut"),
        write_records_complete=is_complete,
        accumulated_backpressured_time=total("accumulateBackPressuredTimeMs"),
        accumulated_idle_time=total("accumulateIdleTimeMs"),
        accumulated_busy_time=float(total("accumulateBusyTimeMs")),
    )
