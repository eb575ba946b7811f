"""Makes what a job's sinks wrote for a checkpoint visible, or removes what was not completed."""

from __future__ import annotations

from runtime.connectors import connector
from runtime.jobmanager.events import SinkCommit
from sqlstream.spi.connector import AbortsCommittables
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
