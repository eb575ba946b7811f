"""Jobs without an interval: they take the checkpoints and savepoints that somebody asks for, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from checkpointed_master import ROOT, Master

from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import TriggerCheckpoint
from sqlstream.runtime.jobmanager.dispatcher import Dispatcher
from sqlstream.runtime.jobmanager.events import (
    CancelRequested,
    RemoveCheckpoints,
    SavepointRequested,
    SinksAborted,
)
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_phase import JobPhase

MakeJob = Callable[..., JobGraph]
SOURCE, SINK = "j1-0-0-0", "j1-1-0-0"
SAVEPOINT = SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a")
DAY_MS = 86_400_000


def requested(job: Master) -> tuple[bool, str, str]:
    """Whether the request is done, the path, and the code of its failure."""
    (status,) = job.master.checkpoints.requests.known()
    return status.is_done, status.path, status.error.code if status.error else ""


def with_savepoint(make_job: MakeJob) -> Master:
    """A job whose sink has written before its savepoint, which is stored."""
    job = Master(make_job("j1", 1, 1))
    job.handle(SAVEPOINT)
    job.tick(1)
    assert [(t.checkpoint_id, t.directory) for t in job.taken(TriggerCheckpoint)] == [(1, "/sp/a")]
    job.acknowledge_all(1)
    job.stored(1)
    return job


def test_nothing_is_triggered_that_nobody_asks_for(make_job: MakeJob) -> None:
    job = Master(make_job("j1", 1, 1))
    job.tick(DAY_MS)
    assert job.triggered() == []
    assert job.master.due_ms() is None


def test_one_checkpoint_follows_a_savepoint_and_commits_its_rows(make_job: MakeJob) -> None:
    job = with_savepoint(make_job)
    assert requested(job)[0] is False
    job.tick(1)
    assert job.triggered() == [(SOURCE, 2)]
    job.acknowledge_all(2)
    job.stored(2)
    assert job.commits() == [(2, [f"{SINK}-1", f"{SINK}-2"])]
    job.committed(2)
    assert requested(job) == (True, f"{ROOT}/j1/chk-1", "")
    job.tick(DAY_MS)
    assert job.triggered() == []


def test_no_checkpoint_follows_a_savepoint_without_rows(make_job: MakeJob) -> None:
    job = Master(make_job("j1", 1, 1))
    job.handle(SAVEPOINT)
    job.tick(1)
    job.taken(TriggerCheckpoint)
    job.acknowledge(SOURCE, 1)
    job.acknowledge(SINK, 1)
    job.stored(1)
    assert requested(job)[0] is True
    job.tick(DAY_MS)
    assert job.triggered() == []


def test_the_savepoint_fails_and_the_job_runs_on_when_the_checkpoint_behind_it_fails(
    make_job: MakeJob,
) -> None:
    job = with_savepoint(make_job)
    job.tick(1)
    job.decline(SINK, 2)
    assert requested(job) == (True, "", "SS5001")
    assert job.master.phase is JobPhase.RUNNING
    job.taken(TriggerCheckpoint)
    job.tick(DAY_MS)
    assert job.triggered() == []


def test_the_checkpoint_behind_a_savepoint_is_taken_again_when_something_else_broke_it_off(
    make_job: MakeJob,
) -> None:
    job = Master(make_job("j1", 2, 1))
    job.handle(SAVEPOINT)
    job.tick(1)
    job.acknowledge_all(1)
    job.stored(1)
    job.tick(1)
    job.report("j1-0-1-0", ExecutionState.FINISHED)
    job.taken(TriggerCheckpoint)
    job.tick(1)
    assert job.triggered() == [(SOURCE, 3)]
    job.acknowledge_all(3)
    job.stored(3)
    job.committed(3)
    assert requested(job)[0] is True


def test_a_restart_goes_on_from_the_checkpoint_behind_a_savepoint(make_job: MakeJob) -> None:
    job = with_savepoint(make_job)
    job.tick(1)
    job.acknowledge_all(2)
    job.stored(2)
    job.committed(2)
    job.out = []
    job.fail(SOURCE)
    assert {d.restore.checkpoint_id for d in job.deployed().values() if d.restore} == {2}


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_checkpoints_are_removed_with_their_job(make_job: MakeJob, has_checkpoint: bool) -> None:
    job = Master(make_job("j1", 1, 1))
    if has_checkpoint:
        job.handle(SavepointRequested("j1", "t1", CheckpointKind.CHECKPOINT))
        job.tick(1)
        job.acknowledge_all(1)
        job.stored(1)
        job.committed(1)
    job.handle(CancelRequested("j1"))
    for name in (SOURCE, SINK):
        job.report(name, ExecutionState.CANCELED)
    job.handle(SinksAborted("j1"))
    assert job.master.status is JobStatus.CANCELED
    removed = [r.directory for r in job.taken(RemoveCheckpoints)]
    assert removed == ([f"{ROOT}/j1"] if has_checkpoint else [])


def test_a_job_ends_with_a_savepoint(make_job: MakeJob) -> None:
    job = Master(make_job("j1", 1, 1))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SYNC_SAVEPOINT, "/sp/a"))
    job.tick(1)
    job.acknowledge_all(1)
    job.stored(1)
    for name in (SOURCE, SINK):
        job.report(name, ExecutionState.CANCELED)
    assert job.commits() == [(1, [f"{SINK}-1"])]
    job.committed(1)
    job.handle(SinksAborted("j1"))
    assert job.master.status is JobStatus.FINISHED
    assert requested(job) == (True, f"{ROOT}/j1/chk-1", "")


@pytest.mark.parametrize(
    ("kind", "directory", "is_refused"),
    [
        (CheckpointKind.SAVEPOINT, "", True),
        (CheckpointKind.CHECKPOINT, "", True),
        (CheckpointKind.SYNC_SAVEPOINT, "", False),
        (CheckpointKind.SAVEPOINT, ROOT, False),
    ],
)
def test_a_savepoint_that_a_checkpoint_has_to_follow_needs_a_place_for_it(
    make_job: MakeJob, kind: CheckpointKind, directory: str, is_refused: bool
) -> None:
    jobs = Dispatcher(JobMasterConfig(checkpoint_directory=directory))
    jobs.on_submit(make_job("j1"), 0)
    if not is_refused:
        jobs.check_savepoint("j1", kind)
        return
    with pytest.raises(UserError, match="no directory for checkpoints") as refused:
        jobs.check_savepoint("j1", kind)
    assert refused.value.code == "SS6208"
