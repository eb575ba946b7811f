"""Answers clients in other processes, for the cluster to which they are attached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from sqlstream.errors import ErrorInfo, SqlStreamError, error_info
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages import client_rpc
from sqlstream.messages.rpc import JobStatusReply, encode_message
from sqlstream.runtime.jobmanager.shell import JobManagerShell
from sqlstream.runtime.net.attached_clients import AttachedClients


class Cluster(Protocol):
    """The part of `EmbeddedCluster` that clients in other processes use; see there."""

    def submit(self, graph: JobGraph, is_recovered: bool = False) -> None: ...
    def status(self, job_id: str) -> JobStatusReply: ...
    def when_ended(self, job_id: str, callback: Callable[[JobStatusReply], None]) -> None: ...
    def cancel(self, job_id: str) -> None: ...
    def take_savepoint(self, request: client_rpc.SavepointRequest) -> None: ...
    def dispose_savepoint(self, path: str, config: Mapping[str, str] | None = None) -> None: ...
    def add_artifact_part(self, artifact: Artifact, offset: int, data: bytes) -> int: ...
    def artifact_size(self, digest: str) -> int | None: ...


class ClientMessages:
    """Answers each message of a client in another process; a refusal is an answer too. Thread-safe.

    `on_change` is called with the name of the message and the job id before a client changes something, `forget` with the
    id of a job whose rows nobody takes any more. No state: which client has which job is known to `attached`."""

    def __init__(
        self,
        cluster: Cluster,
        shell: JobManagerShell,
        attached: AttachedClients,
        on_change: Callable[[str, str], None],
        forget: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._shell = shell
        self._attached = attached
        self._on_change = on_change
        self._forget = forget

    def attach(self, data: bytes, is_gone: Callable[[], bool]) -> Iterator[bytes]:
        """What a client is sent while it is attached; a refusal is the only event."""
        try:
            for event in self._attached.stream(client_rpc.decode_attach_client(data), is_gone):
                yield encode_message(event)
        except (msgspec.MsgspecError, SqlStreamError) as error:
            yield encode_message(client_rpc.RequestFailed(_refusal(error)))

    def answer(self, data: bytes) -> bytes:
        """Answer a request of a client in another process."""
        try:
            return encode_message(self._answered(client_rpc.decode_client_request(data)))
        except (msgspec.MsgspecError, RecursionError, SqlStreamError) as error:
            return encode_message(client_rpc.RequestFailed(_refusal(error)))

    def _answered(self, request: client_rpc.ClientRequest) -> client_rpc.ClientReply:
        match request:
            case client_rpc.SubmitJob(job_graph, client_id):
                self._on_change(type(request).__name__, job_graph.job_id)
                # The results of the job must be open before it runs.
                self._submit_of(client_id, job_graph)
                return client_rpc.JobSubmitted(job_graph.job_id)
            case client_rpc.AwaitJobEnd(job_id, client_id):
                self._cluster.when_ended(job_id, lambda reply: self._attached.tell_end(client_id, reply))
                return self._cluster.status(job_id)
            case client_rpc.DetachClient(client_id):
                self._attached.detach(client_id)
                return client_rpc.ClientDetached()
            case client_rpc.CancelJob(job_id):
                self._on_change(type(request).__name__, job_id)
                self._forget(job_id)
            case client_rpc.TakeCheckpoint(job_id, _):
                self._on_change(type(request).__name__, job_id)
            # The cluster may refuse a place, which the JobManager knows nothing of.
            case client_rpc.TriggerSavepoint() | client_rpc.StopWithSavepoint():
                self._on_change(type(request).__name__, request.job_id)
                self._cluster.take_savepoint(request)
                return client_rpc.SavepointStatusReply(request.job_id, request.trigger_id, is_done=False)
            case client_rpc.DisposeSavepoint(path, config):
                self._on_change(type(request).__name__, "")
                self._cluster.dispose_savepoint(path, config)
                return client_rpc.SavepointDisposed(path)
            case client_rpc.AddArtifactPart(artifact, offset, part):
                self._on_change(type(request).__name__, "")
                held = self._cluster.add_artifact_part(artifact, offset, part)
                return client_rpc.ArtifactHeld(held, held == artifact.size)
            case client_rpc.RequestArtifact(digest):
                size = self._cluster.artifact_size(digest)
                return client_rpc.ArtifactHeld(size or 0, size is not None)
        return answer_request(self._shell, request)

    def _submit_of(self, client_id: str, graph: JobGraph) -> None:
        """Submit the job of an attached client, or of one that gives no id."""
        if not client_id:
            self._cluster.submit(graph)
            return
        self._attached.adopt(client_id, graph.job_id, graph.is_query)
        try:
            self._cluster.submit(graph)
        except SqlStreamError:
            self._attached.release(graph.job_id)
            raise
        if graph.is_query and not self._attached.has_client(graph.job_id):
            # Its client was lost before the job was there to be cancelled.
            self._cluster.cancel(graph.job_id)
        self._cluster.when_ended(graph.job_id, lambda reply: self._attached.release(reply.job_id))


def _refusal(error: Exception) -> ErrorInfo:
    """What a client in another process is told when its request fails."""
    if isinstance(error, SqlStreamError):
        return ErrorInfo.of(error)
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return error_info("SS6014", f"the request cannot be read: {reason}")


def answer_request(shell: JobManagerShell, request: client_rpc.JobManagerRequest) -> client_rpc.ClientReply:
    """What the JobManager answers; SqlStreamError when it refuses."""
    match request:
        case client_rpc.CancelJob(job_id):
            shell.cancel(job_id)
            return shell.status(job_id)
        case client_rpc.RequestJobStatus(job_id):
            return shell.status(job_id)
        case client_rpc.RequestJobDetails(job_id):
            return client_rpc.JobDetailsReply(shell.details(job_id))
        case client_rpc.RequestDescribedJob(job_id):
            return client_rpc.DescribedJobReply(*shell.described(job_id))
        case client_rpc.RequestJobMetrics(job_id):
            return client_rpc.JobMetricsReply(shell.metrics(job_id))
        case client_rpc.RequestJobExceptions(job_id):
            return client_rpc.JobExceptionsReply(shell.exceptions(job_id))
        case client_rpc.RequestJobGraph(job_id):
            return client_rpc.JobGraphReply(shell.job_graph(job_id))
        case client_rpc.RequestJobOverview():
            return client_rpc.JobOverviewReply(shell.overview())
        case client_rpc.RequestClusterOverview():
            return client_rpc.ClusterOverviewReply(shell.cluster())
        case client_rpc.RequestCheckpointStatistics(job_id):
            return client_rpc.CheckpointStatisticsReply(shell.checkpoints(job_id))
        case client_rpc.TakeCheckpoint(job_id, trigger_id):
            shell.take_checkpoint(job_id, trigger_id)
            return client_rpc.SavepointStatusReply(job_id, trigger_id, is_done=False)
        case client_rpc.RequestSavepointStatus(job_id, trigger_id):
            return shell.savepoint_status(job_id, trigger_id)
