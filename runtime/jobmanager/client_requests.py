"""Answers the messages of clients."""

from __future__ import annotations

from runtime.jobmanager.shell import JobManagerShell
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.messages.client_rpc import (
    CancelJob,
    ClientReply,
    ClusterOverviewReply,
    JobDetailsReply,
    JobExceptionsReply,
    JobGraphReply,
    JobManagerRequest,
    JobMetricsReply,
    JobOverviewReply,
    JobSubmitted,
    RequestClusterOverview,
    RequestFailed,
    RequestJobDetails,
    RequestJobExceptions,
    RequestJobGraph,
    RequestJobMetrics,
    RequestJobOverview,
    RequestJobStatus,
    SubmitJob,
)


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
