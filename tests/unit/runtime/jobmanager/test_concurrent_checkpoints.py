"""Jobs with several checkpoints in progress at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from checkpointed_master import Master, rows, with_config

from sqlstream.errors import ErrorInfo, FailureReason, UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.rpc import CheckpointAborted, DeclineCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings
from sqlstream.runtime.jobmanager.events import CheckpointDeclined, SavepointRequested, StoreCheckpoint
from sqlstream.runtime.jobmanager.job_phase import JobPhase

MakeJob = Callable[..., JobGraph]
SOURCE, SINK = "j1-0-0-0", "j1-1-0-0"


def with_two(make_job: MakeJob, **config: str) -> Master:
    """A job whose first two checkpoints have begun, of three at most."""
    job = Master(with_config(make_job("j1", 1, 1), max_concurrent_checkpoints="3", **config))
    job.tick(1000)
    job.tick(1000)
    assert job.triggered() == [(SOURCE, 1), (SOURCE, 1), (SOURCE, 2)]
    return job


def acknowledge(job: Master, checkpoint_id: int) -> None:
    """The sink has written one file before each."""
    job.acknowledge(SOURCE, checkpoint_id)
    job.acknowledge(SINK, checkpoint_id, *(rows(SINK, n) for n in range(1, checkpoint_id + 1)))


def stores(job: Master) -> list[tuple[int, list[str]]]:
    """The manifests that are to be stored, with the rows whose commit they bring."""
    return [
        (s.manifest.checkpoint_id, [w.content["file"] for c in s.manifest.commits for w in c.committables])
        for s in job.taken(StoreCheckpoint)
    ]


def test_as_many_are_begun_as_may_be_in_progress(make_job: MakeJob) -> None:
    job = with_two(make_job)
    job.tick(1000)
    job.tick(1000)
    assert {n for _, n in job.triggered()} == {1, 2, 3}
    assert [status for _, status, _ in job.history] == ["IN_PROGRESS"] * 3


def test_they_are_stored_one_after_the_other_and_the_second_brings_open_commits_of_the_first(
    make_job: MakeJob,
) -> None:
    job = with_two(make_job)
    acknowledge(job, 1)
    acknowledge(job, 2)
    assert stores(job) == [(1, [f"{SINK}-1"])]
    job.stored(1)
    assert stores(job) == [(2, [f"{SINK}-1", f"{SINK}-2"])]
    job.committed(1)
    job.stored(2)
    assert job.commits() == [(2, [f"{SINK}-2"])]
    assert [entry[:2] for entry in job.history] == [(2, "COMPLETED"), (1, "COMPLETED")]


def test_a_later_one_that_is_complete_first_subsumes_the_earlier(make_job: MakeJob) -> None:
    job = with_two(make_job, tolerable_failed_checkpoints="0")
    job.acknowledge(SOURCE, 1)
    acknowledge(job, 2)
    assert stores(job) == [(2, [f"{SINK}-1", f"{SINK}-2"])]
    # All have acknowledged it, too, but its time is over.
    job.acknowledge(SINK, 1, rows(SINK, 1))
    assert stores(job) == []
    job.stored(2)
    assert job.fates() == {"completed 2": {SOURCE, SINK}, "aborted 1": {SOURCE, SINK}}
    assert job.master.phase is JobPhase.RUNNING
    job.out = []
    job.committed(2)
    assert job.commits() == []


def test_the_earlier_one_is_stored_when_the_later_cannot_be(make_job: MakeJob) -> None:
    job = with_two(make_job, tolerable_failed_checkpoints="1")
    job.acknowledge(SOURCE, 1)
    acknowledge(job, 2)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    job.out = []
    job.not_stored(2)
    assert stores(job) == [(1, [f"{SINK}-1"])]
    job.stored(1)
    assert job.commits() == [(1, [f"{SINK}-1"])]


def test_tasks_learn_which_earlier_ones_outlive_an_aborted_one(make_job: MakeJob) -> None:
    job = with_two(make_job, tolerable_failed_checkpoints="1")
    job.decline(SINK, 2)
    assert {m.still_pending for m in job.taken(CheckpointAborted)} == {(1,)}
    acknowledge(job, 1)
    job.stored(1)
    assert job.fates() == {"completed 1": {SOURCE, SINK}}


def test_one_that_a_later_one_has_overtaken_is_no_failure(make_job: MakeJob) -> None:
    job = with_two(make_job, tolerable_failed_checkpoints="0")
    overtaken = ErrorInfo(code="SS6220", message="given up", reason=FailureReason.CANCELLED)
    job.handle(CheckpointDeclined(DeclineCheckpoint("tm0#0", "j1", SOURCE, 1, overtaken)))
    assert job.master.phase is JobPhase.RUNNING
    assert [entry[:2] for entry in job.history] == [(2, "IN_PROGRESS"), (1, "FAILED")]


def test_a_savepoint_is_taken_alone(make_job: MakeJob) -> None:
    job = with_two(make_job)
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(1000)
    assert {n for _, n in job.triggered()} == {1, 2}
    acknowledge(job, 2)
    job.stored(2)
    job.committed(2)
    job.triggered()
    job.tick(1)
    assert job.triggered() == [(SOURCE, 3)]
    job.tick(2000)
    assert {n for _, n in job.triggered()} == {3}


def test_a_pause_between_checkpoints_leaves_one_at_a_time(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), max_concurrent_checkpoints="3", min_pause="10 ms"))
    job.tick(1000)
    job.tick(1000)
    assert {n for _, n in job.triggered()} == {1}


def test_unaligned_ones_come_one_at_a_time(make_job: MakeJob) -> None:
    config = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.max-concurrent-checkpoints": "2",
        "execution.checkpointing.unaligned.enabled": "true",
    }
    with pytest.raises(UserError) as refused:
        checkpoint_settings(make_job("j1", config=config), "/chk")
    assert refused.value.code == "SS6270"
    with pytest.raises(UserError, match="AT_LEAST_ONCE") as refused:
        checkpoint_settings(
            make_job(
                "j1",
                config={
                    "execution.checkpointing.mode": "AT_LEAST_ONCE",
                    "execution.checkpointing.unaligned.enabled": "true",
                },
            ),
            "/chk",
        )
    assert refused.value.code == "SS6270"
