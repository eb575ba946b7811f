"""What the OpenAPI document says of the JobManager's REST: the bodies of all answers, by method and path."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import msgspec

from sqlstream.client.rest.answer_bodies import (
    AggregatedMetric,
    Application,
    ApplicationExceptions,
    Applications,
    AttemptAccumulators,
    BackPressure,
    CheckpointBody,
    CheckpointConfig,
    CheckpointStatistics,
    CheckpointTriggerStatus,
    DataSets,
    Environment,
    Errors,
    Exceptions,
    ExecutionResult,
    FlameGraph,
    JobAccumulators,
    JobConfig,
    JobIds,
    JobList,
    JobRecords,
    JobState,
    KeyValue,
    Logs,
    Metric,
    Nothing,
    PlanBody,
    RescaleTriggerStatus,
    SubtasksInCheckpoint,
    SubtaskTimes,
    TaskManagers,
    ThreadDump,
    Totals,
    Trigger,
    TriggerStatus,
    UserAccumulators,
    Vertex,
    VertexAccumulators,
    VertexParallelism,
    VertexTaskManagers,
)
from sqlstream.client.rest.checkpoint_requests import (
    CheckpointRequest,
    DisposalRequest,
    SavepointRequest,
    StopRequest,
)
from sqlstream.client.rest.messages import (
    ClusterOverview,
    DashboardConfig,
    JobDetailsBody,
    SubtaskBody,
    TaskManagerDetailsBody,
)

Extra = dict[str, Any]

TEXT = "text/plain"


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
    ("GET", "/jobmanager/stdout"): Document(TEXT),
    ("GET", "/jobs"): Document(JobIds),
    ("GET", "/jobs/overview"): Document(JobList),
    ("GET", "/jobs/metrics"): Document(list[AggregatedMetric]),
    ("GET", _JOB): Document(JobDetailsBody),
    ("PATCH", _JOB): Document(Nothing, 202),
    ("GET", f"{_JOB}/yarn-cancel"): Document(Nothing, 202),
    ("POST", f"{_JOB}/stop"): Document(Trigger, 202, StopRequest),
    ("POST", f"{_JOB}/savepoints"): Document(Trigger, 202, SavepointRequest),
    ("GET", f"{_JOB}/savepoints/{{trigger_id}}"): Document(TriggerStatus),
    ("POST", "/savepoint-disposal"): Document(Trigger, request=DisposalRequest),
    ("GET", "/savepoint-disposal/{trigger_id}"): Document(TriggerStatus),
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
    ("POST", f"{_JOB}/checkpoints"): Document(Trigger, 202, CheckpointRequest),
    ("GET", f"{_JOB}/checkpoints/{{trigger_id}}"): Document(CheckpointTriggerStatus),
    ("GET", f"{_JOB}/checkpoints/details/{{checkpoint_id}}"): Document(CheckpointBody),
    ("GET", f"{_JOB}/checkpoints/details/{{checkpoint_id}}/subtasks/{{vertex_id}}"): Document(
        SubtasksInCheckpoint
    ),
    ("PATCH", f"{_JOB}/rescaling"): Document(Trigger, 202),
    ("GET", f"{_JOB}/rescaling/{{trigger_id}}"): Document(RescaleTriggerStatus),
    ("GET", f"{_JOB}/resource-requirements"): Document(dict[str, VertexParallelism]),
    ("PUT", f"{_JOB}/resource-requirements"): Document(Nothing, request=dict[str, VertexParallelism]),
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
    ("GET", f"{_TASK_MANAGER}/logs/{{name}}"): Document(TEXT),
    ("GET", f"{_TASK_MANAGER}/log"): Document(TEXT),
    ("GET", f"{_TASK_MANAGER}/stdout"): Document(TEXT),
    ("GET", f"{_TASK_MANAGER}/thread-dump"): Document(ThreadDump),
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
