"""A job's checkpoints, from the trigger to the removal, as its JobMaster decides them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from checkpointed_master import (
    BROKEN,
    DISK_FULL,
    ROOT,
    TORN,
    Master,
    rows,
    state_of,
    with_config,
)
from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    RESTORED_FROM_STORE,
    RESTORED_LOCALLY,
    CancelTask,
    CheckpointAborted,
    TaskMetrics,
    TriggerCheckpoint,
)
from sqlstream.runtime.jobmanager.events import (
    CancelRequested,
    CheckpointStored,
    CheckpointStoreFailed,
    CommitSinks,
    DiscardCheckpoint,
    JobFinished,
    MetricsReceived,
    Noted,
    RemoveAborted,
    RemoveCheckpoints,
    RemoveStagedRows,
    SavepointRequested,
    SinksAborted,
    SinksCommitFailed,
    StoreCheckpoint,
)
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, writer_name

MakeJob = Callable[..., JobGraph]
RUNNING, FINISHED, FAILED, CANCELED = (
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
    ExecutionState.FAILED,
    ExecutionState.CANCELED,
)
SOURCE, SINK = "j1-0-0-0", "j1-1-0-0"


def sink_in_the_source(job: JobGraph) -> JobGraph:
    """One vertex, whose source writes into the sink."""
    source, sink = job.vertices
    chained = msgspec.structs.replace(sink.operators[0], input=source.operators[0].id)
    vertex = msgspec.structs.replace(source, operators=(*source.operators, chained))
    return msgspec.structs.replace(job, vertices=(vertex,), edges=())


def test_sources_are_triggered_at_the_interval_and_again_until_they_acknowledge(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 2, 1)))
    job.tick(999)
    assert job.triggered() == []
    job.tick(1)
    assert job.triggered() == [(SOURCE, 1), ("j1-0-1-0", 1)]
    job.acknowledge(SOURCE, 1)
    job.tick(499)
    assert job.triggered() == []
    job.tick(1)
    assert job.triggered() == [("j1-0-1-0", 1)]


def test_a_checkpoint_is_complete_once_it_is_stored_and_then_its_sinks_are_committed(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.acknowledge(SOURCE, 1)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    manifest = job.manifest().manifest
    assert (manifest.checkpoint_id, manifest.job_id) == (1, "j1")
    assert [v.subtasks for v in manifest.vertices] == [(state_of(SOURCE, 1),), (state_of(SINK, 1),)]
    assert [c.committables for c in manifest.commits] == [(rows(SINK, 1),)]
    assert job.history[0][:2] == (1, "IN_PROGRESS")
    job.stored(1)
    assert job.fates() == {"completed 1": {SOURCE, SINK}}
    assert job.history[0][:2] == (1, "COMPLETED")


def test_the_commit_of_a_checkpoint_is_made_while_the_job_runs_and_only_once(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.acknowledge_all(1)
    job.stored(1)
    assert job.commits() == [(1, [f"{SINK}-1"])]
    job.stored(1)
    job.committed(1)
    job.committed(1)
    assert job.commits() == []
    job.tick(1000)
    # The task has not heard yet that the first one is complete, and says again what it wrote for it.
    job.acknowledge(SOURCE, 2)
    job.acknowledge(SINK, 2, rows(SINK, 1), rows(SINK, 2))
    job.stored(2)
    assert job.commits() == [(2, [f"{SINK}-2"])]


def test_no_checkpoint_begins_while_a_commit_waits_for_another(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    for n in (1, 2):
        job.complete_uncommitted(n)
    job.taken(TriggerCheckpoint)
    job.tick(5000)
    assert job.triggered() == []
    job.committed(1)
    job.tick(1)
    assert job.triggered() == [(SOURCE, 3)]


def test_lost_doubled_and_late_messages_change_nothing(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    for _ in range(2):
        job.acknowledge(SOURCE, 1)
    job.acknowledge("j1-0-0-7", 1)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    assert len(job.taken(StoreCheckpoint)) == 1
    job.acknowledge(SINK, 1, rows(SINK, 1))
    assert job.out == []
    job.stored(1)
    job.taken(StoreCheckpoint)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    job.decline(SOURCE, 1)
    assert job.fates() == {"completed 1": {SOURCE, SINK}}


def test_a_declined_checkpoint_is_aborted_and_its_files_are_removed(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), tolerable_failed_checkpoints="1"))
    job.tick(1000)
    job.acknowledge(SOURCE, 1)
    job.decline(SINK, 1)
    assert RemoveAborted("j1", f"{ROOT}/j1", 1, job.master.job_graph.config) in job.out
    assert job.fates() == {"aborted 1": {SOURCE, SINK}}
    assert job.history[0] == (1, "FAILED", "disk full")
    assert job.master.checkpoints.statistics().history[0].failed_task == "out (1/1)"
    job.acknowledge(SOURCE, 1)
    assert job.fates() == {"aborted 1": {SOURCE}}
    assert job.master.phase is JobPhase.RUNNING


def test_what_an_aborted_checkpoint_would_have_committed_comes_with_the_next(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), tolerable_failed_checkpoints="1"))
    job.tick(1000)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    job.decline(SOURCE, 1)
    job.complete(2)
    assert job.commits() == [(2, [f"{SINK}-1", f"{SINK}-2"])]


def test_a_store_that_refuses_the_keys_is_not_tolerated_and_named_to_the_restart_strategy(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1), tolerable_failed_checkpoints="1000"))
    job.complete(1)
    job.tick(1000)
    job.acknowledge_all(2)
    refused = ErrorInfo("SS5001", "keys refused", FailureReason.ACCESS_REFUSED, hint="check the keys")
    job.not_stored(2, refused)
    error = job.master.restarts.records[0].error
    assert (error.reason, error.hint) == (FailureReason.ACCESS_REFUSED, "check the keys")


def test_one_failure_too_many_in_a_row_restarts_the_job_from_the_last_checkpoint(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), tolerable_failed_checkpoints="1"))
    job.complete(1)
    for n in (2, 4):
        job.tick(1000)
        job.decline(SOURCE, n)
        assert job.master.phase is JobPhase.RUNNING
        if n == 2:
            job.complete(3)
    job.tick(1000)
    job.acknowledge_all(5)
    job.not_stored(5)
    assert job.master.phase is JobPhase.RESTARTING
    assert job.master.restarts.records[0].error.message == "a checkpoint failed: disk full"
    failed, restarts = [note.text for note in job.taken(Noted)][-2:]
    assert failed.startswith("checkpoint 5 has failed: error[SS5001]: disk full")
    assert restarts.startswith("2 of 2 tasks restart in 0.1 s: ")


def test_a_checkpoint_that_takes_too_long_names_the_task_that_it_waits_for(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 2), timeout="3 s", tolerable_failed_checkpoints="9"))
    job.tick(1000)
    job.acknowledge(SOURCE, 1)
    job.acknowledge(SINK, 1)
    job.tick(2999)
    assert job.history[0][:2] == (1, "IN_PROGRESS")
    job.tick(1)
    failed = job.master.checkpoints.statistics().latest_failed
    assert failed is not None
    assert failed.error is not None
    assert (failed.error.code, failed.failed_task) == ("SS6201", "out (2/2)")


def test_the_next_checkpoint_begins_when_the_pause_after_the_last_is_over(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), min_pause="3 s"))
    job.tick(1000)
    job.triggered()
    job.tick(1500)
    job.acknowledge_all(1)
    job.stored(1)
    job.committed(1)
    job.triggered()
    job.tick(2999)
    assert job.triggered() == []
    job.tick(1)
    assert job.triggered() == [(SOURCE, 2)]


def test_a_restart_goes_on_from_the_newest_checkpoint(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete(1)
    job.complete(2)
    job.taken(StoreCheckpoint)
    job.fail(SOURCE)
    deployed = job.deployed()
    restores = {name: d.restore for name, d in deployed.items()}
    assert {n: (r.checkpoint_id, r.directory, r.states, r.is_finished) for n, r in restores.items() if r} == {
        "j1-0-0-1": (2, f"{ROOT}/j1", (state_of(SOURCE, 2),), False),
        "j1-1-0-1": (2, f"{ROOT}/j1", (state_of(SINK, 2),), False),
    }
    assert {d.checkpoint_directory for d in deployed.values()} == {f"{ROOT}/j1"}
    assert job.master.restarts.records[0].checkpoint_id == 2


def test_attempts_say_where_they_have_read_the_state_that_they_go_on_from(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete(1)
    assert job.master.checkpoints.statistics().latest_restored is None
    job.fail(SOURCE)
    job.run_all()
    figures = {"j1-0-0-1": {RESTORED_LOCALLY: 70, RESTORED_FROM_STORE: 5}, "j1-1-0-1": {RESTORED_LOCALLY: 7}}
    job.handle(MetricsReceived(tuple(TaskMetrics(name, read) for name, read in figures.items())))
    restored = job.master.checkpoints.statistics().latest_restored
    assert restored is not None
    assert (restored.id, restored.local_bytes, restored.store_bytes) == (1, 77, 5)


def test_only_the_region_that_failed_goes_back(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 2, 2, ExchangeKind.FORWARD)))
    job.complete(1)
    job.taken(StoreCheckpoint)
    job.fail("j1-0-1-0")
    assert set(job.deployed()) == {"j1-0-1-1", "j1-1-1-1"}
    job.run_all()
    job.complete(2)
    assert job.history[0][:2] == (2, "COMPLETED")


def test_a_failure_breaks_the_checkpoint_off_and_does_not_count_for_it(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    job.fail(SOURCE)
    assert job.history[0] == (1, "FAILED", "a task has failed")
    assert job.master.restarts.count == 1
    job.run_all()
    job.complete(2)
    # What the replaced attempt wrote is not among it.
    assert job.commits() == [(2, ["j1-1-0-1-2"])]


def test_no_region_starts_while_it_is_not_known_whether_a_checkpoint_is_complete(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.acknowledge_all(1)
    job.taken(StoreCheckpoint)
    job.fail(SOURCE)
    job.tick(5000)
    assert job.deployed() == {}
    job.stored(1)
    restores = [d.restore.checkpoint_id for d in job.deployed().values() if d.restore]
    assert restores == [1, 1]


def test_a_commit_that_fails_is_repeated_as_the_restart_strategy_says(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)), restarts=1)
    job.tick(1000)
    job.acknowledge_all(1)
    job.stored(1)
    assert job.commits() == [(1, [f"{SINK}-1"])]
    job.handle(SinksCommitFailed("j1", 1, DISK_FULL))
    job.tick(99)
    assert job.commits() == []
    job.tick(1)
    assert job.commits() == [(1, [f"{SINK}-1"])]
    assert job.master.phase is JobPhase.RUNNING
    job.handle(SinksCommitFailed("j1", 1, DISK_FULL))
    assert job.master.phase is JobPhase.FAILING
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    assert job.aborts() == [f"{SINK}-1"]


@pytest.mark.parametrize("is_before_the_failure", [True, False])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_last_commit_that_fails_is_not_repeated_once_the_job_is_cancelled(
    make_job: MakeJob, is_before_the_failure: bool, is_stopped: bool
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)), restarts=1000)
    if is_stopped:
        job.handle(SavepointRequested("j1", "t1", CheckpointKind.SYNC_SAVEPOINT, "/sp/a"))
        job.tick(1)
        job.acknowledge_all(1)
        job.stored(1)
    for name in (SOURCE, SINK):
        job.report(name, CANCELED if is_stopped else FINISHED)
    last_id = 1 if is_stopped else LAST_CHECKPOINT_ID
    job.handle(SinksCommitFailed("j1", last_id, DISK_FULL))
    assert job.master.phase is (JobPhase.STOPPING if is_stopped else JobPhase.COMMITTING)
    if is_before_the_failure:
        job.tick(100)
        job.handle(CancelRequested("j1"))
        job.handle(SinksCommitFailed("j1", last_id, DISK_FULL))
    else:
        job.handle(CancelRequested("j1"))
    job.handle(SinksAborted("j1"))
    assert (job.master.phase, job.master.error) == (JobPhase.FAILED, DISK_FULL)


def test_the_end_of_the_job_commits_what_was_written_after_the_last_checkpoint(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete(1)
    job.taken(StoreCheckpoint)
    job.report(SOURCE, FINISHED)
    job.report(SINK, FINISHED, None, rows(SINK, LAST_CHECKPOINT_ID))
    assert job.commits() == [(LAST_CHECKPOINT_ID, [f"{SINK}-{LAST_CHECKPOINT_ID}"])]
    job.committed(LAST_CHECKPOINT_ID)
    assert RemoveCheckpoints("j1", f"{ROOT}/j1", job.master.job_graph.config) in job.out
    assert job.taken(JobFinished) == [JobFinished("j1", JobStatus.FINISHED, None)]


def test_an_acknowledgement_that_comes_after_the_end_does_not_have_the_committed_rows_removed(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.report(SOURCE, FINISHED)
    job.report(SINK, FINISHED, None, rows(SINK, 1), rows(SINK, LAST_CHECKPOINT_ID))
    assert job.commits() == [(LAST_CHECKPOINT_ID, [f"{SINK}-1", f"{SINK}-{LAST_CHECKPOINT_ID}"])]
    job.acknowledge(SINK, 1, rows(SINK, 1))
    job.committed(LAST_CHECKPOINT_ID)
    assert job.aborts() == []
    assert job.master.status is JobStatus.FINISHED


def test_a_finished_source_is_so_in_later_checkpoints_and_after_a_restart(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 2, 1)))
    job.report(SOURCE, FINISHED)
    job.tick(1000)
    assert job.triggered() == [("j1-0-1-0", 1)]
    job.acknowledge_all(1)
    assert job.manifest().manifest.vertices[0].finished == (True, False)
    job.stored(1)
    job.taken(StoreCheckpoint)
    job.fail("j1-0-1-0")
    restores = {n: d.restore.is_finished for n, d in job.deployed().items() if d.restore}
    assert restores == {"j1-0-0-1": True, "j1-0-1-1": False, "j1-1-0-1": False}


def test_what_a_finished_source_with_its_sink_wrote_is_committed_with_the_next_checkpoint(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(sink_in_the_source(make_job("j1", 2, 1))))
    last = rows(SOURCE, LAST_CHECKPOINT_ID)
    job.report(SOURCE, FINISHED, None, last)
    job.tick(1000)
    job.acknowledge("j1-0-1-0", 1)
    manifest = job.manifest().manifest
    assert [(c.checkpoint_id, c.committables) for c in manifest.commits] == [(1, (last,))]
    job.stored(1)
    assert job.commits() == [(1, [f"{SOURCE}-{LAST_CHECKPOINT_ID}"])]
    job.committed(1)
    job.fail("j1-0-1-0")
    job.run_all()
    job.report("j1-0-1-1", FINISHED, None, rows("j1-0-1-1", LAST_CHECKPOINT_ID))
    assert job.commits() == [(LAST_CHECKPOINT_ID, [f"j1-0-1-1-{LAST_CHECKPOINT_ID}"])]


def test_what_a_finished_source_with_its_sink_wrote_is_not_removed_when_the_job_stops_with_a_savepoint(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(sink_in_the_source(make_job("j1", 2, 1))))
    job.report(SOURCE, FINISHED, None, rows(SOURCE, LAST_CHECKPOINT_ID))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SYNC_SAVEPOINT, "/sp/a"))
    job.tick(1)
    job.acknowledge("j1-0-1-0", 1)
    job.stored(1)
    job.report("j1-0-1-0", CANCELED)
    assert job.commits() == [(1, [f"{SOURCE}-{LAST_CHECKPOINT_ID}"])]
    job.committed(1)
    assert job.aborts() == []


def test_what_a_finished_subtask_wrote_is_not_removed_although_its_region_was_restarted(
    make_job: MakeJob,
) -> None:
    joined = make_job("j1", 2, 1)
    (vertex,) = sink_in_the_source(joined).vertices
    job = Master(with_config(msgspec.structs.replace(joined, vertices=(vertex, joined.vertices[1]))))
    job.report(SOURCE, FINISHED, None, rows(SOURCE, LAST_CHECKPOINT_ID))
    job.complete(1)
    job.fail("j1-0-1-0")
    job.run_all()
    for name in ("j1-0-0-1", "j1-0-1-1", "j1-1-0-1"):
        job.report(name, FINISHED)
    committed = [name for _, names in job.commits() for name in names]
    job.committed(LAST_CHECKPOINT_ID)
    assert f"{SOURCE}-{LAST_CHECKPOINT_ID}" in committed
    assert not set(job.aborts()) & set(committed)


@pytest.mark.parametrize("finished", [[SOURCE], [SOURCE, SINK]])
def test_no_checkpoint_begins_while_a_task_has_no_more_input_or_a_vertex_has_finished_in_part(
    make_job: MakeJob, finished: list[str]
) -> None:
    job = Master(keeping_state(with_config(make_job("j1", 2, 2, ExchangeKind.FORWARD))))
    for name in finished:
        job.report(name, FINISHED)
    job.tick(60_000)
    assert job.history == []


def keeping_state(graph: JobGraph) -> JobGraph:
    """With an operator that has state in the place of the sink."""
    source, sink = graph.vertices
    operator = replace(
        sink.operators[0],
        spec=SourceSpec("bids", "nexmark", {}, Schema(()), ()),
        state=StateIdentity("meaning", "GROUP BY k"),
    )
    return replace(graph, vertices=(source, replace(sink, operators=(operator,))))


def test_a_checkpoint_is_taken_of_a_vertex_without_state_that_has_finished_in_part(make_job: MakeJob) -> None:
    """After a restart its subtasks that had finished only pass on the end of what they read."""
    job = Master(with_config(make_job("j1", 2, 2, ExchangeKind.FORWARD)))
    for name in (SOURCE, SINK):
        job.report(name, FINISHED)
    job.tick(60_000)
    assert job.triggered() == [("j1-0-1-0", 1)]
    job.acknowledge_all(1)
    assert [v.finished for v in job.manifest().manifest.vertices] == [(True, False), (True, False)]
    job.stored(1)
    job.fail("j1-1-1-0")
    restores = {n: d.restore.is_finished for n, d in job.deployed().items() if d.restore}
    assert restores.items() >= {"j1-0-1-1": False, "j1-1-1-1": False}.items()
    assert all(is_finished is name.endswith("0-1") for name, is_finished in restores.items())


def test_a_task_that_ends_before_it_has_acknowledged_breaks_the_checkpoint_off(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 2, 1)))
    job.tick(1000)
    job.report(SOURCE, FINISHED)
    assert job.history[0][:2] == (1, "FAILED")
    assert job.master.phase is JobPhase.RUNNING
    job.tick(1000)
    assert ("j1-0-1-0", 2) in job.triggered()


def test_no_checkpoint_begins_once_all_sources_have_finished(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.report(SOURCE, FINISHED)
    job.tick(60_000)
    assert job.history == []


def test_older_checkpoints_are_removed_but_for_the_files_that_a_kept_one_needs(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete(1)
    job.taken(DiscardCheckpoint)
    job.tick(1000)
    job.acknowledge(SOURCE, 2, state=state_of(SOURCE, 2, 1))
    job.acknowledge(SINK, 2)
    job.stored(2)
    (discard,) = job.taken(DiscardCheckpoint)
    assert discard.manifest.checkpoint_id == 1
    assert discard.manifest.paths() - discard.still_needed == {f"shared/{SINK}-1.arrow"}


def test_a_checkpoint_that_refers_to_a_removed_file_is_aborted(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete(1)
    job.complete(2)
    job.tick(1000)
    job.acknowledge(SOURCE, 3, state=state_of(SOURCE, 3, 1))
    assert job.history[0] == (3, "FAILED", f'it refers to a file that was removed: "shared/{SOURCE}-1.arrow"')
    job.complete(4)
    assert job.history[0][:2] == (4, "COMPLETED")


def test_a_checkpoint_whose_earlier_files_are_gone_is_followed_soon_by_a_whole_one(make_job: MakeJob) -> None:
    """A restart would need those files: the job runs on, although no failed checkpoint is tolerated."""
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete(1)
    job.tick(1000)
    job.acknowledge_all(2)
    job.out = []
    job.handle(CheckpointStoreFailed("j1", 2, TORN))
    said = [i.text for i in job.out if isinstance(i, Noted)]
    assert said == ["checkpoint 2 is given up, and the next one is whole: error[SS6210]: torn"]
    aborted = job.taken(CheckpointAborted)
    assert {(m.execution_id, m.checkpoint_id, m.is_base_gone) for m in aborted} == {
        (n, 2, True) for n in (SOURCE, SINK)
    }
    assert job.history[0] == (2, "FAILED", "torn")
    job.tick(1)
    assert {n for _, n in job.triggered()} == {3}
    job.acknowledge_all(3)
    job.stored(3)
    assert job.master.phase is JobPhase.RUNNING
    assert job.history[0][:2] == (3, "COMPLETED")


def test_a_torn_checkpoint_is_left_for_the_one_before_when_nothing_was_committed_since(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1), num_retained="3"), restarts=1)
    for n in (1, 2):
        job.tick(1000)
        job.acknowledge(SOURCE, n)
        job.acknowledge(SINK, n)
        job.stored(n)
    job.fail(SOURCE)
    job.taken(StoreCheckpoint)
    job.fail("j1-0-0-1", TORN)
    restores = {n: d.restore.checkpoint_id for n, d in job.deployed().items() if d.restore}
    assert restores == {"j1-0-0-2": 1, "j1-1-0-2": 1}
    assert (2, "COMPLETED", "torn") in job.history
    job.fail("j1-0-0-2", TORN)
    job.handle(SinksAborted("j1"))
    assert job.master.status is JobStatus.FAILED
    assert job.master.error == replace(
        TORN, hint='start from another checkpoint or savepoint; what is left of its own stays in "/chk/j1"'
    )


def test_a_job_whose_sinks_have_committed_does_not_go_back_behind_that(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), num_retained="3"))
    job.complete(1)
    job.complete(2)
    job.fail(SOURCE)
    job.fail("j1-0-0-1", TORN)
    job.handle(SinksAborted("j1"))
    assert job.master.status is JobStatus.FAILED
    assert job.master.error is not None
    assert job.master.error.hint == (
        "its checkpoints stay: SET 'execution.state-recovery.path' = '/chk/j1/chk-1' goes on from the one before, and writes "
        "rows again that are visible"
    )
    # The older one may be all that is left of its state.
    assert not [i for i in job.out if isinstance(i, RemoveCheckpoints)]


@pytest.mark.parametrize("left", [(3, 2, 1), (3, 1)], ids=str)
def test_a_new_job_manager_does_not_go_back_behind_what_the_one_before_has_committed(
    make_job: MakeJob, left: tuple[int, ...]
) -> None:
    graph = with_config(make_job("j1", 1, 1), num_retained="3")
    job, kept = Master(graph), {}
    for n in (1, 2, 3):
        job.tick(1000)
        # The third brings no rows to commit: nothing else says that the second was committed.
        job.acknowledge(SOURCE, n)
        job.acknowledge(SINK, n, *([rows(SINK, n)] if n < 3 else []))
        kept[n] = job.manifest()
        job.stored(n)
        job.committed(n)
    again = Master(graph, restored=tuple(kept[n] for n in left))
    for attempt, n in enumerate(n for n in left if n > 1):
        restores = {d.restore.checkpoint_id for d in again.deployed().values() if d.restore}
        assert restores == {n}
        again.fail(f"j1-0-0-{attempt}", TORN)
    again.handle(SinksAborted("j1"))
    assert again.master.status is JobStatus.FAILED
    assert again.master.error is not None
    assert again.master.error.hint.startswith("its checkpoints stay")


def test_a_job_does_not_go_back_behind_a_commit_when_it_is_already_restarted_for_another_reason(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1), num_retained="3"))
    job.complete(1)
    job.complete(2)
    job.fail(SOURCE)
    job.report("j1-0-0-1", FAILED, BROKEN)
    job.report("j1-1-0-1", FAILED, TORN)
    assert job.master.phase is JobPhase.ABORTING
    assert job.master.error is not None
    assert job.master.error.code == TORN.code


def test_sources_and_commits_go_back_when_the_job_is_already_restarted_for_another_reason(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1), num_retained="3"))
    for n in (1, 2):
        job.complete_uncommitted(n)
    job.fail(SOURCE)
    job.report("j1-0-0-1", FAILED, BROKEN)
    job.report("j1-1-0-1", FAILED, TORN)
    job.taken(CommitSinks)
    # The commit that is under way ends before the restart: that of the torn checkpoint must not follow.
    job.committed(1)
    job.tick(100)
    assert job.taken(CommitSinks) == []
    job.run_all()
    job.complete(3)
    assert job.commits() == [(3, ["j1-1-0-2-3"])]
    assert job.master.restarts.records[0].checkpoint_id == 1


def test_a_commit_that_ends_while_the_job_goes_back_is_not_followed_by_one_that_is_withdrawn(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1), num_retained="3"))
    for n in (1, 2):
        job.complete_uncommitted(n)
    job.fail(SOURCE)
    job.report("j1-0-0-1", FAILED, TORN)
    job.taken(CommitSinks)
    job.committed(1)
    assert job.taken(CommitSinks) == []
    job.report("j1-1-0-1", CANCELED)
    job.tick(100)
    assert job.master.phase is JobPhase.DEPLOYING


@pytest.mark.parametrize(
    ("retention", "is_removed"),
    [
        ("NO_EXTERNALIZED_CHECKPOINTS", True),
        ("DELETE_ON_CANCELLATION", True),
        ("RETAIN_ON_CANCELLATION", False),
    ],
)
def test_a_cancelled_job_leaves_its_checkpoints_when_its_settings_say_so(
    make_job: MakeJob, retention: str, is_removed: bool
) -> None:
    job = Master(with_config(make_job("j1", 1, 1), externalized_checkpoint_retention=retention))
    job.complete(1)
    job.handle(CancelRequested("j1"))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    job.handle(SinksAborted("j1"))
    removed = [i for i in job.out if isinstance(i, RemoveCheckpoints)]
    assert bool(removed) is is_removed
    assert job.master.status is JobStatus.CANCELED


def test_rows_that_a_retained_checkpoint_has_to_commit_are_kept_with_it(make_job: MakeJob) -> None:
    config = with_config(make_job("j1", 1, 1), externalized_checkpoint_retention="RETAIN_ON_CANCELLATION")
    job = Master(config)
    job.tick(1000)
    job.acknowledge_all(1)
    job.stored(1)
    job.handle(CancelRequested("j1"))
    job.handle(SinksCommitFailed("j1", 1, DISK_FULL))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    assert job.aborts() == []
    assert (job.master.status, job.master.output_kept_for()) == (JobStatus.CANCELED, (f"{ROOT}/j1",))


def test_rows_that_a_savepoint_has_to_commit_are_kept_with_it(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)), restarts=0)
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SYNC_SAVEPOINT, "/sp/savepoint-j1-abc"))
    job.tick(1)
    job.acknowledge_all(1)
    job.handle(CheckpointStored("j1", 1, "/sp/savepoint-j1-abc"))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    job.handle(SinksCommitFailed("j1", 1, DISK_FULL))
    assert job.aborts() == []
    assert (job.master.status, job.master.output_kept_for()) == (JobStatus.FAILED, ("/sp/savepoint-j1-abc",))


def test_a_cancelled_job_commits_what_a_complete_checkpoint_has_and_removes_the_rest(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    for n in (1, 2):
        job.complete_uncommitted(n)
    # The task has prepared a third one, which is not complete.
    job.acknowledge(SINK, 3, rows(SINK, 3))
    job.handle(CancelRequested("j1"))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    job.taken(StoreCheckpoint)
    job.committed(1)
    assert job.commits() == [(2, [f"{SINK}-2"])]
    job.committed(2)
    assert job.aborts() == [f"{SINK}-3"]
    job.handle(SinksAborted("j1"))
    assert job.master.phase is JobPhase.CANCELED


def test_a_savepoint_is_stored_in_its_own_directory_and_its_rows_are_committed_by_the_next_checkpoint(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/savepoint-j1-abc"))
    job.tick(1)
    (trigger,) = job.taken(TriggerCheckpoint)
    assert (trigger.checkpoint_id, trigger.directory) == (1, "/sp/savepoint-j1-abc")
    job.acknowledge_all(1)
    assert job.manifest().directory == "/sp/savepoint-j1-abc"
    job.stored(1)
    assert job.fates() == {"aborted 1": {SOURCE, SINK}}
    (status,) = job.master.checkpoints.requests.known()
    assert (status.is_done, status.checkpoint_id, status.error) == (False, 1, None)
    job.tick(1)
    job.acknowledge_all(2)
    job.stored(2)
    assert job.commits() == [(2, [f"{SINK}-1", f"{SINK}-2"])]
    job.committed(2)
    (status,) = job.master.checkpoints.requests.known()
    assert (status.is_done, status.path, status.error) == (True, f"{ROOT}/j1/chk-1", None)


def test_a_savepoint_without_rows_to_commit_is_done_once_it_is_stored(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(1)
    job.acknowledge(SOURCE, 1)
    job.acknowledge(SINK, 1)
    job.stored(1)
    (status,) = job.master.checkpoints.requests.known()
    assert status.is_done


def test_a_savepoint_that_cannot_begin_fails_after_the_timeout_with_the_cause(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1), timeout="3 s"), restarts=9)
    job.tick(1000)
    job.acknowledge_all(1)
    job.stored(1)
    job.handle(SinksCommitFailed("j1", 1, DISK_FULL))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(2999)
    (status,) = job.master.checkpoints.requests.known()
    assert not status.is_done
    job.tick(1)
    (status,) = job.master.checkpoints.requests.known()
    assert status.error is not None
    expected = "the savepoint did not begin within 3 s: the commit of an earlier one is not done"
    assert (status.error.code, status.error.message) == ("SS6201", expected)
    assert "what its sinks cannot commit" in status.error.hint


@pytest.mark.parametrize(
    ("ended", "cause", "hint"),
    [
        (("j1-0-0-0", "j1-0-1-0"), "its sources have read all that there is", "wait for the end of the job"),
        (("j1-0-0-0", "j1-1-0-0"), '1 of 2 subtasks of "{sink}" have finished', "its other subtasks"),
    ],
)
def test_a_savepoint_that_finished_tasks_keep_from_beginning_fails_with_the_cause(
    make_job: MakeJob, ended: tuple[str, ...], cause: str, hint: str
) -> None:
    graph = keeping_state(with_config(make_job("j1", 2, 2), timeout="3 s"))
    job = Master(graph)
    for execution_id in ended:
        job.report(execution_id, ExecutionState.FINISHED)
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(3000)
    (status,) = job.master.checkpoints.requests.known()
    assert status.error is not None
    assert status.error.message.endswith(f": {cause.format(sink=graph.vertices[1].name)}")
    assert hint in status.error.hint


def test_a_savepoint_whose_rows_a_restart_discards_has_failed(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(1)
    job.acknowledge_all(1)
    job.stored(1)
    job.fail(SOURCE)
    job.run_all()
    job.complete(2)
    (status,) = job.master.checkpoints.requests.known()
    assert (status.is_done, status.path) == (True, "")
    assert status.error is not None
    assert status.error.code == "SS6203"


def test_a_savepoint_whose_rows_an_open_commit_has_survives_a_restart(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(1)
    job.acknowledge_all(1)
    job.stored(1)
    job.tick(1)
    job.acknowledge_all(2)
    job.stored(2)
    job.fail(SOURCE)
    job.committed(2)
    (status,) = job.master.checkpoints.requests.known()
    assert (status.is_done, status.error) == (True, None)


@pytest.mark.parametrize("is_committed_before", [True, False])
def test_a_savepoint_without_rows_waits_for_the_commits_before_it_only(
    make_job: MakeJob, is_committed_before: bool
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.acknowledge_all(1)
    job.stored(1)
    for trigger_id in ("t1", "t2"):
        job.handle(SavepointRequested("j1", trigger_id, CheckpointKind.SAVEPOINT, f"/sp/{trigger_id}"))
    job.tick(1)
    job.acknowledge(SOURCE, 2)
    if is_committed_before:
        job.committed(1)
    job.acknowledge(SINK, 2)
    job.stored(2)
    job.tick(1)
    job.acknowledge(SOURCE, 3)
    job.acknowledge(SINK, 3)
    job.stored(3)
    if not is_committed_before:
        assert [s.is_done for s in job.master.checkpoints.requests.known()] == [False, False]
        job.committed(1)
    assert [s.path for s in job.master.checkpoints.requests.known()] == [
        f"{ROOT}/j1/chk-2",
        f"{ROOT}/j1/chk-3",
    ]


def test_a_savepoint_whose_rows_are_removed_with_its_job_has_failed(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.tick(1)
    job.acknowledge_all(1)
    job.stored(1)
    job.handle(CancelRequested("j1"))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    assert job.aborts() == [f"{SINK}-1"]
    job.handle(SinksAborted("j1"))
    (status,) = job.master.checkpoints.requests.known()
    assert (status.is_done, status.path) == (True, "")
    assert status.error is not None


def test_a_job_stops_with_a_savepoint_once_its_rows_are_committed(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SYNC_SAVEPOINT, "/sp/a", is_drain=True))
    job.tick(1)
    (trigger,) = job.taken(TriggerCheckpoint)
    assert trigger.is_drain
    job.acknowledge_all(1)
    job.stored(1)
    assert job.master.phase is JobPhase.STOPPING
    assert {m.execution_id for m in job.taken(CancelTask)} == {SOURCE, SINK}
    # A repeated acknowledgement brings nothing that would be removed with what is left over.
    job.acknowledge(SINK, 1, rows(SINK, 1))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    # A JobManager that dies now must not go back behind it: whoever keeps the job learns that it ends so.
    (commit,) = job.taken(CommitSinks)
    assert (commit.checkpoint_id, commit.is_last) == (1, True)
    assert [w.content["file"] for sink in commit.commits for w in sink.committables] == [f"{SINK}-1"]
    job.committed(1)
    assert job.aborts() == []
    assert [status.is_done for status in job.master.checkpoints.requests.known()] == [False]
    job.handle(SinksAborted("j1"))
    assert job.taken(JobFinished) == [JobFinished("j1", JobStatus.FINISHED, None)]
    (status,) = job.master.checkpoints.requests.known()
    assert (status.is_done, status.path) == (True, f"{ROOT}/j1/chk-1")


def test_a_savepoint_of_a_job_that_ends_before_it_has_failed(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.handle(SavepointRequested("j1", "t1", CheckpointKind.SAVEPOINT, "/sp/a"))
    job.handle(CancelRequested("j1"))
    for name in (SOURCE, SINK):
        job.report(name, CANCELED)
    (status,) = job.master.checkpoints.requests.known()
    assert status.is_done
    assert status.error is not None
    assert status.error.code == "SS6206"


def test_a_new_job_manager_goes_on_from_the_newest_checkpoint_and_repeats_its_commit(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.tick(1000)
    job.acknowledge_all(1)
    kept = job.manifest()
    anew = Master(with_config(make_job("j1", 1, 1)), restored=(kept,), restored_only=True)
    assert {d.restore.checkpoint_id for d in anew.deployed().values() if d.restore} == {1}
    anew.run_all()
    again = Master(with_config(make_job("j1", 1, 1)), restored=(kept,))
    assert again.commits() == [(1, [f"{SINK}-1"])]
    again.committed(1)
    again.complete(2)
    assert again.commits() == [(2, [f"{SINK}-2"])]


def test_failed_attempts_leave_nothing_when_the_job_fails_for_good(make_job: MakeJob) -> None:
    job = Master(with_config(make_job("j1", 1, 1)), restarts=1)
    job.tick(1000)
    job.acknowledge(SINK, 1, rows(SINK, 1))
    job.fail(SOURCE)
    job.run_all()
    job.tick(1000)
    job.acknowledge("j1-1-0-1", 2, rows("j1-1-0-1", 2))
    job.report("j1-0-0-1", FAILED, BROKEN)
    job.report("j1-1-0-1", CANCELED)
    assert job.aborts() == ["j1-1-0-1-2", f"{SINK}-1"]
    job.handle(SinksAborted("j1"))
    assert job.master.status is JobStatus.FAILED


def test_what_replaced_attempts_have_staged_is_removed_once_all_before_is_committed(
    make_job: MakeJob,
) -> None:
    job = Master(with_config(make_job("j1", 1, 1)))
    job.complete_uncommitted(1)
    job.fail(SOURCE)
    job.run_all()
    # The commit may have rows of theirs.
    assert job.taken(RemoveStagedRows) == []
    job.committed(1)
    (removal,) = job.taken(RemoveStagedRows)
    assert [rows.writer_names for rows in removal.staged] == [(writer_name("a0", SINK, 1),)]
    job.complete(2)
    assert job.taken(RemoveStagedRows) == []
    job.fail("j1-0-0-1")
    (removal,) = job.taken(RemoveStagedRows)
    assert [rows.writer_names for rows in removal.staged] == [(writer_name("a0", "j1-1-0-1", 1),)]
