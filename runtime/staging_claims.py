"""Who owns what sinks write before their commit, so that the next job removes what a killed process has left.

A sink's writers put their rows into staging directories `…-<job>-<writer>`. Beside these the process that runs the JobManager
keeps a file `…-<job>-claim`, locked while the job lives. The lock ends with the process, however it ends: directories whose
claim nobody holds belong to no job, unless a server keeps the job, whose file the claim names, or the job has checkpoints where a
user wants them: then the claim names their directory, and another job may go on from them. One in a store is looked for by the
next job that has its own checkpoints in the same store, since it takes its keys. Directories without a claim are left alone.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.graph.job_graph import JobGraph, written_tables
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.abandoned_rows import BETWEEN_PATHS, CLAIM, AbandonedRows, is_on_disk, remove_staged
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.file_systems import is_in_store
from sqlstream.runtime.jobmanager.collaborators import JobStore
from sqlstream.runtime.jobmanager.events import CancelRequested, EndedJob, SavepointRequested
from sqlstream.spi.connector import StagesRows
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 1.0
"""How long `close` waits for the rows of dead jobs to be removed."""

CHECKPOINTS = "execution.checkpointing.dir"


@dataclass(frozen=True)
class Claim:
    """A locked file. `has_made_directory`: the one that it is in was absent."""

    path: str
    lock: BinaryIO | None
    has_made_directory: bool


class ClaimingStore:
    """Keeps jobs in another store, and the claims of their sinks from before a job runs until it has ended: a `JobStore`.

    A place that cannot be claimed, such as a directory that cannot be written, has no claim: the sink's writer says what is
    wrong. State: the claims of the jobs that live, and the removal of what dead jobs left."""

    def __init__(self, store: JobStore, files: Files) -> None:
        self._store = store
        self._files = files
        self._abandoned = AbandonedRows(files)
        self._claims: dict[str, list[Claim]] = {}

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        """What dead jobs left where the job's sinks stage rows is removed meanwhile. A job that gets another graph has its
        claims already."""
        is_first = job_graph.job_id not in self._claims
        if is_first:
            self._claims[job_graph.job_id] = self._claimed(job_graph)
        try:
            self._store.put(job_graph, encoded)
        except BaseException:
            if is_first:
                self._release(job_graph.job_id, is_committed=False)
            raise

    def mark_ending(self, job_id: str, end: JobStatus, error: ErrorInfo | None) -> None:
        self._store.mark_ending(job_id, end, error)

    def keep_end(self, request: CancelRequested | SavepointRequested) -> None:
        self._store.keep_end(request)

    def forget_end(self, job_id: str) -> None:
        self._store.forget_end(job_id)

    def blame(self, job_id: str) -> None:
        self._store.blame(job_id)

    def remove(self, job_id: str, ended: EndedJob) -> None:
        if ended.output_kept_for:
            self._leave(job_id, ended.output_kept_for, ended.job_graph.config)
        else:
            self._release(job_id, is_committed=ended.details.status is JobStatus.FINISHED)
        self._store.remove(job_id, ended)

    def kept_file(self, job_id: str) -> str:
        return self._store.kept_file(job_id)

    def close(self) -> None:
        """Release the claims of jobs that nobody keeps: one whose submission was interrupted has not ended. Then give the removal
        of what dead jobs left a moment to end."""
        for job_id in [job_id for job_id in self._claims if not self._store.kept_file(job_id)]:
            self._release(job_id, is_committed=False)
        self._abandoned.wait(CLOSE_TIMEOUT_S)

    def _claimed(self, job_graph: JobGraph) -> list[Claim]:
        claims: dict[str, Claim] = {}
        config = job_graph.config
        for _, spec in written_tables(job_graph):
            try:
                sink = connector(spec.connector)
                if not isinstance(sink, StagesRows):
                    continue
                path = sink.staging_directory(spec, job_graph.job_id, CLAIM)
                if path is not None and path not in claims:
                    kept = self._store.kept_file(job_graph.job_id) or _checkpoints_of(job_graph)
                    claims[path] = _claim(path, self._files, kept)
                    of_all = path.removesuffix(f"{job_graph.job_id}-{CLAIM}")
                    self._abandoned.remove(
                        f"{glob.escape(of_all)}*-{CLAIM}", lambda kept: _is_there(kept, config)
                    )
            except (SqlStreamError, OSError) as error:
                logger.debug('the rows of table "%s" are staged without a claim: %s', spec.table, error)
        return list(claims.values())

    def _release(self, job_id: str, *, is_committed: bool) -> None:
        for claim in self._claims.pop(job_id, ()):
            try:
                # Attempts of subtasks whose process was killed have left theirs, also when the job has finished.
                remove_staged(claim.path, self._files)
                self._files.remove(claim.path)
                if claim.has_made_directory and not is_committed:
                    self._files.remove_directory_if_empty(os.path.dirname(claim.path))
            except (SqlStreamError, OSError) as error:
                logger.warning('could not remove "%s": %s', claim.path, error)
            finally:
                if claim.lock is not None:
                    claim.lock.close()

    def _leave(self, job_id: str, kept_for: tuple[str, ...], config: Mapping[str, str]) -> None:
        """Nobody removes the rows while one of these checkpoints is there."""
        for claim in self._claims.pop(job_id, ()):
            try:
                _write(claim.path, self._files, *(_named(path, config) for path in kept_for))
            except (SqlStreamError, OSError) as error:
                logger.warning('could not change "%s": %s', claim.path, error)
            finally:
                if claim.lock is not None:
                    claim.lock.close()


def _checkpoints_of(job_graph: JobGraph) -> str:
    """What a claim calls the directory of a job's checkpoints when the user has chosen its place; empty otherwise."""
    root = job_graph.config.get(CHECKPOINTS, "")
    return _named(os.path.join(root, job_graph.job_id), job_graph.config) if root else ""


def _named(path: str, config: Mapping[str, str]) -> str:
    """A path as claims have it. That of a store ends with where the store is: paths of two stores may be alike."""
    return f"{path} at {_endpoint(config)}" if is_in_store(path) else path


def _is_there(kept: str, config: Mapping[str, str]) -> bool:
    """Whether what a claim names is there, as far as a job with these settings may look."""
    if not is_in_store(kept):
        return is_on_disk(kept)
    path, _, endpoint = kept.rpartition(" at ")
    if not is_in_store(config.get(CHECKPOINTS, "")) or endpoint != _endpoint(config):
        return True
    try:
        return checkpoint_files(path, config).status(path) is not None
    except SqlStreamError as error:
        logger.warning('could not look for "%s": %s', path, error.message)
        return True


def _endpoint(config: Mapping[str, str]) -> str:
    endpoint: str = options.get(config, "s3.endpoint")
    return endpoint


def _claim(path: str, files: Files, kept_file: str) -> Claim:
    has_made_directory = files.status(os.path.dirname(path)) is None
    lock = None
    # Another job may look at the claim before it is locked, and remove it as one of nobody.
    for _ in range(3):
        _write(path, files, kept_file)
        lock = files.lock(path)
        if lock is not None:
            break
    return Claim(path, lock, has_made_directory)


def _write(path: str, files: Files, *kept_for: str) -> None:
    with files.open_write(path) as stream:
        stream.write(os.fsencode(BETWEEN_PATHS.join(kept_for)))
