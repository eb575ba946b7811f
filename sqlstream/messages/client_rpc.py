"""The control messages between a JobManager and clients in other processes: msgspec structs, tagged by their class name.

Requests of clients (`ClientRequest`) are calls: one request, one reply. A client in another process attaches first
(`AttachClient`): its one stream carries `ClientEvent`s until it ends, and while the stream lasts the client is there. Its
queries are cancelled when it is not.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.rpc import (
    PROTOCOL_VERSION,
    JobDetails,
    JobMetrics,
    JobOverviewEntry,
    JobStatusReply,
    RpcMessage,
    TaskManagerOverview,
)


class AttachClient(RpcMessage, frozen=True):
    """Opens a client's stream. Plans differ from release to release, so that `version` must be the JobManager's own."""

    client_id: str
    version: str
    protocol_version: int = PROTOCOL_VERSION


class DetachClient(RpcMessage, frozen=True):
    """End the client's stream. Its queries are cancelled; its other jobs run on."""

    client_id: str


class AwaitJobEnd(RpcMessage, frozen=True):
    """Send JobEnded to the client once the job has ended, behind all lines that it has printed."""

    job_id: str
    client_id: str


class SubmitJob(RpcMessage, frozen=True):
    """Store the job, then run it. Repeating the same graph is harmless. The attached client takes the lines that the job
    prints, and a query ends with it; without one, they go where the JobManager's own go."""

    job_graph: JobGraph
    client_id: str = ""


class CancelJob(RpcMessage, frozen=True):
    job_id: str


class RequestJobStatus(RpcMessage, frozen=True):
    job_id: str


class RequestJobDetails(RpcMessage, frozen=True):
    job_id: str


class RequestJobMetrics(RpcMessage, frozen=True):
    job_id: str


class RequestJobExceptions(RpcMessage, frozen=True):
    job_id: str


class RequestJobGraph(RpcMessage, frozen=True):
    job_id: str


class RequestJobOverview(RpcMessage, frozen=True):
    pass


class RequestClusterOverview(RpcMessage, frozen=True):
    pass


class JobSubmitted(RpcMessage, frozen=True):
    job_id: str


class JobDetailsReply(RpcMessage, frozen=True):
    details: JobDetails


class JobMetricsReply(RpcMessage, frozen=True):
    metrics: JobMetrics


class JobExceptionsReply(RpcMessage, frozen=True):
    """The job's failures: its cause first, then what else its tasks reported."""

    errors: tuple[ErrorInfo, ...]


class JobGraphReply(RpcMessage, frozen=True):
    job_graph: JobGraph


class JobOverviewReply(RpcMessage, frozen=True):
    jobs: tuple[JobOverviewEntry, ...]


class ClusterOverviewReply(RpcMessage, frozen=True):
    task_managers: tuple[TaskManagerOverview, ...]


class RequestFailed(RpcMessage, frozen=True):
    """The request itself was refused: an unknown job, a job id used twice."""

    error: ErrorInfo


class ClientDetached(RpcMessage, frozen=True):
    pass


class ClientAttached(RpcMessage, frozen=True):
    """The first event of a client's stream."""


class JobPrinted(RpcMessage, frozen=True):
    """Lines that a job has printed, or the first rows that its sources could not decode."""

    job_id: str
    lines: list[str]
    is_error: bool


class JobEnded(RpcMessage, frozen=True):
    """The answer to AwaitJobEnd."""

    reply: JobStatusReply


ClientEvent = ClientAttached | JobPrinted | JobEnded | RequestFailed
"""What comes over a client's stream; RequestFailed is the only event when it is refused."""


JobManagerRequest = (
    SubmitJob
    | CancelJob
    | RequestJobStatus
    | RequestJobDetails
    | RequestJobMetrics
    | RequestJobExceptions
    | RequestJobGraph
    | RequestJobOverview
    | RequestClusterOverview
)
ClientRequest = JobManagerRequest | AwaitJobEnd | DetachClient
ClientReply = (
    JobSubmitted
    | ClientDetached
    | JobStatusReply
    | JobDetailsReply
    | JobMetricsReply
    | JobExceptionsReply
    | JobGraphReply
    | JobOverviewReply
    | ClusterOverviewReply
    | RequestFailed
)

_request_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ClientRequest)
_reply_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ClientReply)
_attach_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(AttachClient)
_event_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ClientEvent)


def decode_client_request(data: bytes) -> ClientRequest:
    request: ClientRequest = _request_decoder.decode(data)
    return request


def decode_client_reply(data: bytes) -> ClientReply:
    reply: ClientReply = _reply_decoder.decode(data)
    return reply


def decode_attach_client(data: bytes) -> AttachClient:
    attach: AttachClient = _attach_decoder.decode(data)
    return attach


def decode_client_event(data: bytes) -> ClientEvent:
    event: ClientEvent = _event_decoder.decode(data)
    return event
