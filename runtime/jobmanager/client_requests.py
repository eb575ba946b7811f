"""Answers the messages of clients."""

from __future__ import annotations

from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.messages.client_rpc import (
    CancelJob,
    CheckpointStatisticsReply,
    ClientReply,
    ClusterOverviewReply,
    DisposeSavepoint,
    JobDetailsReply,
    JobExceptionsReply,
    JobGraphReply,
    JobManagerRequest,
    JobMetricsReply,
    JobOverviewReply,
    JobSubmitted,
    RequestCheckpointStatistics,
    RequestClusterOverview,
    RequestFailed,
    RequestJobDetails,
    RequestJobExceptions,
    RequestJobGraph,
    RequestJobMetrics,
    RequestJobOverview,
    RequestJobStatus,
    RequestSavepointStatus,
    SavepointDisposed,
    SavepointStatusReply,
    StopWithSavepoint,
    SubmitJob,
    TakeCheckpoint,
    TriggerSavepoint,
)
from sqlstream.runtime.jobmanager.shell import JobManagerShell


def answer_request(shell: JobManagerShell, request: JobManagerRequest) -> ClientReply:
    """Answer a client's request message; an error becomes RequestFailed."""
    try:
        return _answer(shell, request)
    except SqlStreamError as error:
        return RequestFailed(ErrorInfo.of(error))


def _answer(shell: JobManagerShell, request: JobManagerRequest) -> ClientReply:
    match request:
        case SubmitJob(job_graph):
            return JobSubmitted(shell.submit(job_graph))
        case CancelJob(job_id):
            shell.cancel(job_id)
            return shell.status(job_id)
        case RequestJobStatus(job_id):
            return shell.status(job_id)
        case RequestJobDetails(job_id):
            return JobDetailsReply(shell.details(job_id))
        case RequestJobMetrics(job_id):
            return JobMetricsReply(shell.metrics(job_id))
        case RequestJobExceptions(job_id):
            return JobExceptionsReply(shell.exceptions(job_id))
        case RequestJobGraph(job_id):
            return JobGraphReply(shell.job_graph(job_id))
        case RequestJobOverview():
            return JobOverviewReply(shell.overview())
        case RequestClusterOverview():
            return ClusterOverviewReply(shell.cluster())
        case RequestCheckpointStatistics(job_id):
            return CheckpointStatisticsReply(shell.checkpoints(job_id))
        case TakeCheckpoint(job_id, trigger_id):
            shell.take_checkpoint(job_id, trigger_id)
            return SavepointStatusReply(job_id, trigger_id, is_done=False)
        case TriggerSavepoint(job_id, trigger_id, directory):
            shell.trigger_savepoint(job_id, trigger_id, directory)
            return SavepointStatusReply(job_id, trigger_id, is_done=False)
        case StopWithSavepoint(job_id, trigger_id, directory, is_drain):
            shell.stop_with_savepoint(job_id, trigger_id, directory, is_drain)
            return SavepointStatusReply(job_id, trigger_id, is_done=False)
        case RequestSavepointStatus(job_id, trigger_id):
            return shell.savepoint_status(job_id, trigger_id)
        case DisposeSavepoint(path):
            shell.dispose_savepoint(path)
            return SavepointDisposed(path)
