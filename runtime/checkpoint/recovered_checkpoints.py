"""What a job goes on from that a JobManager before this one has run."""

from __future__ import annotations

import logging

from sqlstream import config as options
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore

logger = logging.getLogger(__name__)


def recovered_checkpoints(
    store: CheckpointStore, graph: JobGraph, directory: str
) -> tuple[StoredCheckpoint, ...]:
    """Its own in `directory`, newest first, after what crashes have left behind was removed; then what it has claimed and not
    removed yet, which it goes back to, or removes with its next checkpoints. Empty when it has none of its own."""
    store.sweep(directory, graph.config)
    own = tuple(store.latest(directory, graph.config))
    return own + _claimed(store, graph) if own else ()


def _claimed(store: CheckpointStore, graph: JobGraph) -> tuple[StoredCheckpoint, ...]:
    path: str = options.get(graph.config, "execution.state-recovery.path")
    if not path or options.get(graph.config, "execution.state-recovery.claim-mode") != "CLAIM":
        return ()
    try:
        return (store.load(path, graph.config),)
    except SqlStreamError as error:
        # SS6212: the job has removed it.
        if error.code != "SS6212":
            logger.warning("what the job has claimed is left over: %s", error.message)
        return ()
