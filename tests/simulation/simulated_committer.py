"""Commits the files of simulated sinks one half after the other, and fails or dies between them."""

from __future__ import annotations

import random
from collections.abc import Callable

from simulated_cluster import files_of
from simulated_story import checkpoint
from simulated_tasks import Disk
from simulation.committed_output import CommittedOutput

from sqlstream.errors import ExternalError, FailureReason
from sqlstream.runtime.jobmanager.events import SinkCommit, StagedRows


class SimulatedCommitter:
    """`step` raises when its process dies there. Implements `Committer`. No state but what it writes."""

    def __init__(
        self,
        disk: Disk,
        output: CommittedOutput,
        fate: random.Random,
        step: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._output = output
        self._fate = fate
        self._step = step
        self._say = say

    def commit(
        self, job_id: str, checkpoint_id: int, commits: tuple[SinkCommit, ...], is_last: bool = False
    ) -> None:
        files = files_of(commits)
        self._step()
        self._output.on_begun(job_id, checkpoint_id)
        self._disk.commit(files, is_broken=True)
        if not self._disk.is_calm and self._fate.random() < 0.1:
            self._say(f"{job_id} cannot be committed")
            self._output.failed[job_id] += 1
            raise ExternalError("SS5001", "disk full", reason=FailureReason.EXTERNAL)
        self._step()
        self._disk.commit(files, is_broken=False)
        self._output.on_committed(job_id, checkpoint_id, files)
        self._say(f"{checkpoint(checkpoint_id)} of {job_id} is committed")
        self._step()

    def remove_staged(self, job_id: str, staged: tuple[StagedRows, ...]) -> None:
        assert staged

    def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        self._step()
        self._disk.abort(job_id, files_of(commits))
        self._output.on_aborted(job_id, files_of(commits))
        self._step()
