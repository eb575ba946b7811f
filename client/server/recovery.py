"""What becomes of kept jobs when the server starts again."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from client.cluster_client import ClusterClient
from client.server.job_store import FileJobStore, KeptJob
from runtime.jobmanager.collaborators import Committer
from runtime.jobmanager.events import EndedJob, SinkCommit
from runtime.logs import of_job
from sqlstream.errors import ErrorInfo, FailureReason, SqlStreamError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import JobDetails, JobMetrics, SubtaskDetails, VertexDetails
from sqlstream.specs import SinkSpec

logger = logging.getLogger(__name__)

LOST_WITH_CLIENT = ErrorInfo(
    "SS6030",
    "the server ended while the query ran, and its client with it",
    reason=FailureReason.CANCELLED,
    hint="run the query again",
)


@dataclasses.dataclass(frozen=True)
class Recovery:
    """`again` are the jobs to submit once the cluster runs, in the order of their first submission."""

    again: tuple[KeptJob, ...]


def recover(store: FileJobStore, committer: Committer, now_ms: Callable[[], int]) -> Recovery:
    """Bring kept jobs to an end or to where they can run again; to be called before the cluster starts.

    A query is lost with its client. A job whose tasks had all finished is committed, which does nothing where its output is
    visible already; when that cannot be done, its output is removed and it runs again, and when that cannot be done either, it
    has failed. Any other job runs again from its
    beginning, after the hidden files of its last run were removed."""
    again = []
    for job in store.kept():
        job_id = job.graph.job_id
        if job.graph.is_query:
            logger.warning("the query is lost with its client", extra=of_job(job_id))
            store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), LOST_WITH_CLIENT))
        elif job.commits is not None and _is_committed(job, job.commits, committer):
            logger.info("the output of the job is complete", extra=of_job(job_id))
            store.remove(job_id, ended_job(job, JobStatus.FINISHED, now_ms()))
        elif (error := _undo(job, committer)) is not None and job.commits is not None:
            # Some of its files may be visible: running it again could show rows twice.
            store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), _half_committed(error)))
        else:
            store.unmark_committing(job_id)
            again.append(job)
    return Recovery(tuple(again))


def submit_again(
    recovery: Recovery, cluster: ClusterClient, store: FileJobStore, now_ms: Callable[[], int]
) -> None:
    """Submit the jobs that run again. One that is refused now has failed."""
    for job in recovery.again:
        job_id = job.graph.job_id
        logger.warning('job "%s" starts again from its beginning', job.graph.name, extra=of_job(job_id))
        try:
            cluster.submit(job.graph)
        except SqlStreamError as error:
            logger.error("the job cannot run again: %s", error, extra=of_job(job_id))
            store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), ErrorInfo.of(error)))


def _is_committed(job: KeptJob, commits: tuple[SinkCommit, ...], committer: Committer) -> bool:
    job_id = job.graph.job_id
    try:
        committer.commit(job_id, job.checkpoint_id, commits)
    except (SqlStreamError, OSError) as error:
        logger.warning("the output of the job could not be completed: %s", error, extra=of_job(job_id))
        return False
    return True


def _undo(job: KeptJob, committer: Committer) -> Exception | None:
    """Remove the output of a job's last run; returns what prevented it."""
    commits = job.commits if job.commits is not None else sinks_of(job.graph)
    try:
        committer.abort(job.graph.job_id, commits)
    except (SqlStreamError, OSError) as error:
        # Unless the job was being committed, what stays is hidden from readers.
        logger.warning("the last run of the job left files: %s", error, extra=of_job(job.graph.job_id))
        return error
    return None


def _half_committed(error: Exception) -> ErrorInfo:
    return ErrorInfo(
        "SS6038",
        f"the server ended during the commit of the job, which can be neither completed nor undone: {error}",
        reason=FailureReason.EXTERNAL,
        hint="mend its sink's directory and look at what is in it before you submit the job again",
    )


def sinks_of(graph: JobGraph) -> tuple[SinkCommit, ...]:
    """The sinks of a job of whose subtasks nothing is known."""
    return tuple(
        SinkCommit(v.id, o.id, o.spec, ())
        for v in graph.vertices
        for o in v.operators
        if isinstance(o.spec, SinkSpec)
    )


def ended_job(job: KeptJob, status: JobStatus, now_ms: int, error: ErrorInfo | None = None) -> EndedJob:
    """The record of a job that ended with an earlier server, which can say nothing of its tasks."""
    state = ExecutionState.FINISHED if status is JobStatus.FINISHED else ExecutionState.CANCELED
    graph = job.graph
    details = JobDetails(
        job_id=graph.job_id,
        name=graph.name,
        status=status,
        start_ms=job.submitted_ms,
        end_ms=now_ms,
        timestamps_ms={JobStatus.INITIALIZING.value: job.submitted_ms, status.value: now_ms},
        vertices=tuple(_ended_vertex(vertex, state) for vertex in graph.vertices),
        error=error,
        is_batch=graph.is_batch,
    )
    return EndedJob(graph, details, JobMetrics(graph.job_id, status, {}, {}))


def _ended_vertex(vertex: JobVertex, state: ExecutionState) -> VertexDetails:
    subtasks = tuple(SubtaskDetails(n, 0, "", state, "", {}) for n in range(vertex.parallelism))
    return VertexDetails(vertex.id, vertex.name, vertex.parallelism, state, subtasks)
