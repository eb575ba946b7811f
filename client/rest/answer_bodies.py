"""The bodies of answers of the JobManager's REST that have no other code, as types for its OpenAPI document."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from sqlstream.client.rest.messages import (
    JobSummary,
    Plan,
    RootException,
    SubtaskBody,
    TaskManagerBody,
    VertexTaskManager,
)


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


class VertexInCheckpoint(TypedDict):
    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointBody(VertexInCheckpoint):
    """`external_path` and `discarded` are those of a completed one, `failure_…` of one that has failed."""

    className: str
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    checkpoint_type: str
    tasks: dict[str, VertexInCheckpoint]
    external_path: NotRequired[str]
    discarded: NotRequired[bool]
    failure_timestamp: NotRequired[int]
    failure_message: NotRequired[str]


class RestoredCheckpoint(TypedDict):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(TypedDict):
    completed: CheckpointBody | None
    savepoint: CheckpointBody | None
    failed: CheckpointBody | None
    restored: RestoredCheckpoint | None


class CheckpointStatistics(TypedDict):
    counts: CheckpointCounts
    summary: dict[str, CheckpointFigure]
    latest: LatestCheckpoints
    history: list[CheckpointBody]


CheckpointTimes = TypedDict("CheckpointTimes", {"sync": CheckpointFigure, "async": CheckpointFigure})


class AlignmentSummary(TypedDict):
    buffered: CheckpointFigure
    processed: CheckpointFigure
    persisted: CheckpointFigure
    duration: CheckpointFigure


class SubtasksSummary(TypedDict):
    checkpointed_size: CheckpointFigure
    state_size: CheckpointFigure
    end_to_end_duration: CheckpointFigure
    checkpoint_duration: CheckpointTimes
    alignment: AlignmentSummary
    start_delay: CheckpointFigure


LateChannel = TypedDict("LateChannel", {"vertex-id": str, "subtask": int, "duration": int})


class SubtaskAlignment(TypedDict):
    """`late_channels` are the producers whose barriers came last, the latest first."""

    buffered: int
    processed: int
    persisted: int
    duration: int
    late_channels: list[LateChannel]


class SubtaskInCheckpoint(TypedDict):
    """The figures are those of a subtask that has acknowledged the checkpoint."""

    className: str
    index: int
    status: str
    ack_timestamp: NotRequired[int]
    end_to_end_duration: NotRequired[int]
    checkpointed_size: NotRequired[int]
    state_size: NotRequired[int]
    checkpoint: NotRequired[dict[str, int]]
    alignment: NotRequired[SubtaskAlignment]
    start_delay: NotRequired[int]
    unaligned_checkpoint: NotRequired[bool]
    aborted: NotRequired[bool]


class SubtasksInCheckpoint(VertexInCheckpoint):
    summary: SubtasksSummary
    subtasks: list[SubtaskInCheckpoint]


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
    failure: str


Trigger = TypedDict("Trigger", {"request-id": str})


SavepointOperation = TypedDict(
    "SavepointOperation", {"location": NotRequired[str], "failure-cause": NotRequired[FailureCause]}
)


class CheckpointOperation(TypedDict):
    checkpointId: int
    failureCause: FailureCause | None


class TriggerStatus(TypedDict):
    status: StatusId
    operation: SavepointOperation | None


class CheckpointTriggerStatus(TypedDict):
    status: StatusId
    operation: CheckpointOperation | None


class RescaleStepId(TypedDict):
    id: str
    step: str


RescaleOperation = TypedDict(
    "RescaleOperation",
    {
        "parallelism": NotRequired[int],
        "earlier": NotRequired[int],
        "failure-cause": NotRequired[FailureCause],
    },
)


class RescaleTriggerStatus(TypedDict):
    status: RescaleStepId
    operation: RescaleOperation | None


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


class FlameGraphNode(TypedDict):
    """`children` are nodes like this one: a schema that refers to itself cannot be written in place."""

    name: str
    value: int
    children: list[dict[str, Any]]


class FlameGraph(TypedDict):
    endTimestamp: int
    data: FlameGraphNode | None


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
