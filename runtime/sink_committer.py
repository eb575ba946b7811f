"""Makes the work of a finished job's sinks visible, or removes what a failed job's finished subtasks left."""

from __future__ import annotations

from typing import Any

from runtime.connectors import connector
from runtime.jobmanager.events import SinkCommit
from sqlstream.spi.connector import AbortsCommittables, UndoesBrokenCommits


class ConnectorCommitter:
    """Calls each sink's connector. No state. Implements the JobManager shell's `Committer`."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def commit(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        for commit in commits:
            connector(commit.spec.connector).commit(commit.spec, list(commit.committables), self._files)

    def recover(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        """Complete a commit that a process which has died may have begun. SqlStreamError or OSError when it broke off in the
        middle and cannot be completed; `abort` removes what is left of it."""
        for commit in commits:
            sink = connector(commit.spec.connector)
            if isinstance(sink, UndoesBrokenCommits):
                sink.undo_broken_commits(commit.spec, self._files)
        self.commit(job_id, commits)

    def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        for commit in commits:
            sink = connector(commit.spec.connector)
            if isinstance(sink, AbortsCommittables):
                sink.abort(commit.spec, job_id, list(commit.committables), self._files)
