"""What the OpenAPI document says of the JobManager's REST: the bodies of all answers, by method and path."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NotRequired, TypedDict

import msgspec

from client.rest.messages import (
    ClusterOverview,
    DashboardConfig,
    JobDetailsBody,
    JobSummary,
    Plan,
    RootException,
    SubtaskBody,
    TaskManagerBody,
    TaskManagerDetailsBody,
    VertexTaskManager,
)

Extra = dict[str, Any]

TEXT = "text/plain"


class Nothing(TypedDict):
    pass


class Errors(TypedDict):
    errors: list[str]


class KeyValue(TypedDict):
    key: str
    value: str


class ProcessVersion(TypedDict):
    version: str
    arch: str
    options: list[str]


class Environment(TypedDict):
    jvm: ProcessVersion
    classpath: list[str]


class Metric(TypedDict):
    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    id: str
    min: NotRequired[float]
    max: NotRequired[float]
    avg: NotRequired[float]
    sum: NotRequired[float]
    skew: NotRequired[float]


class ThreadInfo(TypedDict):
    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(TypedDict):
    threadInfos: list[ThreadInfo]


class DataSets(TypedDict):
    dataSets: list[Nothing]


class LogEntry(TypedDict):
    name: str
    size: int
    mtime: int


class Logs(TypedDict):
    logs: list[LogEntry]


class JobRecords(TypedDict):
    records: list[str]
    next: str


class JobIdStatus(TypedDict):
    id: str
    status: str


class JobIds(TypedDict):
    jobs: list[JobIdStatus]


class JobList(TypedDict):
    jobs: list[JobSummary]


class JobState(TypedDict):
    status: str


class PlanBody(TypedDict):
    plan: Plan


class ExceptionEntries(TypedDict):
    entries: list[RootException]
    truncated: bool


class Exceptions(TypedDict):
    exceptionHistory: ExceptionEntries


class StatusId(TypedDict):
    id: str


FailureCause = TypedDict("FailureCause", {"class": str, "stack-trace": str})

JobResult = TypedDict(
    "JobResult",
    {
        "id": str,
        "application-status": str,
        "accumulator-results": dict[str, Any],
        "net-runtime": int,
        "failure-cause": NotRequired[FailureCause],
    },
)

ExecutionResult = TypedDict(
    "ExecutionResult", {"status": StatusId, "job-execution-result": NotRequired[JobResult]}
)

JobAccumulators = TypedDict(
    "JobAccumulators",
    {
        "job-accumulators": list[Any],
        "user-task-accumulators": list[Any],
        "serialized-user-task-accumulators": dict[str, Any],
    },
)

ExecutionConfig = TypedDict(
    "ExecutionConfig",
    {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": dict[str, str],
    },
)

JobConfig = TypedDict("JobConfig", {"jid": str, "name": str, "execution-config": ExecutionConfig})


class CheckpointCounts(TypedDict):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointFigure(TypedDict):
    """A quantile of nothing is the text NaN."""

    min: int
    max: int
    avg: int
    p50: float | str
    p90: float | str
    p95: float | str
    p99: float | str
    p999: float | str


class LatestCheckpoints(TypedDict):
    completed: None
    savepoint: None
    failed: None
    restored: None


class CheckpointStatistics(TypedDict):
    counts: CheckpointCounts
    summary: dict[str, CheckpointFigure]
    latest: LatestCheckpoints
    history: list[Any]


class Externalization(TypedDict):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(TypedDict):
    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


class Bounds(TypedDict):
    lowerBound: int
    upperBound: int


class VertexParallelism(TypedDict):
    parallelism: Bounds


class Totals(TypedDict):
    status: str
    total: dict[str, int | float]
    operators: dict[str, dict[str, int | float]]
    warnings: list[str]


Trigger = TypedDict("Trigger", {"request-id": str})


class SavepointLocation(TypedDict):
    location: str


class TriggerStatus(TypedDict):
    status: StatusId
    operation: SavepointLocation | None


class Application(TypedDict):
    id: str
    name: str
    status: str
    duration: int
    jobs: Any


class Applications(TypedDict):
    applications: list[Application]


class ApplicationException(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    jobId: str


class ApplicationEntries(TypedDict):
    entries: list[ApplicationException]


class ApplicationExceptions(TypedDict):
    exceptionHistory: ApplicationEntries


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


class FlameGraph(TypedDict):
    endTimestamp: int
    data: None


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


class TaskManagers(TypedDict):
    taskmanagers: list[TaskManagerBody]


@dataclasses.dataclass(frozen=True)
class Document:
    """The body of an answer, with its status; `body` is TEXT for text. `request` is the body that is read."""

    body: Any
    status: int = 200
    request: Any = None


_JOB = "/jobs/{job_id}"
_VERTEX = _JOB + "/vertices/{vertex_id}"
_APPLICATION = "/applications/{application_id}"
_TASK_MANAGER = "/taskmanagers/{task_manager_id}"

DOCUMENTS: dict[tuple[str, str], Document] = {
    ("GET", "/overview"): Document(ClusterOverview),
    ("GET", "/config"): Document(DashboardConfig),
    ("GET", "/metrics"): Document(TEXT),
    ("GET", "/datasets"): Document(DataSets),
    ("GET", "/jobmanager/config"): Document(list[KeyValue]),
    ("GET", "/jobmanager/environment"): Document(Environment),
    ("GET", "/jobmanager/metrics"): Document(list[Metric]),
    ("GET", "/jobmanager/thread-dump"): Document(ThreadDump),
    ("GET", "/jobmanager/logs"): Document(Logs),
    ("GET", "/jobmanager/logs/{name}"): Document(TEXT),
    ("GET", "/jobmanager/log"): Document(TEXT),
    ("GET", "/jobs"): Document(JobIds),
    ("GET", "/jobs/overview"): Document(JobList),
    ("GET", "/jobs/metrics"): Document(list[AggregatedMetric]),
    ("GET", _JOB): Document(JobDetailsBody),
    ("PATCH", _JOB): Document(Nothing, 202),
    ("POST", f"{_JOB}/stop"): Document(Trigger, 202, Nothing),
    ("GET", f"{_JOB}/savepoints/{{trigger_id}}"): Document(TriggerStatus),
    ("GET", f"{_JOB}/metrics"): Document(list[Metric]),
    ("GET", f"{_JOB}/totals"): Document(Totals),
    ("GET", f"{_JOB}/logs"): Document(JobRecords),
    ("GET", f"{_JOB}/status"): Document(JobState),
    ("GET", f"{_JOB}/plan"): Document(PlanBody),
    ("GET", f"{_JOB}/exceptions"): Document(Exceptions),
    ("GET", f"{_JOB}/execution-result"): Document(ExecutionResult),
    ("GET", f"{_JOB}/accumulators"): Document(JobAccumulators),
    ("GET", f"{_JOB}/config"): Document(JobConfig),
    ("GET", f"{_JOB}/jobmanager/config"): Document(list[KeyValue]),
    ("GET", f"{_JOB}/jobmanager/environment"): Document(Environment),
    ("GET", f"{_JOB}/checkpoints"): Document(CheckpointStatistics),
    ("GET", f"{_JOB}/checkpoints/config"): Document(CheckpointConfig),
    ("GET", f"{_JOB}/resource-requirements"): Document(dict[str, VertexParallelism]),
    ("GET", _VERTEX): Document(Vertex),
    ("GET", f"{_VERTEX}/subtasktimes"): Document(SubtaskTimes),
    ("GET", f"{_VERTEX}/taskmanagers"): Document(VertexTaskManagers),
    ("GET", f"{_VERTEX}/backpressure"): Document(BackPressure),
    ("GET", f"{_VERTEX}/flamegraph"): Document(FlameGraph),
    ("GET", f"{_VERTEX}/metrics"): Document(list[Metric]),
    ("GET", f"{_VERTEX}/jm-operator-metrics"): Document(list[Metric]),
    ("GET", f"{_VERTEX}/watermarks"): Document(list[Metric]),
    ("GET", f"{_VERTEX}/accumulators"): Document(UserAccumulators),
    ("GET", f"{_VERTEX}/subtasks/accumulators"): Document(VertexAccumulators),
    ("GET", f"{_VERTEX}/subtasks/metrics"): Document(list[AggregatedMetric]),
    ("GET", f"{_VERTEX}/subtasks/{{index}}"): Document(SubtaskBody),
    ("GET", f"{_VERTEX}/subtasks/{{index}}/metrics"): Document(list[Metric]),
    ("GET", f"{_VERTEX}/subtasks/{{index}}/attempts/{{attempt}}"): Document(SubtaskBody),
    ("GET", f"{_VERTEX}/subtasks/{{index}}/attempts/{{attempt}}/accumulators"): Document(AttemptAccumulators),
    ("GET", "/applications/overview"): Document(Applications),
    ("GET", _APPLICATION): Document(Application),
    ("POST", f"{_APPLICATION}/cancel"): Document(Nothing, 202),
    ("GET", f"{_APPLICATION}/exceptions"): Document(ApplicationExceptions),
    ("GET", f"{_APPLICATION}/jobmanager/config"): Document(list[KeyValue]),
    ("GET", "/taskmanagers"): Document(TaskManagers),
    ("GET", "/taskmanagers/metrics"): Document(list[AggregatedMetric]),
    ("GET", _TASK_MANAGER): Document(TaskManagerDetailsBody),
    ("GET", f"{_TASK_MANAGER}/metrics"): Document(list[Metric]),
    ("GET", f"{_TASK_MANAGER}/logs"): Document(Logs),
}

_SAYS = {
    400: "The request is not understood.",
    403: "The request is not allowed.",
    404: "There is no such thing, or no such path.",
    405: "The path has no such method.",
    409: "The job has ended already.",
    410: "The termination mode has been removed.",
    413: "The body is too large.",
    500: "The server failed.",
    501: "The server does not have this operation.",
}


def described(method: str, path: str) -> Extra:
    """Arguments of a route for the OpenAPI document; none for a path that it does not have."""
    document = DOCUMENTS.get((method, path))
    if document is None:
        return {}
    if document.body == TEXT:
        content: Extra = {TEXT: {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": json_schema(document.body)}}
    found = {document.status: {"description": "The request was successful.", "content": content}}
    extra: Extra = {"status_code": document.status, "responses": found | error_responses()}
    if document.request is not None:
        body = {"application/json": {"schema": json_schema(document.request)}}
        extra["openapi_extra"] = {"requestBody": {"required": False, "content": body}}
    return extra


@functools.cache
def error_responses() -> dict[int, Extra]:
    content = {"application/json": {"schema": json_schema(Errors)}}
    return {status: {"description": said, "content": content} for status, said in _SAYS.items()}


def json_schema(kind: Any) -> Extra:
    """The JSON schema of a type, without references."""
    found = msgspec.json.schema(kind)
    definitions = found.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inlined(definitions[part["$ref"].rpartition("/")[2]])
        return {key: inlined(value) for key, value in part.items()}

    whole: Extra = inlined(found)
    return whole
