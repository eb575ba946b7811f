"""Which machine receives which event, and when the next tick is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    AcceptSlots,
    CancelTask,
    DeployTask,
    FreeSlot,
    MetricsReport,
    OfferSlots,
    RegisterTaskManager,
    RequestSlot,
    SlotFreed,
    SlotOffer,
    TaskMetrics,
    TaskStateAck,
    TaskStateUpdate,
    UnknownTaskManager,
)
from sqlstream.runtime.jobmanager.events import (
    CancelRequested,
    JobBroken,
    JobStored,
    MessageReceived,
    Noted,
    RemoveCheckpoints,
    RemoveJob,
    Send,
    StoreJob,
    SubmitRequested,
    Tick,
)
from sqlstream.runtime.jobmanager.job_manager import SETTLED_TICK_MS, TICK_MS, JobManager, JobManagerConfig
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManagerConfig

MakeJob = Callable[..., JobGraph]
TM = "a#0"
SOURCE, SINK = "j1-0-0-0", "j1-1-0-0"


def receive(manager: JobManager, message: Any, now_ms: int = 0) -> list[Any]:
    return manager.handle(MessageReceived(message), now_ms)


def with_task_manager(heartbeat_interval_ms: int = 10_000, heartbeat_timeout_ms: int = 50_000) -> JobManager:
    config = ResourceManagerConfig(heartbeat_interval_ms, heartbeat_timeout_ms)
    manager = JobManager(JobManagerConfig(config))
    receive(manager, RegisterTaskManager(TM, "a", 0, "a:1", 1))
    return manager


def running(manager: JobManager, job: JobGraph) -> JobManager:
    manager.handle(SubmitRequested(job), 0)
    manager.handle(JobStored("j1"), 0)
    receive(manager, OfferSlots(TM, "j1", (SlotOffer(0, "rm-1"),)))
    for execution_id in (SOURCE, SINK):
        receive(manager, TaskStateUpdate(TM, "j1", execution_id, 1, ExecutionState.RUNNING))
    return manager


def messages(instructions: list[Any]) -> list[Any]:
    return [i.message for i in instructions if isinstance(i, Send)]


@pytest.mark.parametrize(
    ("interval_ms", "timeout_ms", "tick_ms"),
    [
        (10_000, 50_000, SETTLED_TICK_MS),
        (5_000, 50_000, 500),
        (10_000, 4_000, 400),
        (300, 50_000, TICK_MS),
    ],
)
def test_a_settled_cluster_ticks_at_a_tenth_of_its_heartbeats_within_bounds(
    make_job: MakeJob, interval_ms: int, timeout_ms: int, tick_ms: int
) -> None:
    manager = with_task_manager(interval_ms, timeout_ms)
    assert manager.tick_after_ms() == tick_ms
    assert running(manager, make_job("j1")).tick_after_ms() == tick_ms


def test_a_checkpoint_that_is_overdue_and_cannot_begin_is_looked_at_with_the_ticks(make_job: MakeJob) -> None:
    job = make_job(
        "j1", config={"execution.checkpointing.interval": "200 ms", "execution.checkpointing.dir": "/chk"}
    )
    manager = running(with_task_manager(), job)
    assert manager.tick_after_ms() == 200
    # All sources have finished: there is no checkpoint any more.
    receive(manager, TaskStateUpdate(TM, "j1", SOURCE, 2, ExecutionState.FINISHED), 199)
    assert manager.tick_after_ms() == 1
    for now_ms in (200, 5000):
        manager.handle(Tick(), now_ms)
        assert manager.tick_after_ms() == TICK_MS


def test_ticks_are_close_while_a_slot_is_owed_or_a_task_does_not_run_yet(make_job: MakeJob) -> None:
    manager = with_task_manager()
    manager.handle(SubmitRequested(make_job("j1")), 0)
    assert manager.tick_after_ms() == TICK_MS, "the job is being stored"
    manager.handle(JobStored("j1"), 0)
    assert manager.tick_after_ms() == TICK_MS, "the slot is not offered yet"
    receive(manager, OfferSlots(TM, "j1", (SlotOffer(0, "rm-1"),)))
    assert manager.resource_manager.is_settled()
    assert manager.tick_after_ms() == TICK_MS, "the deployment may be lost"
    assert running(with_task_manager(), make_job("j1")).tick_after_ms() == SETTLED_TICK_MS


def test_a_slot_is_owed_by_a_task_manager_although_all_jobs_are_settled(make_job: MakeJob) -> None:
    manager = running(with_task_manager(), make_job("j1"))
    manager.resource_manager.on_release_slots("j1", 1)
    assert manager.tick_after_ms() == TICK_MS


def test_an_offer_is_accepted_for_a_live_job_and_freed_for_an_ended_one(make_job: MakeJob) -> None:
    manager = with_task_manager()
    manager.handle(SubmitRequested(make_job("j1")), 0)
    manager.handle(JobStored("j1"), 0)
    out = messages(receive(manager, OfferSlots(TM, "j1", (SlotOffer(0, "rm-1"), SlotOffer(1, "old-1")))))
    assert FreeSlot(TM, "old-1") in out
    assert AcceptSlots(TM, "j1", ("rm-1",)) in out
    assert [m.descriptor.execution_id for m in out if isinstance(m, DeployTask)] == [SOURCE, SINK]
    assert messages(receive(manager, OfferSlots(TM, "j9", (SlotOffer(0, "rm-1"),)))) == [FreeSlot(TM, "rm-1")]


def test_a_report_about_an_ended_job_is_acknowledged(make_job: MakeJob) -> None:
    manager = with_task_manager()
    out = receive(manager, TaskStateUpdate(TM, "j9", "e", 7, ExecutionState.CANCELED))
    assert out == [Send("a:1", TaskStateAck(TM, "e", 7))]


def test_a_message_of_a_task_manager_that_never_registered_is_not_answered_and_a_lost_one_is() -> None:
    manager = with_task_manager(1_000, 3_000)
    assert receive(manager, OfferSlots("b#0", "j1", ())) == []
    manager.handle(Tick(), 3_001)
    assert receive(manager, OfferSlots(TM, "j1", ())) == [Send("a:1", UnknownTaskManager(TM))]


def test_figures_count_once_and_those_that_come_late_are_dropped(make_job: MakeJob) -> None:
    manager = running(with_task_manager(1_000, 3_000), make_job("j1"))

    def figure() -> float:
        first = manager.dispatcher.details("j1").vertices[0].subtasks[0].metrics
        return first.task.get("numRecordsOut", 0) if first is not None else -1

    def report(sequence: int, rows: int) -> None:
        jobs = {"j1": (TaskMetrics(SOURCE, {"numRecordsOut": rows}),), "j9": ()}
        receive(manager, MetricsReport(TM, sequence, jobs))

    seen = []
    for sequence, rows in ((0, 1), (1, 2), (1, 3), (3, 4), (2, 5), (4, 6)):
        report(sequence, rows)
        seen.append(figure())
    assert seen == [-1, 2, 2, 4, 4, 6]
    manager.handle(Tick(), 3_001)
    assert manager._metrics_sequence == {}, "a registration that is lost sends no more"


def test_the_loss_of_a_task_manager_reaches_the_jobs_that_ran_there(make_job: MakeJob) -> None:
    manager = running(with_task_manager(1_000, 3_000), make_job("j1"))
    assert [m for m in messages(manager.handle(Tick(), 2_999)) if isinstance(m, CancelTask)] == []
    out = manager.handle(Tick(), 3_001)
    assert Noted("error[SS6001]: TaskManager a#0 at a:1 sent nothing for 3 s") in out
    error = manager.dispatcher.details("j1").error
    assert error is not None
    assert (error.code, error.message) == ("SS6001", "TaskManager a#0 at a:1 sent nothing for 3 s")


def test_a_request_that_is_withdrawn_lets_the_next_job_in_line_run(make_job: MakeJob) -> None:
    manager = with_task_manager()
    for job in (make_job("wide", 1, 1), make_job("j1", 1, 1)):
        manager.handle(SubmitRequested(job), 0)
        manager.handle(JobStored(job.job_id), 0)
    out = manager.handle(CancelRequested("wide"), 1)
    assert sorted(type(i).__name__ for i in out) == ["JobFinished", "RemoveJob", "Send"]
    assert messages(out) == [FreeSlot(TM, "rm-1")]
    assert messages(receive(manager, SlotFreed(TM, "rm-1"))) == [RequestSlot(TM, 0, "rm-2", "j1")]


def test_checkpoints_of_an_ended_job_are_removed_behind_the_job(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig(job_master=JobMasterConfig(checkpoint_directory="/c")))
    config = {"execution.checkpointing.interval": "1 s"}
    manager.handle(SubmitRequested(make_job("j1", config=config)), 0)
    manager.handle(JobStored("j1"), 0)
    out = manager.handle(CancelRequested("j1"), 1)
    (removal,) = (i for i in out if isinstance(i, RemoveJob))
    assert removal.removals == (RemoveCheckpoints("j1", "/c/j1", config),)
    assert not any(isinstance(i, RemoveCheckpoints) for i in out)


def test_the_job_of_each_instruction_of_a_job_master_is_known(make_job: MakeJob) -> None:
    manager = with_task_manager()
    instructions = manager.handle(SubmitRequested(make_job("j1")), 0) + manager.handle(JobStored("j1"), 0)
    assert {manager.owner_of(i) for i in instructions if not isinstance(i, StoreJob)} <= {"j1", ""}
    deployed = receive(manager, OfferSlots(TM, "j1", (SlotOffer(0, "rm-1"),)))
    assert [manager.owner_of(i) for i in deployed if isinstance(i, Send)] == ["j1"] * len(messages(deployed))


def test_without_anybody_to_tell_a_broken_job_master_raises(make_job: MakeJob) -> None:
    manager = running(with_task_manager(), make_job("j1"))
    with pytest.raises(ZeroDivisionError):
        manager.handle(JobBroken("j1", ZeroDivisionError()), 0)
