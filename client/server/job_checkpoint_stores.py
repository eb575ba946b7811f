"""The checkpoints that jobs of an earlier server have left."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.checkpoint.checkpoint_directory import (
    METADATA,
    CheckpointDirectory,
    RetainedCheckpoints,
    StoredCheckpoint,
    is_away,
)
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.host.owned_files import CheckOwner, owned
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings

logger = logging.getLogger(__name__)


class JobCheckpointStores:
    """Finds them by a job's settings, for those without a directory of their own below `directory`. To be used while none of the
    jobs runs, but for `newest`. With `check_owner`, nothing is removed that another server may own. No state."""

    def __init__(self, directory: str, check_owner: CheckOwner | None = None) -> None:
        self._directory = directory
        self._check_owner = check_owner

    def retained(self, graph: JobGraph, newest_id: int = -1) -> RetainedCheckpoints:
        """What the job can go on from, after what crashes have left behind was removed, and what is newer than `newest_id` (-1:
        nothing is), which does not count; nothing for a job that takes none. SqlStreamError when its store cannot be read."""
        found = self._directory_of(graph)
        if found is None:
            return RetainedCheckpoints((), ())
        retained = found.sweep()
        if newest_id >= 0:
            ids = [c.manifest.checkpoint_id for c in retained.checkpoints]
            newer = [i for i in (*ids, *(f.checkpoint_id for f in retained.faults)) if i > newest_id]
            for checkpoint_id in newer:
                found.remove_aborted(checkpoint_id)
            retained = found.retained() if newer else retained
        return retained

    def newest(self, graph: JobGraph) -> StoredCheckpoint | None:
        """The newest that is whole, where a server may run: nothing is removed. SqlStreamError when its store cannot be read."""
        found = self._directory_of(graph)
        return found.retained().newest() if found is not None else None

    def remove_left(self, kept: Collection[str]) -> None:
        """Remove what is left below `directory` of jobs that have ended, and left no checkpoint: their server was killed while it
        removed them. `kept` are the ids of all others."""
        if not self._directory or not os.path.isdir(self._directory):
            return
        for name in sorted(set(os.listdir(self._directory)) - set(kept)):
            files = owned(PrivateFiles(), self._check_owner)
            directory = os.path.join(self._directory, name)
            try:
                if is_away(files, directory):
                    CheckpointDirectory(files, directory).sweep()
            except SqlStreamError as error:
                logger.warning("what is left of checkpoints stays: %s", error.message)

    def remove_savepoint(self, path: str) -> None:
        """Remove all of one that may not have been complete. SqlStreamError when its store cannot be reached."""
        files = owned(checkpoint_files(path, {}), self._check_owner)
        files.remove(f"{path}/{METADATA}")
        files.remove(path)

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
        files = owned(checkpoint_files(settings.directory, graph.config), self._check_owner)
        return CheckpointDirectory(files, settings.directory)
