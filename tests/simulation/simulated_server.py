"""What a JobManager keeps beyond its life: jobs in files, checkpoints on a simulated disk, rows that sinks have committed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from simulated_tasks import ASSIGNED

from sqlstream import config as options
from sqlstream.client.server.job_checkpoint_stores import JobCheckpointStores
from sqlstream.client.server.job_store import FileJobStore, KeptCommitter
from sqlstream.client.server.recovery import recover, submit_again
from sqlstream.graph.job_graph import JobGraph, encode_job_graph
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore, recovered_checkpoints
from sqlstream.runtime.connectors import CONNECTORS
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings
from sqlstream.runtime.jobmanager.collaborators import Committer
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CancelRequested,
    EndedJob,
    LoadedCheckpoint,
    RemoveJob,
    SavepointRequested,
)
from sqlstream.spi.files import Files

CHECKPOINTS = "/chk"
SAVEPOINTS = "/sp"
ENDED_MAX = 50

Submit = Callable[[JobGraph, tuple[LoadedCheckpoint, ...]], None]


class SimulatedServer:
    """The process of one JobManager, with the product's store of jobs and its recovery. `directory` is that of its jobs, `files`
    has its checkpoints. State: what it has stored, which the next one finds."""

    def __init__(self, directory: str, files: Files, committer: Committer, now_ms: Callable[[], int]) -> None:
        self.files = files
        self._now_ms = now_ms
        self._jobs = FileJobStore(directory, now_ms, ENDED_MAX)
        self._committer = committer
        self.committer = KeptCommitter(self._jobs, committer)
        self.checkpoints = CheckpointStore()

    def put(self, job: JobGraph) -> None:
        self._jobs.put(job, encode_job_graph(job))

    def remove(self, instruction: RemoveJob) -> None:
        self._jobs.remove(instruction.job_id, instruction.ended)

    def mark_ending(self, instruction: AbortSinks) -> None:
        if instruction.end is not None:
            self._jobs.mark_ending(instruction.job_id, instruction.end, instruction.error)

    def keeps(self, job_id: str) -> bool:
        return os.path.exists(self._jobs.kept_file(job_id))

    def ended(self) -> tuple[EndedJob, ...]:
        return self._jobs.ended()

    def recover(self, begin: Callable[[], None], submit: Submit) -> None:
        """Bring back the jobs of the one before; `begin` is called between what comes before the cluster runs and what comes
        behind."""
        stores = JobCheckpointStores(CHECKPOINTS)
        recovery = recover(self._jobs, self._committer, stores, self._now_ms, pause=lambda seconds: None)
        begin()
        submit_again(recovery, _Submitter(self, submit), self._jobs, self._now_ms)

    def restored(self, job: JobGraph, is_recovered: bool) -> tuple[LoadedCheckpoint, ...]:
        """As `EmbeddedCluster` finds what a job goes on from."""
        settings = checkpoint_settings(job, CHECKPOINTS)
        if is_recovered and (found := recovered_checkpoints(self.checkpoints, job, settings.directory)):
            return found
        path: str = options.get(job.config, "execution.state-recovery.path")
        return (self.checkpoints.load(path, job.config),) if path else ()


class _Submitter:
    def __init__(self, server: SimulatedServer, submit: Submit) -> None:
        self._server = server
        self._submit = submit

    def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
        self._submit(graph, self._server.restored(graph, is_recovered))

    def end_again(self, request: CancelRequested | SavepointRequested) -> None:
        """Clients of the simulation ask again until they have an answer."""


class Surroundings:
    """The clock and the disk of the cluster that runs: what the product would ask its host for."""

    clock: Callable[[], int] = staticmethod(lambda: 0)
    files: Callable[[], Files] | None = None


def _files(directory: str, config: Mapping[str, str]) -> Files:
    assert Surroundings.files is not None
    return Surroundings.files()


@contextmanager
def simulated_surroundings() -> Iterator[None]:
    """The product's connectors, stores and clocks are those of the simulation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("simulated", ASSIGNED):
            patch.setitem(CONNECTORS, name, "simulated_tasks:SimulatedConnector")
        for user in (
            "sqlstream.client.server.job_checkpoint_stores",
            "sqlstream.runtime.checkpoint.checkpoint_store",
        ):
            patch.setattr(f"{user}.checkpoint_files", _files)
        for user in ("task_opening", "checkpoints.task_checkpoints", "checkpoints.state_write"):
            patch.setattr(f"sqlstream.runtime.taskmanager.{user}.steady_ms", lambda: Surroundings.clock())
        yield
