"""What becomes of kept jobs when the server starts again."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from sqlstream.client.server.job_checkpoint_stores import JobCheckpointStores
from sqlstream.client.server.job_store import BLAMED_MAX, FileJobStore, KeptJob
from sqlstream.errors import (
    ErrorInfo,
    ExternalError,
    FailureReason,
    InternalError,
    Retry,
    SqlStreamError,
    error_info,
)
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import JobDetails, JobMetrics, SubtaskDetails, VertexDetails
from sqlstream.runtime.host.artifacts import ArtifactStore
from sqlstream.runtime.jobmanager.collaborators import Committer
from sqlstream.runtime.jobmanager.events import CancelRequested, EndedJob, SavepointRequested, SinkCommit
from sqlstream.runtime.logs import of_job
from sqlstream.specs import SinkSpec

logger = logging.getLogger(__name__)

LOST_WITH_CLIENT = error_info("SS6030", "the server ended while the query ran, and its client with it")


PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0)
"""How long the start of a server waits, for all its jobs together, for stores of checkpoints that cannot be reached."""


NOT_STARTED = "the job does not run until the server starts again: %s"


@dataclasses.dataclass(frozen=True)
class Unreachable:
    """The store of a job's checkpoints does not answer, so that nobody knows what the job can go on from."""

    error: SqlStreamError


@dataclasses.dataclass(frozen=True)
class RecoveredJob:
    """A job that runs again: from the checkpoint at `path`, its last, or from its beginning when that is empty. One that was to
    end commits what belongs to that checkpoint, and then ends."""

    job: KeptJob
    path: str = ""


@dataclasses.dataclass(frozen=True)
class Recovery:
    """`again` are the jobs to submit once the cluster runs, in the order of their first submission; `waiting` are those that are
    left to the next start, SUSPENDED for what keeps them from running."""

    again: tuple[RecoveredJob, ...]
    waiting: tuple[EndedJob, ...] = ()


class Submitter(Protocol):
    """The part of a cluster that recovery needs (`EmbeddedCluster`)."""

    def submit(self, graph: JobGraph, is_recovered: bool = False) -> None: ...

    def end_again(self, request: CancelRequested | SavepointRequested) -> None: ...

    def list_suspended(self, job: EndedJob) -> None: ...


def recover(
    store: FileJobStore,
    committer: Committer,
    checkpoints: JobCheckpointStores,
    now_ms: Callable[[], int],
    pause: Callable[[float], None] = time.sleep,
) -> Recovery:
    """Bring kept jobs to an end or to where they can run again; to be called before the cluster starts.

    A query is lost with its client. A job that had failed or was cancelled, and whose hidden output was being removed, ends so.
    One whose tasks had all finished, or that was stopped with a savepoint, is committed, which does nothing where its output is
    visible already; when that cannot be done, its last output is removed and it runs again, and when that cannot be done either,
    it has failed. Any other job runs again: from its last checkpoint, whose commit its JobMaster repeats, or from its beginning,
    after the hidden files of its last run were removed. A job whose newest checkpoint is damaged has failed: what it committed
    since an older one would be written again. One whose checkpoints cannot be reached, or that has had some and has none, also
    after some pauses, is left as it is to the next start; and so is one whose output only the settings of this server keep from
    being completed or removed, and one with which a mistake of ours shows. A job with which BLAMED_MAX servers have ended is set
    aside."""
    again, waiting = [], []
    pauses = iter(PAUSES_S)
    kept = store.kept()
    if kept:
        store.begin_taking_up()
    checkpoints.remove_left({job.graph.job_id for job in kept} | store.aside())
    for job in kept:
        try:
            if store.blamed(job.graph.job_id) >= BLAMED_MAX:
                _set_aside(job, store, now_ms)
            elif (found := _recovered(job, store, committer, checkpoints, now_ms, pauses, pause)) is not None:
                again.append(found)
        except SqlStreamError as error:
            waiting.append(_waiting(job, error, now_ms))
        except Exception:  # the boundary of a job: others go on
            logger.exception(NOT_STARTED, "its recovery broke off", extra=of_job(job.graph.job_id))
    _remove_temporary(store, checkpoints)
    if not again:
        store.end_taking_up()
    return Recovery(tuple(again), tuple(waiting))


def _remove_temporary(store: FileJobStore, checkpoints: JobCheckpointStores) -> None:
    """Remove savepoints whose users ended with the last server; those that cannot be reached wait for the next start."""
    for path in store.temporary():
        try:
            checkpoints.remove_savepoint(path)
            store.mark_temporary(path, False)
        except SqlStreamError as error:
            logger.warning(
                'the temporary savepoint "%s" stays until the server starts again: %s', path, error
            )


def _recovered(
    job: KeptJob,
    store: FileJobStore,
    committer: Committer,
    checkpoints: JobCheckpointStores,
    now_ms: Callable[[], int],
    pauses: Iterator[float],
    pause: Callable[[float], None],
) -> RecoveredJob | None:
    """Bring one job to its end, or to where it can run again; None when it does not. SqlStreamError for what may pass."""
    job_id = job.graph.job_id
    if job.graph.is_query:
        logger.warning("the query is lost with its client", extra=of_job(job_id))
        _remove_checkpoints(job, checkpoints, JobStatus.CANCELED)
        store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), LOST_WITH_CLIENT))
    elif job.end is not None and not job.is_committed:
        _end(job, job.end, committer, checkpoints, store, now_ms)
    elif job.commits is not None and (job.is_committed or _is_committed(job, job.commits, committer)):
        if not job.is_committed:
            # Its checkpoints go: if this server is killed too, the next one must not take their absence for a beginning.
            store.mark_committed(job)
        logger.info("the output of the job is complete", extra=of_job(job_id))
        _remove_checkpoints(job, checkpoints, JobStatus.FINISHED)
        store.remove(job_id, ended_job(job, JobStatus.FINISHED, now_ms()))
    elif isinstance(found := _reached(job, store, checkpoints, pauses, pause), Unreachable):
        raise found.error
    elif isinstance(found, ErrorInfo):
        logger.error("the job cannot go on: %s", found.message, extra=of_job(job_id))
        store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), found))
    elif found and job.commits is None:
        return RecoveredJob(job, found)
    elif isinstance(job.asked, CancelRequested) and job.commits is None:
        _end(job, JobStatus.CANCELED, committer, checkpoints, store, now_ms)
    elif (error := _undo(job, committer)) is not None and job.commits is not None:
        # Some of its files may be visible: running it again could show rows twice.
        store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), _half_committed(error)))
    else:
        store.unmark_committing(job_id)
        return RecoveredJob(job, found)
    return None


def submit_again(
    recovery: Recovery, cluster: Submitter, store: FileJobStore, now_ms: Callable[[], int]
) -> None:
    """Submit the jobs that run again. One whose checkpoints are damaged has failed. One whose checkpoints cannot be reached now,
    or that is refused, is left: an earlier server has taken it, so that what is wrong is with the settings of this one."""
    for recovered in recovery.again:
        job, job_id = recovered.job, recovered.job.graph.job_id
        origin = f"goes on from {recovered.path}" if recovered.path else "starts again from its beginning"
        logger.warning('job "%s" %s', job.graph.name, origin, extra=of_job(job_id))
        try:
            with store.at_risk(job_id):
                cluster.submit(job.graph, is_recovered=True)
            if job.asked is not None:
                logger.warning("the job ends, as it was asked to", extra=of_job(job_id))
                cluster.end_again(job.asked)
        except SqlStreamError as error:
            if _may_pass(error):
                cluster.list_suspended(_waiting(job, error, now_ms))
                continue
            logger.error("the job cannot run again: %s", error, extra=of_job(job_id))
            store.remove(job_id, ended_job(job, JobStatus.FAILED, now_ms(), ErrorInfo.of(error)))
        except Exception:  # the boundary of a job: others go on
            logger.exception(NOT_STARTED, "its submission broke off", extra=of_job(job_id))
    store.end_taking_up()


def keep_files(store: FileJobStore, artifacts: ArtifactStore) -> None:
    """Keep the files of all jobs that may start again, those among them that do not start with this server."""
    for graph in store.graphs():
        artifacts.need(graph.job_id, graph.artifacts)


def _waiting(job: KeptJob, error: SqlStreamError, now_ms: Callable[[], int]) -> EndedJob:
    """The record of a job that waits for the next start."""
    said = "; ".join(filter(None, (error.message, error.hint)))
    logger.error(NOT_STARTED, said, extra=of_job(job.graph.job_id))
    return ended_job(job, JobStatus.SUSPENDED, now_ms(), ErrorInfo.of(error))


def _set_aside(job: KeptJob, store: FileJobStore, now_ms: Callable[[], int]) -> None:
    job_id = job.graph.job_id
    path = store.set_aside(job_id)
    error = error_info(
        "SS6040",
        f"{BLAMED_MAX} servers have ended while they dealt with the job",
        detail=f'it is set aside as "{path}", and its checkpoints stay',
        hint=f'stop the server, rename the file to "{path.removesuffix(".aside")}" and start the server to run the job again',
    )
    logger.error("%s: %s; %s", error.message, error.detail, error.hint, extra=of_job(job_id))
    store.put_ended(ended_job(job, JobStatus.FAILED, now_ms(), error))


def _reached(
    job: KeptJob,
    store: FileJobStore,
    checkpoints: JobCheckpointStores,
    pauses: Iterator[float],
    pause: Callable[[float], None],
) -> str | ErrorInfo | Unreachable:
    """Like `_last_checkpoint`, which is repeated while there are pauses left."""
    while True:
        with store.at_risk(job.graph.job_id):
            found = _last_checkpoint(job, checkpoints)
        if not isinstance(found, Unreachable):
            break
        seconds = next(pauses, None)
        if seconds is None:
            break
        logger.warning(
            "tried again in %g s: %s", seconds, found.error.message, extra=of_job(job.graph.job_id)
        )
        pause(seconds)
    return found


def _last_checkpoint(job: KeptJob, checkpoints: JobCheckpointStores) -> str | ErrorInfo | Unreachable:
    """The path of what the job goes on from, empty when there is nothing; or why it can neither go on nor begin again."""
    try:
        newest = checkpoints.retained(job.graph, job.newest_id).newest()
    except SqlStreamError as error:
        if not _may_pass(error):
            return ErrorInfo.of(error)
        if isinstance(error, ExternalError):
            return Unreachable(error)
        raise
    if newest is None and job.saved_mark:
        # To begin anew would write all rows again.
        return Unreachable(_gone(checkpoints.directory_of(job.graph), job.saved_mark))
    return newest.path if newest is not None else ""


def _gone(directory: str, mark: str) -> ExternalError:
    return ExternalError(
        "SS5001",
        f'it has had checkpoints in "{directory}", and none is there',
        hint=f'mount their volume or bring them back, or remove "{mark}" to run the job from its beginning',
        retry=Retry.BACKOFF,
    )


def _may_pass(error: SqlStreamError) -> bool:
    """What is damaged stays so, and so do mistakes of ours. A store may be reached later, and a server may be started with the
    settings that a job needs, or of the release that reads its checkpoints."""
    is_damaged = error.code.startswith("SS62") and error.code != "SS6211"
    return not isinstance(error, InternalError) and not is_damaged


def _is_refused(error: Exception) -> bool:
    return ErrorInfo.of(error).reason is FailureReason.SERVER_REFUSED


def _remove_checkpoints(job: KeptJob, checkpoints: JobCheckpointStores, end: JobStatus) -> None:
    """Nobody goes on from them any more, unless the job is to leave them when it ends so."""
    try:
        checkpoints.remove(job.graph, end)
    except SqlStreamError as error:
        logger.warning("checkpoints of the job are left over: %s", error, extra=of_job(job.graph.job_id))


def _is_committed(job: KeptJob, commits: tuple[SinkCommit, ...], committer: Committer) -> bool:
    job_id = job.graph.job_id
    try:
        committer.commit(job_id, job.checkpoint_id, commits)
    except (SqlStreamError, OSError) as error:
        if _is_refused(error):
            raise
        logger.warning("the output of the job could not be completed: %s", error, extra=of_job(job_id))
        return False
    return True


def _end(
    job: KeptJob,
    end: JobStatus,
    committer: Committer,
    checkpoints: JobCheckpointStores,
    store: FileJobStore,
    now_ms: Callable[[], int],
) -> None:
    """Remove what the job has not committed, and end it as it was about to."""
    logger.info("the job ends as it was about to: %s", end.value, extra=of_job(job.graph.job_id))
    cause = job.error
    if (error := _undo(job, committer)) is not None and job.commits is not None:
        end, cause = JobStatus.FAILED, _half_committed(error)
    _remove_checkpoints(job, checkpoints, end)
    store.remove(job.graph.job_id, ended_job(job, end, now_ms(), cause))


def _undo(job: KeptJob, committer: Committer) -> Exception | None:
    """Remove the output of a job's last run; returns what prevented it. UserError where this server may not."""
    commits = job.commits if job.commits is not None else sinks_of(job.graph)
    try:
        committer.abort(job.graph.job_id, commits)
    except (SqlStreamError, OSError) as error:
        if _is_refused(error):
            raise
        # Unless the job was being committed, what stays is hidden from readers.
        logger.warning("the last run of the job left files: %s", error, extra=of_job(job.graph.job_id))
        return error
    return None


def _half_committed(error: Exception) -> ErrorInfo:
    return error_info(
        "SS6038",
        f"the server ended during the commit of the job, which can be neither completed nor undone: {error}",
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
