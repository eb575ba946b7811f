"""Makes what a job's sinks wrote for a checkpoint visible, or removes what was not completed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph, written_tables
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.owned_files import CheckOwner, owned
from sqlstream.runtime.jobmanager.events import SinkCommit, StagedRows
from sqlstream.spi.connector import AbortsCommittables, NamesStagedRows, NotesCommits
from sqlstream.spi.files import Files


class ConnectorCommitter:
    """Calls each sink's connector. With `check_owner`, nothing is removed that another server may own. No state. Implements
    `Committer`."""

    def __init__(self, files: Files, check_owner: CheckOwner | None = None) -> None:
        self._files = files
        self._check_owner = check_owner

    def commit(
        self, job_id: str, checkpoint_id: int, commits: tuple[SinkCommit, ...], is_last: bool = False
    ) -> None:
        for commit in commits:
            sink = connector(commit.spec.connector)
            sink.commit(commit.spec, checkpoint_id, list(commit.committables), self._files)

    def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        for commit in commits:
            sink = connector(commit.spec.connector)
            if isinstance(sink, AbortsCommittables):
                files = owned(self._files, self._check_owner)
                sink.abort(commit.spec, job_id, list(commit.committables), files)

    def remove_staged(self, job_id: str, staged: tuple[StagedRows, ...]) -> None:
        for rows in staged:
            sink = connector(rows.spec.connector)
            if isinstance(sink, NamesStagedRows):
                files = owned(self._files, self._check_owner)
                sink.remove_staged(rows.spec, job_id, rows.writer_names, files)


def begin_with(earlier_job_id: str, job: JobGraph, files: Files) -> None:
    """A job is to go on from a checkpoint of an earlier one: tell its sinks. SqlStreamError for a table out of reach."""
    for _, spec in written_tables(job):
        sink = connector(spec.connector)
        if isinstance(sink, NotesCommits):
            sink.begin_with(spec, earlier_job_id, job.job_id, files)


# The end of a job, told to who follows it.


def tell_end(end: Future[JobStatusReply], job_id: str, callback: Callable[[JobStatusReply], None]) -> None:
    """Call back once with the job's final status: SUSPENDED when its JobManager ended first, or could not be asked."""

    def call(end: Future[JobStatusReply]) -> None:
        error = end.exception()
        if error is None:
            callback(end.result())
        else:
            callback(JobStatusReply(job_id, JobStatus.SUSPENDED, ErrorInfo.of(error)))

    end.add_done_callback(call)
