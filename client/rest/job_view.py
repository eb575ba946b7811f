"""Jobs as the REST shows them: details, plan, failures and settings in Flink's bodies."""

from __future__ import annotations

import hashlib
import html
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from msgspec.structs import asdict

from sqlstream import config as options
from sqlstream.client.rest import messages
from sqlstream.client.rest.cluster_view import endpoint_of
from sqlstream.client.rest.route import bad_query
from sqlstream.errors import ErrorInfo, render_error
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import JobDetails, JobOverviewEntry, RestartRecord, SubtaskDetails, VertexDetails
from sqlstream.options.checkpointing_options import takes_checkpoints

SCHEDULER_TYPE = "Default"


class ExceptionEntries(TypedDict):
    entries: list[messages.RootException]
    truncated: bool


class Exceptions(TypedDict):
    exceptionHistory: ExceptionEntries


def job_summary(entry: JobOverviewEntry, now_ms: int) -> messages.JobSummary:
    """One job of the list. Of an entry only the start and the end are known: the latest counts as the last change."""
    tasks = {"total": sum(entry.tasks.values())}
    tasks |= {state.value.lower(): entry.tasks.get(state.value, 0) for state in ExecutionState}
    return messages.JobSummary(
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


def job_details(details: JobDetails, graph: JobGraph, now_ms: int) -> messages.JobDetailsBody:
    states = Counter(vertex.state.value for vertex in details.vertices)
    return messages.JobDetailsBody(
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


def _vertex_summary(vertex: VertexDetails, graph: JobGraph, now_ms: int) -> messages.JobVertexSummary:
    planned = graph.vertex(vertex.id)
    start_ms, end_ms, duration_ms = times_of(vertex.subtasks, now_ms)
    return messages.JobVertexSummary(
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


def io_metrics(subtasks: Iterable[SubtaskDetails]) -> messages.IOMetrics:
    """Counters of several subtasks added up; complete when each has reported."""
    subtasks = tuple(subtasks)
    reported: list[Mapping[str, int | float]] = [s.metrics.task for s in subtasks if s.metrics is not None]
    is_complete = len(reported) == len(subtasks)

    def total(name: str) -> int:
        return int(sum(figures.get(name, 0) for figures in reported))

    return messages.IOMetrics(
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


_SHIP_STRATEGIES = {ExchangeKind.SINGLETON: "GLOBAL"}
"""Where Flink names an exchange otherwise."""


def describe_plan(graph: JobGraph) -> messages.Plan:
    nodes = [_describe_node(graph, vertex) for vertex in graph.vertices]
    return messages.Plan(graph.job_id, graph.name, job_type(graph.is_batch), nodes)


def job_type(is_batch: bool) -> str:
    return "BATCH" if is_batch else "STREAMING"


def slot_sharing_group_id(name: str) -> str:
    """32 hex digits that stand for a slot sharing group's name."""
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def _describe_node(graph: JobGraph, vertex: JobVertex) -> messages.PlanNode:
    inputs = [
        messages.PlanInput(
            num=edge.ordinal,
            id=edge.source,
            ship_strategy=_SHIP_STRATEGIES.get(edge.exchange.kind, edge.exchange.kind.name),
            exchange="pipelined_bounded",
        )
        for edge in graph.inputs_of(vertex.id)
    ]
    return messages.PlanNode(
        id=vertex.id,
        parallelism=vertex.parallelism,
        operator="",
        operator_strategy="",
        description=describe_chain(vertex),
        inputs=inputs,
        optimizer_properties={},
    )


def describe_chain(vertex: JobVertex) -> str:
    """The operators of a chain as a tree, one a line. It is HTML, as Flink's is: texts are escaped."""
    depths: dict[int, int] = {}
    lines = []
    for operator in vertex.operators:
        depth = depths[operator.id] = depths.get(operator.input, -1) + 1
        text = operator.description or operator.name
        lines.append("   " * (depth - 1) + ("+- " if depth else "") + html.escape(text))
    return "<br/>".join(lines) + "<br/>"


ENTRIES_MAX = 20
CONCURRENT_MAX = 20


def exception_history(job: JobDetails, most: int | None, label_filter: str | None) -> Exceptions:
    """The cause of the job's failure, with the failures that its other tasks reported, and those that it was restarted after;
    newest first."""
    entries = [e for e in (*_entries(job), *map(_survived, job.restarts)) if _has_labels(e, label_filter)]
    kept = entries[: ENTRIES_MAX if most is None else most]
    return {"exceptionHistory": {"entries": kept, "truncated": len(kept) < len(entries)}}


def _entries(job: JobDetails) -> list[messages.RootException]:
    failed = [
        (f"{vertex.name} ({subtask.subtask + 1}/{vertex.parallelism})", subtask)
        for vertex in job.vertices
        for subtask in vertex.subtasks
        if subtask.error is not None
    ]
    if job.error is None:
        return []
    # The job's cause is the error of the task that failed first, unless it is the JobManager's own.
    failed.sort(key=lambda task: (task[1].error != job.error, _failed_ms(task[1])))
    if failed and failed[0][1].error == job.error:
        root, others = _task_exception(*failed[0]), failed[1:]
    else:
        at_ms = job.timestamps_ms.get(JobStatus.FAILING.value, max(job.start_ms, job.end_ms))
        root, others = _exception(job.error, at_ms), failed
    concurrent = [_task_exception(*task) for task in others[:CONCURRENT_MAX]]
    return [messages.RootException(**asdict(root), concurrent_exceptions=concurrent)]


def _survived(restart: RestartRecord) -> messages.RootException:
    root = _exception(restart.error, restart.failed_ms)
    root.task_name = restart.task or None
    return messages.RootException(**asdict(root), concurrent_exceptions=[])


def _failed_ms(subtask: SubtaskDetails) -> int:
    return subtask.timestamps_ms.get("FAILED", max(subtask.timestamps_ms.values(), default=0))


def _task_exception(task_name: str, subtask: SubtaskDetails) -> messages.ExceptionInfo:
    assert subtask.error is not None
    found = _exception(subtask.error, _failed_ms(subtask))
    found.task_name = task_name
    found.endpoint = found.task_manager_id = endpoint_of(subtask)
    return found


def _exception(error: ErrorInfo, at_ms: int) -> messages.ExceptionInfo:
    labels = {"code": error.code, "reason": error.reason.value}
    return messages.ExceptionInfo(error.code, render_error(error), at_ms, labels, None, None, None)


def _has_labels(entry: messages.RootException, label_filter: str | None) -> bool:
    for pair in (label_filter or "").split(","):
        if not pair:
            continue
        label, colon, value = pair.partition(":")
        if not colon:
            raise bad_query("failureLabelFilter", pair)
        if entry.failure_labels.get(label) != value:
            return False
    return True


_PREFIX = "restart-strategy."


def restart_strategy_text(config: Mapping[str, str]) -> str:
    """What follows a failure of a job with these settings (Flink: RestartStrategyDescriptionUtils).

    >>> restart_strategy_text({}), restart_strategy_text({"restart-strategy.type": "fixed-delay"})
    ('Restart deactivated.', 'Restart with fixed delay (1000 ms). #1 restart attempts.')
    """

    def setting(key: str) -> Any:
        return options.get(config, _PREFIX + key)

    match _strategy(config):
        case "fixeddelay":
            delay_ms, attempts = setting("fixed-delay.delay"), setting("fixed-delay.attempts")
            return f"Restart with fixed delay ({delay_ms} ms). #{attempts} restart attempts."
        case "failurerate":
            return (
                f"Failure rate restart with maximum of {setting('failure-rate.max-failures-per-interval')} failures within"
                f" interval {setting('failure-rate.failure-rate-interval')} ms and fixed delay"
                f" {setting('failure-rate.delay')} ms."
            )
        case "exponentialdelay":
            return (
                f"Restart with exponential delay: starting at {setting('exponential-delay.initial-backoff')} ms,"
                f" increasing by {setting('exponential-delay.backoff-multiplier')}, with maximum"
                f" {setting('exponential-delay.max-backoff')} ms. Delay resets after"
                f" {setting('exponential-delay.reset-backoff-threshold')} ms with jitter"
                f" {setting('exponential-delay.jitter-factor')}."
            )
    return "Restart deactivated."


def _strategy(config: Mapping[str, str]) -> str:
    """The name of the strategy without its hyphen, which may be left out."""
    if _PREFIX + "type" not in config and takes_checkpoints(config):
        return "exponentialdelay"
    return str(options.get(config, _PREFIX + "type")).replace("-", "")
