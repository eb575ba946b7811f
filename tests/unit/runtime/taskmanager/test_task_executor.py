"""The control half of a TaskManager, message by message."""

from __future__ import annotations

import msgspec
import pytest

from sqlstream.errors import ErrorInfo, FailureReason, InternalError
from sqlstream.graph.job_graph import JobVertex
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    AcceptSlots,
    AcknowledgeCheckpoint,
    CancelTask,
    CheckpointAborted,
    CheckpointCompleted,
    ControlMessage,
    DeclineCheckpoint,
    DeployTask,
    DisconnectTaskManager,
    FreeSlot,
    Heartbeat,
    HeartbeatReply,
    MetricsReport,
    OfferSlots,
    RegisterTaskManager,
    RegistrationAccepted,
    RegistrationRefused,
    RequestMetrics,
    RequestSlot,
    SinkCommittables,
    SlotFreed,
    SlotOffer,
    SlotRefused,
    SlotStatus,
    TaskDeploymentDescriptor,
    TaskMetrics,
    TaskStateAck,
    TaskStateUpdate,
    TriggerCheckpoint,
    UnknownTaskManager,
)
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointRefused, CheckpointTaken
from sqlstream.runtime.taskmanager.events import (
    AbandonTask,
    CollectMetrics,
    Disconnected,
    ForgetJob,
    MessageReceived,
    MetricsCollected,
    SendToJobManager,
    StartTask,
    Stopped,
    StopTask,
    TaskExecutorInstruction,
    TaskStateChanged,
    TellOfCheckpoint,
    Terminate,
    Tick,
)
from sqlstream.runtime.taskmanager.metrics import (
    METRICS_INTERVAL_MS,
    METRICS_WATCHED_MS,
    UNWATCHED_METRICS_INTERVAL_MS,
)
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig
from sqlstream.runtime.taskmanager.task_executor import TICK_MS, TaskExecutor

TM = "a#0"
RUNNING, FINISHED, CANCELED = ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.CANCELED


def descriptor(execution_id: str = "e1", allocation_id: str = "j/1") -> TaskDeploymentDescriptor:
    vertex = JobVertex("0" * 32, "calc", (), 1, 128)
    return TaskDeploymentDescriptor("j", "job", vertex, 0, 0, execution_id, allocation_id, (), (), "jm:1")


def connected(now_ms: int = 0) -> TaskExecutor:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 1, resend_ms=500, cancellation_timeout_ms=2000))
    executor.handle(Tick(), now_ms)
    tell(executor, RegistrationAccepted(TM, 1000, 3000), now_ms)
    return executor


def with_task(execution_id: str = "e1") -> TaskExecutor:
    executor = connected()
    tell(executor, RequestSlot(TM, 0, "j/1", "j"), 1)
    tell(executor, AcceptSlots(TM, "j", ("j/1",)), 2)
    assert StartTask(descriptor(execution_id)) in tell(executor, DeployTask(TM, descriptor(execution_id)), 3)
    return executor


def tell(executor: TaskExecutor, message: ControlMessage, now_ms: int) -> list[TaskExecutorInstruction]:
    return executor.handle(MessageReceived(message), now_ms)


def says(*messages: object) -> list[object]:
    return [SendToJobManager(m) for m in messages]  # type: ignore[arg-type]


def test_registration_is_repeated_until_it_is_accepted() -> None:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 2, resend_ms=500))
    register = says(RegisterTaskManager(TM, "a", 0, "a:1", 2))
    assert executor.handle(Tick(), 0) == register
    assert executor.handle(Tick(), 499) == []
    assert executor.handle(Tick(), 500) == register
    tell(executor, RegistrationAccepted(TM, 1000, 3000), 510)
    assert executor.handle(Tick(), 1500) == []


def test_a_refused_task_manager_ends_itself() -> None:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 2))
    error = ErrorInfo(code="SS6007", message="another version")
    assert tell(executor, RegistrationRefused(TM, error), 0) == [Terminate(error)]
    assert executor.handle(Tick(), 1000) == []


def test_a_task_manager_that_finds_no_job_manager_in_time_ends_itself() -> None:
    config = TaskExecutorConfig("a", "a:1", 1, registration_timeout_ms=5000)
    executor = TaskExecutor(config)
    executor.handle(Tick(), 0)
    assert [type(i) for i in executor.handle(Tick(), 5000)] == [SendToJobManager]
    (ended,) = executor.handle(Tick(), 5001)
    assert isinstance(ended, Terminate)
    assert ended.error.message == "no JobManager has answered this TaskManager's registration for 5 s"


def test_one_that_has_lost_its_job_manager_has_as_much_time_again() -> None:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 1, registration_timeout_ms=5000))
    executor.handle(Tick(), 0)
    tell(executor, RegistrationAccepted(TM, 1000, 3000), 4000)
    executor.handle(Tick(), 7000)
    assert executor.registration.is_connected
    executor.handle(Tick(), 7001)
    assert not executor.registration.is_connected
    assert not any(isinstance(i, Terminate) for i in executor.handle(Tick(), 12_001))
    assert any(isinstance(i, Terminate) for i in executor.handle(Tick(), 12_002))


def test_heartbeats_are_answered_with_the_slots() -> None:
    assert tell(connected(), Heartbeat(TM, 7), 5) == says(HeartbeatReply(TM, 7, (SlotStatus(0),)))


def test_a_slot_is_offered_until_the_job_master_answers() -> None:
    executor = connected()
    offer = says(OfferSlots(TM, "j", (SlotOffer(0, "j/1"),)))
    assert tell(executor, RequestSlot(TM, 0, "j/1", "j"), 1) == offer
    assert executor.handle(Tick(), 501) == offer
    tell(executor, AcceptSlots(TM, "j", ("j/1",)), 510)
    assert executor.handle(Tick(), 1500) == []
    assert tell(executor, RequestSlot(TM, 0, "k/1", "k"), 1501) == says(SlotRefused(TM, 0, "k/1"))


def test_a_task_is_started_once_however_often_it_is_deployed() -> None:
    executor = with_task()
    update = says(TaskStateUpdate(TM, "j", "e1", 0, ExecutionState.INITIALIZING))
    assert tell(executor, DeployTask(TM, descriptor()), 4) == update
    executor.handle(TaskStateChanged("e1", FINISHED), 5)
    tell(executor, TaskStateAck(TM, "e1", 1), 6)
    assert tell(executor, DeployTask(TM, descriptor()), 7) == []


def test_a_deployment_is_taken_although_the_acceptance_of_its_slot_was_lost() -> None:
    executor = connected()
    tell(executor, RequestSlot(TM, 0, "j/1", "j"), 1)
    assert StartTask(descriptor()) in tell(executor, DeployTask(TM, descriptor()), 3)


def test_a_deployment_into_a_slot_that_is_not_there_fails() -> None:
    out = tell(connected(), DeployTask(TM, descriptor()), 3)
    assert len(out) == 1
    assert isinstance(out[0], SendToJobManager)
    update = out[0].message
    assert isinstance(update, TaskStateUpdate)
    assert update.error is not None
    assert (update.state, update.error.reason) == (ExecutionState.FAILED, FailureReason.DEPLOYMENT_FAILED)


def test_a_state_is_reported_until_it_is_acknowledged() -> None:
    executor = with_task()
    files = (SinkCommittables(1, ({"file": "a"},)),)
    update = says(TaskStateUpdate(TM, "j", "e1", 1, FINISHED, None, files))
    assert executor.handle(TaskStateChanged("e1", FINISHED, None, files), 10) == update
    assert executor.handle(Tick(), 510) == update
    tell(executor, TaskStateAck(TM, "e1", 0), 520)
    assert executor.handle(Tick(), 1010) == update
    tell(executor, TaskStateAck(TM, "e1", 1), 1020)
    assert executor.handle(Tick(), 2000) == []


def test_a_cancellation_that_overtakes_its_deployment_keeps_the_task_from_starting() -> None:
    executor = connected()
    tell(executor, RequestSlot(TM, 0, "j/1", "j"), 1)
    update = says(TaskStateUpdate(TM, "j", "e1", 0, CANCELED))
    assert tell(executor, CancelTask(TM, "j", "e1"), 2) == update
    assert tell(executor, DeployTask(TM, descriptor()), 3) == update


def test_a_task_is_cancelled_as_often_as_that_is_asked_for_until_its_end_which_is_reported() -> None:
    executor = with_task()
    for now_ms in (5, 505):
        assert tell(executor, CancelTask(TM, "j", "e1"), now_ms) == [StopTask("e1")]
    assert executor.story.lines()[-1].endswith("e1 is being cancelled")
    assert executor.handle(TaskStateChanged("e1", CANCELED), 7) == says(
        TaskStateUpdate(TM, "j", "e1", 1, CANCELED)
    )


def test_a_slot_is_reported_free_after_its_tasks_have_ended() -> None:
    executor = with_task()
    assert tell(executor, FreeSlot(TM, "j/1"), 5) == [StopTask("e1")]
    out = executor.handle(TaskStateChanged("e1", CANCELED), 7)
    assert out[0] == SendToJobManager(SlotFreed(TM, "j/1"))
    assert out[-1] == ForgetJob("j")
    assert tell(executor, FreeSlot(TM, "j/1"), 8) == says(SlotFreed(TM, "j/1"))
    assert tell(executor, RequestSlot(TM, 0, "j/1", "j"), 9) == says(SlotRefused(TM, 0, "j/1"))


@pytest.mark.parametrize("how", ["silence", "unknown", "disconnected"])
def test_without_its_job_manager_it_ends_its_tasks_and_registers_anew(how: str) -> None:
    executor = with_task()
    if how == "silence":
        out = executor.handle(Tick(), 3004)
    elif how == "unknown":
        out = tell(executor, UnknownTaskManager(TM), 3004)
    else:
        out = executor.handle(Disconnected(), 3004)
    assert out == [StopTask("e1")]
    assert tell(executor, Heartbeat(TM, 9), 3005) == []
    out = executor.handle(TaskStateChanged("e1", CANCELED), 3100)
    assert out == [*says(RegisterTaskManager("a#1", "a", 1, "a:1", 1)), ForgetJob("j")]
    assert executor.slots.report() == (SlotStatus(0),)


def test_one_that_is_stopped_says_so_once_and_nothing_behind_it() -> None:
    executor = with_task()
    assert executor.handle(Stopped(), 10) == says(DisconnectTaskManager(TM))
    assert executor.handle(TaskStateChanged("e1", CANCELED), 11) == []
    assert executor.handle(Stopped(), 12) == []


def test_a_job_is_forgotten_with_its_last_slot_and_not_with_its_tasks() -> None:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 2))
    executor.handle(Tick(), 0)
    tell(executor, RegistrationAccepted(TM, 1000, 3000), 0)
    for slot in (0, 1):
        tell(executor, RequestSlot(TM, slot, f"j/{slot}", "j"), 1)
    tell(executor, DeployTask(TM, descriptor("e1", "j/0")), 2)
    assert ForgetJob("j") not in executor.handle(TaskStateChanged("e1", FINISHED), 3)
    assert ForgetJob("j") not in tell(executor, FreeSlot(TM, "j/0"), 4)
    assert ForgetJob("j") in tell(executor, FreeSlot(TM, "j/1"), 5)


def test_a_registration_that_was_given_up_before_it_was_accepted_is_replaced() -> None:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 1))
    executor.handle(Tick(), 0)
    assert tell(executor, UnknownTaskManager(TM), 10) == says(RegisterTaskManager("a#1", "a", 1, "a:1", 1))


def test_messages_for_an_earlier_registration_are_dropped() -> None:
    executor = connected()
    executor.handle(Disconnected(), 5)
    tell(executor, RegistrationAccepted("a#1", 1000, 3000), 10)
    assert tell(executor, RequestSlot(TM, 0, "j/1", "j"), 11) == []
    assert tell(executor, RegistrationAccepted(TM, 1000, 3000), 12) == []


def test_a_task_that_does_not_react_ends_the_process() -> None:
    executor = with_task()
    tell(executor, CancelTask(TM, "j", "e1"), 100)
    tell(executor, Heartbeat(TM, 1), 2000)
    assert not any(isinstance(i, Terminate) for i in executor.handle(Tick(), 2100))
    out = executor.handle(Tick(), 2101)
    assert isinstance(out[0], Terminate)
    assert out[0].error.code == "SS6005"


def shared() -> TaskExecutor:
    """A TaskManager with a task of job "j" in slot 0 and one of job "k" in slot 1."""
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 2, resend_ms=500, cancellation_timeout_ms=2000))
    executor.handle(Tick(), 0)
    tell(executor, RegistrationAccepted(TM, 1000, 300_000), 0)
    for place, job in enumerate("jk"):
        tell(executor, RequestSlot(TM, place, f"{job}/1", job), 1)
        task = msgspec.structs.replace(descriptor(f"e{job}", f"{job}/1"), job_id=job)
        tell(executor, DeployTask(TM, task), 3)
        executor.handle(TaskStateChanged(f"e{job}", RUNNING), 4)
    return executor


def test_a_task_that_does_not_react_is_abandoned_while_others_use_its_process() -> None:
    executor = shared()
    tell(executor, CancelTask(TM, "j", "ej"), 100)
    out = executor.handle(Tick(), 2101)
    assert [type(i) for i in out[:2]] == [AbandonTask, SendToJobManager]
    ended = out[1].message  # type: ignore[union-attr]
    assert isinstance(ended, TaskStateUpdate)
    assert (ended.execution_id, ended.state) == ("ej", CANCELED)
    tell(executor, TaskStateAck(TM, "ej", ended.sequence), 2110)
    # Its slot is taken until its thread ends, however often it is asked for, and it is reported once.
    for now_ms in (2200, 2800):
        assert tell(executor, FreeSlot(TM, "j/1"), now_ms) == []
        told = [i.message for i in executor.handle(Tick(), now_ms) if isinstance(i, SendToJobManager)]
        assert [m for m in told if not isinstance(m, TaskStateUpdate) or m.job_id == "j"] == []
    assert SlotStatus(0, "j/1", "j") in executor.slots.report()
    assert executor.handle(TaskStateChanged("ej", CANCELED), 9000) == [
        *says(SlotFreed(TM, "j/1")),
        ForgetJob("j"),
    ]
    assert not any(isinstance(i, AbandonTask | Terminate) for i in executor.handle(Tick(), 9100))


def test_an_abandoned_task_ends_the_process_when_nobody_else_uses_it() -> None:
    executor = shared()
    tell(executor, CancelTask(TM, "j", "ej"), 100)
    executor.handle(Tick(), 2101)
    executor.handle(TaskStateChanged("ek", FINISHED), 3000)
    assert not any(isinstance(i, Terminate) for i in executor.handle(Tick(), 3001))
    tell(executor, FreeSlot(TM, "k/1"), 3100)
    assert any(isinstance(i, Terminate) for i in executor.handle(Tick(), 3200))


def test_a_process_that_has_lost_its_job_manager_does_not_register_with_an_abandoned_task() -> None:
    executor = shared()
    tell(executor, CancelTask(TM, "j", "ej"), 100)
    executor.handle(Tick(), 2101)
    tell(executor, UnknownTaskManager(TM), 2200)
    out = executor.handle(TaskStateChanged("ek", CANCELED), 2300)
    assert any(isinstance(i, Terminate) for i in out)


def test_a_job_sets_how_long_its_tasks_may_take_to_end() -> None:
    executor = connected()
    patient = msgspec.structs.replace(descriptor(), config={"task.cancellation.timeout": "9 s"})
    tell(executor, RequestSlot(TM, 0, "j/1", "j"), 1)
    tell(executor, DeployTask(TM, patient), 3)
    tell(executor, CancelTask(TM, "j", "e1"), 100)
    tell(executor, Heartbeat(TM, 1), 9_000)
    assert not any(isinstance(i, Terminate) for i in executor.handle(Tick(), 9_100))
    assert any(isinstance(i, Terminate) for i in executor.handle(Tick(), 9_101))


def test_figures_go_out_for_running_tasks_only() -> None:
    executor = with_task()
    mine, other = TaskMetrics("e1", {"numRecordsIn": 1}), TaskMetrics("e9")
    out = executor.handle(MetricsCollected((mine, other)), 10)
    assert out == says(MetricsReport(TM, 1, {"j": (mine,)}))
    executor.handle(TaskStateChanged("e1", FINISHED), 20)
    assert executor.handle(MetricsCollected((mine,)), 30) == []


def test_a_runner_that_reports_a_task_twice_is_a_bug_with_a_story() -> None:
    executor = with_task()
    executor.handle(TaskStateChanged("e1", FINISHED), 20)
    with pytest.raises(InternalError, match="does not run") as caught:
        executor.handle(TaskStateChanged("e1", RUNNING), 30)
    assert "3 e1 INITIALIZING" in caught.value.story
    assert caught.value.story[-1] == "20 e1 FINISHED"


def _running() -> TaskExecutor:
    executor = with_task()
    executor.handle(TaskStateChanged("e1", RUNNING), 4)
    tell(executor, TaskStateAck(TM, "e1", 1), 5)
    return executor


def _collections(executor: TaskExecutor, start_ms: int, end_ms: int) -> int:
    """How often figures are asked for while ticks come as they are wanted."""
    now_ms, count = start_ms, 0
    while now_ms < end_ms:
        tell(executor, Heartbeat(TM, 1), now_ms)
        count += CollectMetrics() in executor.handle(Tick(), now_ms)
        now_ms += executor.tick_after_ms()
    return count


def test_ticks_are_rare_while_all_is_acknowledged_and_frequent_otherwise() -> None:
    executor = TaskExecutor(TaskExecutorConfig("a", "a:1", 1))
    assert executor.tick_after_ms() == TICK_MS
    executor.handle(Tick(), 0)
    tell(executor, RegistrationAccepted(TM, 10_000, 50_000), 0)
    assert executor.tick_after_ms() == 1000
    tell(executor, RequestSlot(TM, 0, "j/1", "j"), 1)
    assert executor.tick_after_ms() == TICK_MS, "the offer may be lost"
    tell(executor, AcceptSlots(TM, "j", ("j/1",)), 2)
    assert executor.tick_after_ms() == 1000
    tell(executor, DeployTask(TM, descriptor()), 3)
    assert executor.tick_after_ms() == TICK_MS, "the task's state may be lost"
    tell(executor, TaskStateAck(TM, "e1", 0), 4)
    assert executor.tick_after_ms() == METRICS_INTERVAL_MS
    tell(executor, CancelTask(TM, "j", "e1"), 5)
    assert executor.tick_after_ms() == TICK_MS, "the cancellation has a deadline"


def test_silence_is_noticed_within_a_tenth_of_what_is_allowed() -> None:
    executor = connected()
    assert executor.tick_after_ms() == 300


def test_figures_are_collected_often_only_while_somebody_looks() -> None:
    executor = _running()
    watched = _collections(executor, 5, 3 + METRICS_WATCHED_MS)
    assert (
        METRICS_WATCHED_MS // METRICS_INTERVAL_MS - 2
        <= watched
        <= METRICS_WATCHED_MS // METRICS_INTERVAL_MS + 1
    )
    start_ms = 10_000
    assert _collections(executor, start_ms, start_ms + 6 * UNWATCHED_METRICS_INTERVAL_MS) in (5, 6)
    tell(executor, RequestMetrics(TM), 100_000)
    assert _collections(executor, 100_000, 100_000 + METRICS_WATCHED_MS) >= watched - 1


def test_a_task_manager_without_tasks_collects_no_figures() -> None:
    assert _collections(connected(), 0, 60_000) == 0


def trigger(checkpoint_id: int, execution_id: str = "e1") -> TriggerCheckpoint:
    return TriggerCheckpoint(TM, execution_id, checkpoint_id, 1_000)


def taken(checkpoint_id: int) -> CheckpointTaken:
    return CheckpointTaken("e1", checkpoint_id, SubtaskState(assignment=checkpoint_id))


def acknowledged(checkpoint_id: int) -> SendToJobManager:
    state = SubtaskState(assignment=checkpoint_id)
    return SendToJobManager(AcknowledgeCheckpoint(TM, "j", "e1", checkpoint_id, state))


def test_a_task_is_told_of_each_checkpoint_once_and_of_none_that_is_older() -> None:
    executor = with_task()
    assert tell(executor, trigger(2), 10) == [TellOfCheckpoint(trigger(2))]
    assert tell(executor, trigger(2), 20) == []
    # It cannot take the earlier one any more, whose trigger was late; that is nobody's fault.
    (declined,) = tell(executor, trigger(1), 30)
    assert isinstance(declined, SendToJobManager)
    assert isinstance(declined.message, DeclineCheckpoint)
    assert (declined.message.checkpoint_id, declined.message.error.reason) == (1, FailureReason.CANCELLED)
    assert tell(executor, trigger(3), 40) == [TellOfCheckpoint(trigger(3))]
    assert tell(executor, trigger(1, "other"), 50) == []


@pytest.mark.parametrize("fate", [CheckpointCompleted, CheckpointAborted])
def test_an_acknowledgement_is_repeated_until_the_fate_of_its_checkpoint_or_of_a_later_one_is_known(
    fate: type,
) -> None:
    for settled_by in (2, 3):
        executor = with_task()
        tell(executor, trigger(2), 10)
        assert executor.handle(taken(2), 100) == [acknowledged(2)]
        assert acknowledged(2) not in executor.handle(Tick(), 500)
        assert acknowledged(2) in executor.handle(Tick(), 600)
        assert acknowledged(2) not in executor.handle(Tick(), 1_500), "the pauses grow"
        assert acknowledged(2) in executor.handle(Tick(), 1_600)
        # It is asked for again, so it was lost.
        assert tell(executor, trigger(2), 1_700) == [acknowledged(2)]
        assert tell(executor, fate(TM, "e1", 1), 1_800) == [TellOfCheckpoint(fate(TM, "e1", 1))]
        assert acknowledged(2) in executor.handle(Tick(), 3_600)
        message = fate(TM, "e1", settled_by)
        assert tell(executor, message, 3_700) == tell(executor, message, 3_700) == [TellOfCheckpoint(message)]
        assert acknowledged(2) not in executor.handle(Tick(), 6_000)


def test_reports_of_several_checkpoints_are_repeated_until_each_is_decided() -> None:
    executor = with_task()
    for n in (2, 3, 4):
        tell(executor, trigger(n), 10)
        executor.handle(taken(n), 100)
    tell(executor, CheckpointAborted(TM, "e1", 3, (2,)), 200)
    sent = executor.handle(Tick(), 600)
    assert [acknowledged(n) in sent for n in (2, 3, 4)] == [True, False, True]
    tell(executor, CheckpointCompleted(TM, "e1", 2), 700)
    sent = executor.handle(Tick(), 1_600)
    assert [acknowledged(n) in sent for n in (2, 3, 4)] == [False, False, True]


def test_a_refusal_is_repeated_until_it_is_replaced() -> None:
    executor = with_task()
    error = ErrorInfo(code="SS5001", message="full")
    declined = SendToJobManager(DeclineCheckpoint(TM, "j", "e1", 2, error))
    assert executor.handle(CheckpointRefused("e1", 2, error), 100) == [declined]
    assert declined in executor.handle(Tick(), 700)
    executor.handle(taken(3), 800)
    assert executor.handle(taken(2), 900) == [acknowledged(2)]
    sent = executor.handle(Tick(), 1_400)
    assert acknowledged(3) in sent
    assert acknowledged(2) in sent
    assert declined not in sent


def test_reports_of_checkpoints_end_with_their_task() -> None:
    executor = with_task()
    executor.handle(taken(2), 100)
    executor.handle(TaskStateChanged("e1", FINISHED), 200)
    assert acknowledged(2) not in executor.handle(Tick(), 1_000)
    assert tell(executor, trigger(3), 1_000) == tell(executor, CheckpointCompleted(TM, "e1", 2), 1_000) == []
    assert executor.handle(taken(3), 1_100) == []
    assert (
        executor.handle(CheckpointRefused("other", 3, ErrorInfo(code="SS5001", message="full")), 1_200) == []
    )


def test_a_task_that_is_being_cancelled_takes_no_checkpoint() -> None:
    executor = with_task()
    tell(executor, CancelTask(TM, "j", "e1"), 10)
    assert tell(executor, trigger(1), 20) == []
    assert executor.handle(taken(1), 30) == []
