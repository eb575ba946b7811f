"""Jobs with checkpoints under a seeded clock, network, store and fate: each row is in the sink once, whatever happens.

The control plane, the task loops and their checkpoints are the product's; the store of manifests is simulated. A failing seed
prints its story; replay it with `pytest tests/simulation/test_checkpoints.py --seed N`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from simulated_cluster import DISK_FULL, JOB_MANAGER, Cluster
from simulated_tasks import ASSIGNED, Row, expected_rows

from runtime.jobmanager.events import (
    CheckpointStored,
    CheckpointStoreFailed,
    CommitSinks,
    DiscardCheckpoint,
    JobFinished,
    JobManagerInstruction,
    RemoveAborted,
    RemoveCheckpoints,
    SavepointRequested,
    Send,
    StoreCheckpoint,
)
from runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import DeployTask
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.files import Files

SEEDS_ENOUGH = 300
RESTARTS_MAX = 40
FAULTS = (
    "cannot be stored",
    "is stored slowly",
    "cannot be committed",
    "FAILED: cannot be closed",
    "FAILED: no such row",
    "dies with",
    "stands still",
    "hears nothing",
    "goes on from a checkpoint",
    "goes on from its beginning",
    "as finished",
    "stops with a savepoint",
    "RemoveAborted",
    "DiscardCheckpoint",
)
"""What the story tells of each thing that has to happen."""
FAULTS_SEEN: Counter[str] = Counter()
SEEDS_RUN: list[int] = []


class Restarts:
    """Restarts what a failure has hit, many times; a cluster without slots is waited for twice."""

    def __init__(self) -> None:
        self.failures: Counter[bool] = Counter()

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        has_no_slots = failure.reason is FailureReason.NO_RESOURCES
        self.failures[has_no_slots] += 1
        return 300 if self.failures[has_no_slots] < (3 if has_no_slots else RESTARTS_MAX) else None


class CheckpointedCluster(Cluster):
    """All jobs take checkpoints. `kept` are the manifests of each job that are stored and not removed."""

    def __init__(self, seed: int) -> None:
        self.kept: dict[str, set[int]] = {}
        self.aborted: dict[str, set[int]] = {}
        self.committed: dict[str, list[int]] = {}
        super().__init__(seed)
        for job in self.jobs:
            if not self.is_calm and self.rng.random() < 0.15:
                self.at(self.rng.randint(2000, 20_000), lambda job=job: self.stop_with_savepoint(job.job_id))

    def job_master_config(self) -> JobMasterConfig:
        return JobMasterConfig(
            result_address=JOB_MANAGER,
            restart_strategy=Restarts,
            enumerates=lambda connector: connector == ASSIGNED,
            checkpoint_directory="/chk",
        )

    def settings(self, job: JobGraph) -> JobGraph:
        rng = self.rng
        prefix = "execution.checkpointing."
        config = {
            "interval": f"{rng.choice([100, 500, 2000])} ms",
            "min-pause": f"{rng.choice([0, 0, 300])} ms",
            "timeout": f"{rng.choice([1500, 6000])} ms",
            "tolerable-failed-checkpoints": str(rng.choice([0, 1, 5])),
            "num-retained": str(rng.randint(1, 3)),
            "max-concurrent-checkpoints": str(rng.choice([1, 1, 2, 4])),
        }
        return replace(job, config=job.config | {prefix + name: value for name, value in config.items()})

    def state_files(self, directory: str, config: Mapping[str, str]) -> Files:
        """No operator of these jobs has rows to save: what sources save of themselves is in the manifest."""
        return None  # type: ignore[return-value]

    def stop_with_savepoint(self, job_id: str) -> None:
        if job_id in self.job_manager.dispatcher.masters:
            self.say(f"{job_id} stops with a savepoint")
            kind = CheckpointKind.SYNC_SAVEPOINT
            self.tell_job_manager(SavepointRequested(job_id, "t1", kind, "/sp", self.rng.random() < 0.5))

    # --- what the JobManager instructs

    def carry_out(self, instruction: JobManagerInstruction) -> None:
        match instruction:
            case Send(_, DeployTask(_, descriptor)):
                self.check_restore(descriptor)
            case CommitSinks(job_id, checkpoint_id):
                self.check_commit(job_id, checkpoint_id)
            case StoreCheckpoint():
                self.store(instruction)
            case RemoveAborted(job_id, _, checkpoint_id):
                assert checkpoint_id not in self.kept.get(job_id, ()), f"{job_id} removes {checkpoint_id}"
                self.aborted.setdefault(job_id, set()).add(checkpoint_id)
            case DiscardCheckpoint(job_id, _, manifest):
                assert manifest.checkpoint_id < max(self.kept[job_id]), (
                    f"{job_id} removes its newest checkpoint"
                )
                self.kept[job_id].remove(manifest.checkpoint_id)
            case RemoveCheckpoints(job_id):
                self.kept.pop(job_id, None)
        super().carry_out(instruction)

    def store(self, instruction: StoreCheckpoint) -> None:
        job_id, checkpoint_id = instruction.job_id, instruction.manifest.checkpoint_id
        if not self.is_calm and self.rng.random() < 0.07:
            self.say(f"checkpoint {checkpoint_id} of {job_id} cannot be stored")
            self.later(CheckpointStoreFailed(job_id, checkpoint_id, DISK_FULL))
            return
        stored = CheckpointStored(job_id, checkpoint_id, f"/chk/{job_id}/chk-{checkpoint_id}")
        if not instruction.manifest.kind.is_savepoint:
            self.kept.setdefault(job_id, set()).add(checkpoint_id)
        if not self.is_calm and self.rng.random() < 0.1:
            self.say(f"checkpoint {checkpoint_id} of {job_id} is stored slowly")
            self.after(self.rng.randint(500, 8000), lambda: self.tell_job_manager(stored))
        else:
            self.later(stored)

    # --- what has to hold

    def check_restore(self, descriptor: Any) -> None:
        """A task goes on from the newest checkpoint that is complete, and what sinks have committed is behind it."""
        job_id, restore = descriptor.job_id, descriptor.restore
        committed = max((n for n in self.committed.get(job_id, ()) if n != LAST_CHECKPOINT_ID), default=0)
        if restore is None:
            assert not committed, f"{descriptor.execution_id} begins behind a commit of {committed}"
            if descriptor.attempt:
                self.say(f"{descriptor.execution_id} goes on from its beginning")
            return
        assert restore.checkpoint_id in self.kept[job_id], f"{restore.checkpoint_id} is not there"
        assert restore.checkpoint_id >= committed, f"{descriptor.execution_id} goes back behind a commit"
        self.say(
            f"{descriptor.execution_id} goes on from a checkpoint{' as finished' if restore.is_finished else ''}"
        )

    def check_commit(self, job_id: str, checkpoint_id: int) -> None:
        """Commits come in order, of complete checkpoints, and again only when one has failed."""
        before = self.committed.setdefault(job_id, [])
        assert not before or checkpoint_id >= before[-1], f"{job_id} commits {checkpoint_id} after {before}"
        repeats = sum(n == m for n, m in itertools.pairwise(before)) + (before[-1:] == [checkpoint_id])
        assert repeats <= self.failed_commits[job_id], f"{job_id} commits {checkpoint_id} again"
        assert checkpoint_id not in self.aborted.get(job_id, ()), f"{checkpoint_id} is aborted and committed"
        before.append(checkpoint_id)

    def is_whole(self, job: JobGraph) -> bool:
        return not any(line.endswith(f"{job.job_id} stops with a savepoint") for line in self.story)

    def check_commits(self, job: JobGraph, end: JobFinished, commits: int, rows: list[Row]) -> None:
        """What was committed before the job ended otherwise stays, and no row of it is there twice."""
        lost = Counter(rows) - Counter(expected_rows(job))
        assert not lost, f"{job.job_id} has doubled {lost}"
        assert end.status is not JobStatus.SUSPENDED


def run(seed: int) -> CheckpointedCluster:
    cluster = CheckpointedCluster(seed)
    cluster.run_to_rest()
    return cluster


def test_every_row_is_in_the_sink_once_whatever_happens(checkpointed_seed: int) -> None:
    seed = checkpointed_seed
    cluster = CheckpointedCluster(seed)
    cluster.run_or_tell(seed)
    SEEDS_RUN.append(seed)
    FAULTS_SEEN.update(fault for fault in FAULTS if any(fault in line for line in cluster.story))


def test_the_seeds_meet_every_fault() -> None:
    if len(SEEDS_RUN) < SEEDS_ENOUGH:
        pytest.skip("some faults are rare: they are counted over many seeds")
    assert {fault: FAULTS_SEEN[fault] for fault in FAULTS if FAULTS_SEEN[fault] < 3} == {}


def test_a_seed_tells_the_same_story_twice() -> None:
    assert run(7).story == run(7).story
