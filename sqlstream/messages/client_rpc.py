"""The control messages between a JobManager and clients in other processes: msgspec structs, tagged by their class name.

Requests of clients (`ClientRequest`) are calls: one request, one reply. A client in another process attaches first
(`AttachClient`): its one stream carries `ClientEvent`s until it ends, and while the stream lasts the client is there. Its
queries are cancelled when it is not.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sqlstream.bounds import Count
from sqlstream.errors import ErrorInfo
from sqlstream.graph.artifacts import PART_BYTES, Artifact, Digest
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics


class AttachClient(rpc.RpcMessage, frozen=True):
    """Opens a client's stream. Plans differ from release to release, so that `version` must be the JobManager's own."""

    client_id: str
    version: str
    protocol_version: Count = rpc.PROTOCOL_VERSION


class DetachClient(rpc.RpcMessage, frozen=True):
    """End the client's stream. Its queries are cancelled; its other jobs run on."""

    client_id: str


class AwaitJobEnd(rpc.RpcMessage, frozen=True):
    """Send JobEnded to the client once the job has ended, behind all lines that it has printed."""

    job_id: str
    client_id: str


class SubmitJob(rpc.RpcMessage, frozen=True):
    """Store the job, then run it. Repeating the same graph is harmless. The attached client takes the lines that the job
    prints, and a query ends with it; without one, they go where the JobManager's own go."""

    job_graph: JobGraph
    client_id: str = ""


class CancelJob(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestJobStatus(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestJobDetails(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestDescribedJob(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestJobMetrics(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestJobExceptions(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestJobGraph(rpc.RpcMessage, frozen=True):
    job_id: str


class RequestJobOverview(rpc.RpcMessage, frozen=True):
    pass


class RequestClusterOverview(rpc.RpcMessage, frozen=True):
    pass


class RequestCheckpointStatistics(rpc.RpcMessage, frozen=True):
    job_id: str


class TakeCheckpoint(rpc.RpcMessage, frozen=True):
    """Take a checkpoint of the job beside those of its interval. The client chooses `trigger_id`, and repeating the message is
    harmless; RequestSavepointStatus tells how it went. The same holds for savepoints."""

    job_id: str
    trigger_id: str


class TriggerSavepoint(rpc.RpcMessage, frozen=True):
    """Take a savepoint into a new directory below `directory`; empty: below the job's execution.checkpointing.savepoint-dir.
    `is_temporary`: whoever asks for it disposes of it, and otherwise the next start of a server does."""

    job_id: str
    trigger_id: str
    directory: str = ""
    is_temporary: bool = False


class StopWithSavepoint(rpc.RpcMessage, frozen=True):
    """Take a savepoint, commit its output and end the job. `is_drain`: time passes to its end first, so that all windows
    fire: such a savepoint is for a job that does not go on with the same input. `is_temporary` as in TriggerSavepoint."""

    job_id: str
    trigger_id: str
    directory: str = ""
    is_drain: bool = False
    is_temporary: bool = False


SavepointRequest = TriggerSavepoint | StopWithSavepoint


class RequestSavepointStatus(rpc.RpcMessage, frozen=True):
    job_id: str
    trigger_id: str


class DisposeSavepoint(rpc.RpcMessage, frozen=True):
    """Remove the savepoint at `path`, its directory or the `_metadata` in it, reached by these settings. Answered when it is
    removed."""

    path: str
    config: dict[str, str] = {}


class JobSubmitted(rpc.RpcMessage, frozen=True):
    job_id: str


class JobDetailsReply(rpc.RpcMessage, frozen=True):
    details: rpc.JobDetails


class DescribedJobReply(rpc.RpcMessage, frozen=True):
    """Both of one moment."""

    details: rpc.JobDetails
    job_graph: JobGraph


class JobMetricsReply(rpc.RpcMessage, frozen=True):
    metrics: rpc.JobMetrics


class JobExceptionsReply(rpc.RpcMessage, frozen=True):
    """The job's failures: its cause first, then what else its tasks reported."""

    errors: tuple[ErrorInfo, ...]


class JobGraphReply(rpc.RpcMessage, frozen=True):
    job_graph: JobGraph


class JobOverviewReply(rpc.RpcMessage, frozen=True):
    jobs: tuple[rpc.JobOverviewEntry, ...]


class ClusterOverviewReply(rpc.RpcMessage, frozen=True):
    task_managers: tuple[rpc.TaskManagerOverview, ...]


class CheckpointStatisticsReply(rpc.RpcMessage, frozen=True):
    statistics: CheckpointStatistics


class SavepointStatusReply(rpc.RpcMessage, frozen=True):
    """How far a checkpoint or savepoint is that a client has triggered. `is_done` with `path` once it is completed (and the job
    has ended, of one with which it stops), or with `error`. `checkpoint_id` is 0 until it has begun."""

    job_id: str
    trigger_id: str
    is_done: bool
    checkpoint_id: Count = 0
    path: str = ""
    error: ErrorInfo | None = None


class SavepointDisposed(rpc.RpcMessage, frozen=True):
    path: str


class AddArtifactPart(rpc.RpcMessage, frozen=True):
    """The bytes of a file from `offset` on; none: how many are there? A repetition is harmless."""

    artifact: Artifact
    offset: Count
    data: Annotated[bytes, msgspec.Meta(max_length=PART_BYTES)]


class RequestArtifact(rpc.RpcMessage, frozen=True):
    """Is the file there?"""

    digest: Digest


class ArtifactHeld(rpc.RpcMessage, frozen=True):
    """How many bytes of a file the cluster has, and whether they are all that there are."""

    size: Count
    is_whole: bool = True


class RequestFailed(rpc.RpcMessage, frozen=True):
    """The request itself was refused: an unknown job, a job id used twice."""

    error: ErrorInfo


class ClientDetached(rpc.RpcMessage, frozen=True):
    pass


class ClientAttached(rpc.RpcMessage, frozen=True):
    """The first event of a client's stream."""


class JobPrinted(rpc.RpcMessage, frozen=True):
    """Lines that a job has printed, or the first rows that its sources could not decode."""

    job_id: str
    lines: list[str]
    is_error: bool


class JobEnded(rpc.RpcMessage, frozen=True):
    """The answer to AwaitJobEnd."""

    reply: rpc.JobStatusReply


ClientEvent = ClientAttached | JobPrinted | JobEnded | RequestFailed
"""What comes over a client's stream; RequestFailed is the only event when it is refused."""


JobManagerRequest = (
    CancelJob
    | RequestJobStatus
    | RequestJobDetails
    | RequestDescribedJob
    | RequestJobMetrics
    | RequestJobExceptions
    | RequestJobGraph
    | RequestJobOverview
    | RequestClusterOverview
    | RequestCheckpointStatistics
    | TakeCheckpoint
    | RequestSavepointStatus
)
"""What the JobManager alone answers."""
ClientRequest = (
    JobManagerRequest
    | SubmitJob
    | AwaitJobEnd
    | DetachClient
    | SavepointRequest
    | DisposeSavepoint
    | AddArtifactPart
    | RequestArtifact
)
ClientReply = (
    JobSubmitted
    | ClientDetached
    | rpc.JobStatusReply
    | JobDetailsReply
    | DescribedJobReply
    | JobMetricsReply
    | JobExceptionsReply
    | JobGraphReply
    | JobOverviewReply
    | ClusterOverviewReply
    | CheckpointStatisticsReply
    | SavepointStatusReply
    | SavepointDisposed
    | ArtifactHeld
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
