"""The checkpoints that jobs of an earlier server have left."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.checkpoint.checkpoint_directory import (
    CheckpointDirectory,
    RetainedCheckpoints,
    is_away,
)
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings

logger = logging.getLogger(__name__)


class JobCheckpointStores:
    """Finds them by a job's settings, for those without a directory of their own below `directory`. To be used while none of the
    jobs runs. No state."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def retained(self, graph: JobGraph) -> RetainedCheckpoints:
        """What the job can go on from, after what crashes have left behind was removed; nothing for a job that takes none.
        SqlStreamError when its store cannot be read."""
        found = self._directory_of(graph)
        if found is None:
            return RetainedCheckpoints((), ())
        found.sweep()
        return found.retained()

    def remove_left(self, kept: Collection[str]) -> None:
        """Remove what is left below `directory` of jobs that have ended, and left no checkpoint: their server was killed while it
        removed them. `kept` are the ids of all others."""
        if not self._directory or not os.path.isdir(self._directory):
            return
        for name in sorted(set(os.listdir(self._directory)) - set(kept)):
            files, directory = PrivateFiles(), os.path.join(self._directory, name)
            try:
                if is_away(files, directory):
                    CheckpointDirectory(files, directory).sweep()
            except SqlStreamError as error:
                logger.warning("what is left of checkpoints stays: %s", error.message)

    def directory_of(self, graph: JobGraph) -> str:
        """Where the checkpoints of the job lie; empty for one that takes none."""
        return checkpoint_settings(graph, self._directory).directory

    def remove(self, graph: JobGraph, end: JobStatus) -> None:
        """Remove all of them, unless the job's settings keep those of one that ends so."""
        found = self._directory_of(graph)
        if found is None or checkpoint_settings(graph, self._directory).retention.keeps(end):
            return
        for stored in found.retained().checkpoints:
            found.discard(stored.manifest, frozenset())
        found.sweep()

    def _directory_of(self, graph: JobGraph) -> CheckpointDirectory | None:
        settings = checkpoint_settings(graph, self._directory)
        if not settings.directory:
            return None
        return CheckpointDirectory(checkpoint_files(settings.directory, graph.config), settings.directory)
