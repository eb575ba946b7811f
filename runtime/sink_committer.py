"""Makes what a job's sinks wrote for a checkpoint visible, or removes what was not completed."""

from __future__ import annotations

from sqlstream.graph.job_graph import JobGraph, written_tables
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.jobmanager.events import SinkCommit, StagedRows
from sqlstream.spi.connector import AbortsCommittables, NamesStagedRows, NotesCommits
from sqlstream.spi.files import Files


class ConnectorCommitter:
    """Calls each sink's connector. No state. Implements `Committer`."""

    def __init__(self, files: Files) -> None:
        self._files = files

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
                sink.abort(commit.spec, job_id, list(commit.committables), self._files)

    def remove_staged(self, job_id: str, staged: tuple[StagedRows, ...]) -> None:
        for rows in staged:
            sink = connector(rows.spec.connector)
            if isinstance(sink, NamesStagedRows):
                sink.remove_staged(rows.spec, job_id, rows.writer_names, self._files)


def begin_with(earlier_job_id: str, job: JobGraph, files: Files) -> None:
    """A job is to go on from a checkpoint of an earlier one: tell its sinks. SqlStreamError for a table out of reach."""
    for _, spec in written_tables(job):
        sink = connector(spec.connector)
        if isinstance(sink, NotesCommits):
            sink.begin_with(spec, earlier_job_id, job.job_id, files)
