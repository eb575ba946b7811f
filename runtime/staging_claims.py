"""Who owns what sinks write before their commit, so that the next job removes what a killed process has left.

A sink's writers put their rows into staging directories `…-<job>-<writer>`. Beside these the process that runs the JobManager
keeps a file `…-<job>-claim`, locked while the job lives. The lock ends with the process, however it ends: directories whose
claim nobody holds belong to no job. Directories without a claim are left alone.
"""

from __future__ import annotations

import glob
import logging
import os
from dataclasses import dataclass
from typing import Any, BinaryIO

from runtime.connectors import connector
from runtime.jobmanager.collaborators import JobStore
from runtime.jobmanager.events import EndedJob
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph, written_tables
from sqlstream.messages.job_state import JobStatus
from sqlstream.spi.connector import StagesRows

logger = logging.getLogger(__name__)

CLAIM = "claim"
"""The name that a claim has in place of a writer's id, which is a hexadecimal number."""


@dataclass(frozen=True)
class Claim:
    """A locked file. `has_made_directory`: the one that it is in was absent."""

    path: str
    lock: BinaryIO | None
    has_made_directory: bool


class ClaimingStore:
    """Keeps jobs in another store, and the claims of their sinks from before a job runs until it has ended: a `JobStore`.

    A place that cannot be claimed, such as a directory that cannot be written, has no claim: the sink's writer says what is
    wrong. State: the claims of the jobs that live."""

    def __init__(self, store: JobStore, files: Any) -> None:
        self._store = store
        self._files = files
        self._claims: dict[str, list[Claim]] = {}

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        """Also removes what dead jobs left where the job's sinks stage rows."""
        self._claims[job_graph.job_id] = self._claimed(job_graph)
        try:
            self._store.put(job_graph, encoded)
        except BaseException:
            self._release(job_graph.job_id, is_committed=False)
            raise

    def remove(self, job_id: str, ended: EndedJob) -> None:
        self._release(job_id, is_committed=ended.details.status is JobStatus.FINISHED)
        self._store.remove(job_id, ended)

    def _claimed(self, job_graph: JobGraph) -> list[Claim]:
        claims: dict[str, Claim] = {}
        for _, spec in written_tables(job_graph):
            try:
                sink = connector(spec.connector)
                if not isinstance(sink, StagesRows):
                    continue
                _remove_abandoned(sink.staging_directory(spec, "*", CLAIM), self._files)
                path = sink.staging_directory(spec, job_graph.job_id, CLAIM)
                if path not in claims:
                    claims[path] = _claim(path, self._files)
            except (SqlStreamError, OSError) as error:
                logger.debug('the rows of table "%s" are staged without a claim: %s', spec.table, error)
        return list(claims.values())

    def _release(self, job_id: str, *, is_committed: bool) -> None:
        for claim in self._claims.pop(job_id, ()):
            try:
                # Attempts of subtasks whose process was killed have left theirs, also when the job has finished.
                _remove_staged(claim.path, self._files)
                self._files.remove(claim.path)
                if claim.has_made_directory and not is_committed:
                    self._files.remove_directory_if_empty(os.path.dirname(claim.path))
            except (SqlStreamError, OSError) as error:
                logger.warning('could not remove "%s": %s', claim.path, error)
            finally:
                if claim.lock is not None:
                    claim.lock.close()


def _claim(path: str, files: Any) -> Claim:
    has_made_directory = files.status(os.path.dirname(path)) is None
    lock = None
    # Another job may look at the claim before it is locked, and remove it as one of nobody.
    for _ in range(3):
        files.open_write(path).close()
        lock = files.lock(path)
        if lock is not None:
            break
    return Claim(path, lock, has_made_directory)


def _remove_abandoned(pattern: str, files: Any) -> None:
    for path in files.match_glob(pattern):
        lock = files.lock(path)
        if lock is None:
            continue
        try:
            # The claim goes last: what a process that is killed here leaves is found again.
            _remove_staged(path, files)
            files.remove(path)
        finally:
            lock.close()


def _remove_staged(claim: str, files: Any) -> None:
    """Remove the staging directories of the job with this claim."""
    for directory in files.match_glob(glob.escape(claim.removesuffix(CLAIM)) + "*"):
        if directory != claim:
            logger.warning('removing "%s", which a killed process left', directory)
            files.remove(directory)
