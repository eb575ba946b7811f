"""One job from submission to its end, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from committable_harness import file_of

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    AcceptSlots,
    CancelTask,
    DeployTask,
    FreeSlot,
    RequestMetrics,
    SinkCommittables,
    SlotOffer,
    TaskMetrics,
    TaskStateAck,
    TaskStateUpdate,
)
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CancelRequested,
    CommitSinks,
    GiveUpTaskManager,
    JobFinished,
    JobStored,
    MetricsReceived,
    MetricsRequested,
    NoTaskManagerLeft,
    ReleaseSlots,
    RequestSlots,
    Send,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    SlotsOffered,
    TaskManagerLost,
    TaskStateChanged,
    Tick,
    WithdrawRequest,
)
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

MakeJob = Callable[..., JobGraph]
CONFIG = JobMasterConfig("jm:1", slot_request_timeout_ms=1000, cancellation_timeout_ms=5000, resend_ms=500)
BROKEN = ErrorInfo(code="SS5002", message="bad row", reason=FailureReason.OPERATOR_FAILED)
LOST = ErrorInfo(code="SS6001", message="silent", reason=FailureReason.TASK_MANAGER_LOST)
CUT = ErrorInfo(code="SS5003", message="connection closed", reason=FailureReason.PARTITION_LOST)
OFFER = SlotsOffered("tm0#0", "tm0:1", (SlotOffer(0, "j1/1"),))
SOURCE, SINK = "j1-0-0-0", "j1-1-0-0"


def started(job: JobGraph) -> JobMaster:
    master = JobMaster(job, CONFIG, 0)
    assert master.handle(JobStored("j1"), 0) == [RequestSlots("j1", master.slots.needed)]
    return master


def deployed(job: JobGraph) -> JobMaster:
    master = started(job)
    master.handle(OFFER, 10)
    return master


def update(
    execution_id: str,
    state: ExecutionState,
    sequence: int = 1,
    error: ErrorInfo | None = None,
    committables: tuple[SinkCommittables, ...] = (),
    tm: str = "tm0#0",
) -> TaskStateChanged:
    return TaskStateChanged(TaskStateUpdate(tm, "j1", execution_id, sequence, state, error, committables))


def messages(instructions: list[Any], kind: type) -> list[Any]:
    return [i.message for i in instructions if isinstance(i, Send) and isinstance(i.message, kind)]


def test_all_tasks_are_deployed_when_the_last_slot_is_there_and_not_before(make_job: MakeJob) -> None:
    master = started(make_job("j1", 2, 1))
    first = master.handle(OFFER, 10)
    assert messages(first, AcceptSlots) == [AcceptSlots("tm0#0", "j1", ("j1/1",))]
    assert messages(first, DeployTask) == []
    second = master.handle(SlotsOffered("tm1#0", "tm1:1", (SlotOffer(0, "j1/2"),)), 20)
    placed = {m.descriptor.execution_id: m.task_manager_id for m in messages(second, DeployTask)}
    assert placed == {"j1-0-0-0": "tm0#0", "j1-0-1-0": "tm1#0", "j1-1-0-0": "tm0#0"}
    assert WithdrawRequest("j1") in second


def test_a_slot_too_many_is_given_back(make_job: MakeJob) -> None:
    master = deployed(make_job())
    out = master.handle(SlotsOffered("tm1#0", "tm1:1", (SlotOffer(0, "j1/9"),)), 20)
    assert out == [Send("tm1:1", FreeSlot("tm1#0", "j1/9"))]


def test_a_deployment_is_repeated_until_the_task_reports(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SOURCE, ExecutionState.INITIALIZING, 0), 20)
    assert messages(master.handle(Tick(), 400), DeployTask) == []
    repeated = messages(master.handle(Tick(), 510), DeployTask)
    assert [m.descriptor.execution_id for m in repeated] == [SINK]


def test_a_job_without_slots_fails_for_want_of_resources(make_job: MakeJob) -> None:
    master = started(make_job("j1", 2, 2))
    assert master.handle(Tick(), 999) == []
    out = master.handle(Tick(), 1000)
    assert master.status is JobStatus.FAILED
    assert master.error is not None
    assert master.error.reason is FailureReason.NO_RESOURCES
    assert out[-2:] == [ReleaseSlots("j1"), JobFinished("j1", JobStatus.FAILED, master.error)]


def test_sinks_are_committed_after_the_last_task_and_before_the_job_is_finished(make_job: MakeJob) -> None:
    master = deployed(make_job())
    files = (SinkCommittables(1, (file_of("a"), file_of("b"))),)
    assert messages(master.handle(update(SINK, ExecutionState.FINISHED, 2, None, files), 30), TaskStateAck)
    out = master.handle(update(SOURCE, ExecutionState.FINISHED, 2), 40)
    commit = next(i for i in out if isinstance(i, CommitSinks))
    assert [(c.operator_id, c.committables) for c in commit.commits] == [(1, (file_of("a"), file_of("b")))]
    assert master.status is JobStatus.RUNNING
    assert master.handle(CancelRequested("j1"), 45) == []
    out = master.handle(SinksCommitted("j1", LAST_CHECKPOINT_ID), 50)
    assert out == [ReleaseSlots("j1"), JobFinished("j1", JobStatus.FINISHED, None)]


def test_a_commit_that_fails_fails_the_job(make_job: MakeJob) -> None:
    master = deployed(make_job())
    for execution_id in (SOURCE, SINK):
        master.handle(update(execution_id, ExecutionState.FINISHED), 30)
    out = master.handle(SinksCommitFailed("j1", LAST_CHECKPOINT_ID, BROKEN), 40)
    # What other sinks of the job have made visible must go again.
    assert [c.operator_id for i in out if isinstance(i, AbortSinks) for c in i.commits] == [1]
    assert not master.status.is_terminal
    master.handle(SinksAborted("j1"), 50)
    assert (master.status, master.error) == (JobStatus.FAILED, BROKEN)


def test_one_failed_task_cancels_the_others_and_the_job_ends_after_the_last(make_job: MakeJob) -> None:
    master = deployed(make_job())
    out = master.handle(update(SOURCE, ExecutionState.FAILED, 1, BROKEN), 30)
    assert messages(out, CancelTask) == [CancelTask("tm0#0", "j1", SINK)]
    assert master.status is JobStatus.FAILING
    assert messages(master.handle(Tick(), 600), CancelTask) == [CancelTask("tm0#0", "j1", SINK)]
    out = master.handle(update(SINK, ExecutionState.CANCELED), 700)
    assert out[-1] == JobFinished("j1", JobStatus.FAILED, BROKEN)


def test_what_finished_subtasks_of_a_failed_job_wrote_is_aborted(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SINK, ExecutionState.FINISHED, 1, None, (SinkCommittables(1, (file_of("a"),)),)), 20)
    out = master.handle(update(SOURCE, ExecutionState.FAILED, 1, BROKEN), 30)
    abort = next(i for i in out if isinstance(i, AbortSinks))
    assert abort.commits[0].committables == (file_of("a"),)
    assert not master.status.is_terminal
    master.handle(SinksAborted("j1"), 40)
    assert master.status is JobStatus.FAILED


def test_what_a_failed_subtask_had_prepared_is_aborted(make_job: MakeJob) -> None:
    master = deployed(make_job())
    prepared = (SinkCommittables(1, (file_of("a"),)),)
    master.handle(update(SINK, ExecutionState.FAILED, 1, BROKEN, prepared), 20)
    out = master.handle(update(SOURCE, ExecutionState.CANCELED, 1), 30)
    abort = next(i for i in out if isinstance(i, AbortSinks))
    assert abort.commits[0].committables == (file_of("a"),)


def test_a_task_that_finishes_while_it_is_cancelled_counts_as_cancelled(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(CancelRequested("j1"), 20)
    master.handle(update(SOURCE, ExecutionState.FINISHED), 30)
    master.handle(update(SINK, ExecutionState.CANCELED), 40)
    assert master.status is JobStatus.CANCELED
    assert {e.state for e in master.graph.executions()} == {ExecutionState.CANCELED}


def test_a_job_that_waits_for_slots_fails_when_no_task_manager_is_left(make_job: MakeJob) -> None:
    master = started(make_job())
    out = master.handle(NoTaskManagerLeft(LOST), 20)
    assert out[-1] == JobFinished("j1", JobStatus.FAILED, LOST)


def test_a_job_that_is_deployed_leaves_its_end_to_the_loss_of_its_own_task_managers(
    make_job: MakeJob,
) -> None:
    master = deployed(make_job())
    assert master.handle(NoTaskManagerLeft(LOST), 20) == []
    assert master.status is JobStatus.RUNNING


def test_cancelling_a_job_that_waits_for_slots_ends_it_at_once(make_job: MakeJob) -> None:
    master = started(make_job())
    out = master.handle(CancelRequested("j1"), 20)
    assert out[-1] == JobFinished("j1", JobStatus.CANCELED, None)


def test_a_lost_task_manager_fails_the_job_with_that_reason(make_job: MakeJob) -> None:
    master = deployed(make_job())
    out = master.handle(TaskManagerLost("tm0#0", LOST), 30)
    # It could not clean up: whatever its sinks wrote is removed for it.
    assert [c.committables for i in out if isinstance(i, AbortSinks) for c in i.commits] == [()]
    out = master.handle(SinksAborted("j1"), 40)
    assert out[-1] == JobFinished("j1", JobStatus.FAILED, LOST)


def test_the_loss_of_a_task_manager_replaces_the_broken_connection_that_it_caused(make_job: MakeJob) -> None:
    master = started(make_job("j1", 2, 1))
    master.handle(OFFER, 10)
    master.handle(SlotsOffered("tm1#0", "tm1:1", (SlotOffer(0, "j1/2"),)), 20)
    master.handle(update(SINK, ExecutionState.FAILED, 1, CUT), 30)
    assert master.error == CUT
    master.handle(TaskManagerLost("tm1#0", LOST), 40)
    assert master.error == LOST


def test_the_cause_of_an_old_job_is_not_replaced_by_a_want_of_slots(make_job: MakeJob) -> None:
    master = deployed(make_job())
    past_ms = CONFIG.slot_request_timeout_ms + 4000
    master.handle(update(SINK, ExecutionState.FAILED, 1, CUT), past_ms)
    master.handle(Tick(), past_ms + 100)
    assert master.error == CUT
    master.handle(TaskManagerLost("tm0#0", LOST), past_ms + 200)
    assert master.error == LOST


def test_the_failure_of_a_producer_replaces_the_broken_connection_that_it_caused(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SINK, ExecutionState.FAILED, 1, CUT), 30)
    master.handle(update(SOURCE, ExecutionState.FAILED, 1, BROKEN), 40)
    assert (master.status, master.error) == (JobStatus.FAILED, BROKEN)


def test_a_slot_lost_before_deployment_is_waited_for_again(make_job: MakeJob) -> None:
    master = started(make_job("j1", 2, 1))
    master.handle(OFFER, 10)
    master.handle(TaskManagerLost("tm0#0", LOST), 20)
    assert master.status is JobStatus.RUNNING
    assert len(master.slots) == 0


def test_a_task_that_does_not_end_is_given_up_in_the_end(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(CancelRequested("j1"), 20)
    master.handle(Tick(), 5019)
    assert master.status is JobStatus.CANCELLING
    out = master.handle(Tick(), 5020)
    assert out.count(GiveUpTaskManager("tm0#0")) == 1
    assert "5020 j1-0-0-0 did not end in time and is given up" in master.story.lines()
    # What it has written so far is removed for it.
    assert [c.committables for i in out if isinstance(i, AbortSinks) for c in i.commits] == [()]
    master.handle(SinksAborted("j1"), 5030)
    assert master.status is JobStatus.CANCELED


def test_repeated_and_overtaken_reports_change_nothing_and_are_acknowledged(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SOURCE, ExecutionState.RUNNING, 1), 20)
    for sequence, state in ((1, ExecutionState.RUNNING), (0, ExecutionState.INITIALIZING)):
        out = master.handle(update(SOURCE, state, sequence), 30)
        assert out == [Send("tm0:1", TaskStateAck("tm0#0", SOURCE, sequence))]
    execution = next(master.graph.executions())
    assert execution.state is ExecutionState.RUNNING
    assert execution.timestamps_ms["RUNNING"] == 20


def test_figures_of_an_ended_task_are_its_last(make_job: MakeJob) -> None:
    master = deployed(make_job())
    last = TaskMetrics(SOURCE, {"numRecordsOut": 9})
    final = TaskStateUpdate("tm0#0", "j1", SOURCE, 2, ExecutionState.FINISHED, metrics=last)
    master.handle(TaskStateChanged(final), 20)
    master.handle(MetricsReceived((TaskMetrics(SOURCE, {"numRecordsOut": 3}),)), 30)
    assert next(master.graph.executions()).metrics == last


def test_a_job_is_settled_while_all_its_tasks_run_and_none_is_to_end(make_job: MakeJob) -> None:
    master = started(make_job("j1"))
    assert not master.is_settled(), "its slots have a deadline"
    master.handle(OFFER, 10)
    assert not master.is_settled(), "a deployment may be lost"
    for execution_id in (SOURCE, SINK):
        master.handle(update(execution_id, ExecutionState.RUNNING), 20)
    assert master.is_settled()
    master.handle(CancelRequested("j1"), 30)
    assert not master.is_settled()


def test_figures_are_asked_of_each_task_manager_once_however_often_somebody_looks(make_job: MakeJob) -> None:
    master = deployed(make_job("j1"))
    assert master.handle(MetricsRequested("j1"), 2000) == [], "no task runs yet"
    for execution_id in (SOURCE, SINK):
        master.handle(update(execution_id, ExecutionState.RUNNING), 2500)
    asked = [Send("tm0:1", RequestMetrics("tm0#0"))]
    assert [master.handle(MetricsRequested("j1"), ms) for ms in (3000, 3500, 3999, 4000)] == [
        asked,
        [],
        [],
        asked,
    ]
    assert master.handle(MetricsRequested("j1"), 9000) == [], "who looks now and then has what comes unasked"
    assert master.handle(MetricsRequested("j1"), 11_000) == asked


def test_a_job_is_not_settled_while_one_of_its_tasks_still_starts(make_job: MakeJob) -> None:
    master = deployed(make_job("j1"))
    master.handle(update(SOURCE, ExecutionState.RUNNING), 20)
    assert not master.is_settled()


def test_nothing_is_sent_again_before_its_time_however_late_it_was_sent_first(make_job: MakeJob) -> None:
    master = started(make_job())
    master.handle(OFFER, 900)
    assert messages(master.handle(Tick(), 1399), DeployTask) == []
    assert len(messages(master.handle(Tick(), 1400), DeployTask)) == 2
    assert len(messages(master.handle(CancelRequested("j1"), 1500), CancelTask)) == 2
    assert messages(master.handle(Tick(), 1999), CancelTask) == []
    assert len(messages(master.handle(Tick(), 2000), CancelTask)) == 2


def test_a_report_of_a_number_seen_before_and_one_after_the_end_change_nothing(make_job: MakeJob) -> None:
    master = deployed(make_job())
    sink = list(master.graph.executions())[1]

    def report(sequence: int, state: ExecutionState, rows: int) -> None:
        files = (SinkCommittables(1, (file_of(rows),)),) if state is ExecutionState.FINISHED else ()
        metrics = TaskMetrics(SINK, {"numRecordsIn": rows})
        message = TaskStateUpdate("tm0#0", "j1", SINK, sequence, state, None, files, metrics)
        master.handle(TaskStateChanged(message), 20)

    report(1, ExecutionState.RUNNING, 1)
    report(1, ExecutionState.RUNNING, 2)
    assert sink.metrics == TaskMetrics(SINK, {"numRecordsIn": 1})
    report(2, ExecutionState.FINISHED, 3)
    report(3, ExecutionState.FINISHED, 4)
    assert list(sink.committables.values()) == [file_of(3)]


def test_a_task_that_its_task_manager_cancels_fails_the_job(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SOURCE, ExecutionState.CANCELED), 20)
    assert master.status is JobStatus.FAILING
    assert master.error is not None
    assert (master.error.code, master.error.vertex, master.error.attempt) == ("SS6011", "bids", 0)
    assert master.error.reason is FailureReason.TASK_MANAGER_LOST


def test_a_task_that_fails_without_a_cause_is_named(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SINK, ExecutionState.FAILED), 20)
    assert master.error is not None
    assert (master.error.code, master.error.message) == ("SS9001", "a task failed without reporting a cause")
    assert (master.error.vertex, master.error.attempt) == ("out", 0)


def test_the_first_cause_is_kept(make_job: MakeJob) -> None:
    master = deployed(make_job())
    master.handle(update(SOURCE, ExecutionState.FAILED, 1, BROKEN), 30)
    other = ErrorInfo(code="SS5009", message="later", reason=FailureReason.OPERATOR_FAILED)
    master.handle(update(SINK, ExecutionState.FAILED, 1, other), 40)
    assert master.error == BROKEN


def test_a_job_that_ends_early_takes_its_request_for_slots_back(make_job: MakeJob) -> None:
    master = started(make_job())
    assert WithdrawRequest("j1") in master.handle(CancelRequested("j1"), 20)


def test_a_job_without_sinks_is_finished_when_its_last_task_is(make_job: MakeJob) -> None:
    job = make_job()
    master = deployed(msgspec.structs.replace(job, vertices=job.vertices[:1], edges=()))
    out = master.handle(update(SOURCE, ExecutionState.FINISHED), 30)
    assert out[-1] == JobFinished("j1", JobStatus.FINISHED, None)


def test_a_commit_that_failed_cannot_succeed_later(make_job: MakeJob) -> None:
    master = deployed(make_job())
    for execution_id in (SOURCE, SINK):
        master.handle(update(execution_id, ExecutionState.FINISHED), 30)
    master.handle(SinksCommitFailed("j1", LAST_CHECKPOINT_ID, BROKEN), 40)
    assert master.handle(SinksCommitted("j1", LAST_CHECKPOINT_ID), 45) == []
    assert master.handle(SinksCommitFailed("j1", LAST_CHECKPOINT_ID, CUT), 46) == []
    master.handle(SinksAborted("j1"), 50)
    assert (master.status, master.error) == (JobStatus.FAILED, BROKEN)


def test_figures_are_asked_a_second_after_the_clock_began(make_job: MakeJob) -> None:
    master = deployed(make_job("j1"))
    for execution_id in (SOURCE, SINK):
        master.handle(update(execution_id, ExecutionState.RUNNING), 50)
    assert master.handle(MetricsRequested("j1"), 1000) == [Send("tm0:1", RequestMetrics("tm0#0"))]
