"""A job that runs goes on at another parallelism, or stays at the one that it had."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from checkpointed_master import BROKEN, DISK_FULL, TORN, Master, rows, state_of, with_config
from kept_checkpoints import KeptCheckpoint
from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, FailureReason, UserError
from sqlstream.graph.job_graph import NETWORK_INPUT, JobGraph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint import InFlightItems
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rescale import RescaleStep
from sqlstream.messages.rpc import DeployTask, SlotOffer, TaskMetrics, TriggerCheckpoint
from sqlstream.runtime.jobmanager.dispatcher import check_can_be_rescaled
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CancelRequested,
    CommitSinks,
    DiscardCheckpoint,
    JobStored,
    JobStoreFailed,
    KeepSlots,
    MetricsReceived,
    NoTaskManagerLeft,
    RequestSlots,
    RescaleEnded,
    RescaleRequested,
    SavepointRequested,
    Send,
    SinksCommitted,
    SlotsOffered,
    StoreCheckpoint,
    StoreJob,
    TaskManagerLost,
    WithdrawRequest,
)
from sqlstream.runtime.jobmanager.job_details import measure_job
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

MakeJob = Callable[..., JobGraph]

LOST = ErrorInfo(code="SS6001", message="silent", reason=FailureReason.TASK_MANAGER_LOST)
SLOTS, CHECKPOINT, STOPPING, STORING, STARTING, DONE = RescaleStep


def at(make_job: MakeJob, parallelism: int, **changes: str) -> JobGraph:
    return with_config(make_job("j1", parallelism, parallelism), **changes)


def rescale(job: Master, graph: JobGraph, trigger_id: str = "r") -> None:
    job.handle(RescaleRequested("j1", trigger_id, graph))


def offer(job: Master, *allocations: str, task_manager: str = "tm0") -> None:
    offers = tuple(SlotOffer(n, name) for n, name in enumerate(allocations))
    job.handle(SlotsOffered(f"{task_manager}#0", f"{task_manager}:1", offers))


def step(job: Master, trigger_id: str = "r") -> tuple[RescaleStep, str]:
    found = next(s for s in job.master.rescaling.known() if s.trigger_id == trigger_id)
    return found.step, found.error.code if found.error else ""


def end_tasks(job: Master) -> None:
    for execution in list(job.master.graph.executions()):
        if execution.state is ExecutionState.CANCELING:
            job.report(execution.execution_id, ExecutionState.CANCELED)


def take_checkpoint(job: Master, checkpoint_id: int) -> None:
    job.tick()
    job.acknowledge_all(checkpoint_id)
    job.stored(checkpoint_id)


def rescaled(job: Master, graph: JobGraph, checkpoint_id: int, *slots: str) -> None:
    """All goes well, up to the tasks that run."""
    rescale(job, graph)
    offer(job, *slots)
    take_checkpoint(job, checkpoint_id)
    job.committed(checkpoint_id)
    end_tasks(job)
    job.handle(JobStored("j1"))
    job.run_all()


def test_the_job_runs_on_until_it_has_its_slots_and_then_goes_on_from_a_checkpoint(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1))
    job.complete(1)
    job.out = []
    rescale(job, at(make_job, 2))
    assert [(r.job_id, r.slots) for r in job.taken(RequestSlots)] == [("j1", 2)]
    job.tick(10)
    assert (step(job), job.taken(TriggerCheckpoint)) == ((SLOTS, ""), [])
    offer(job, "b0")
    assert step(job)[0] is CHECKPOINT
    job.tick()
    (trigger,) = job.taken(TriggerCheckpoint)
    assert (trigger.checkpoint_id, trigger.is_last) == (2, True)
    job.acknowledge_all(2)
    job.stored(2)
    assert (step(job)[0], job.master.status) == (STOPPING, JobStatus.RESTARTING)
    end_tasks(job)
    # What the checkpoint commits is not visible yet.
    assert (step(job)[0], job.taken(StoreJob)) == (STOPPING, [])
    job.committed(2)
    (store,) = job.taken(StoreJob)
    assert (step(job)[0], store.is_rescaled, slots_of(store.job_graph)) == (STORING, True, 2)
    job.handle(JobStored("j1"))
    deployed = job.deployed()
    assert set(deployed) == {"j1-0-0-1", "j1-0-1-1", "j1-1-0-1", "j1-1-1-1"}
    assert {d.restore.checkpoint_id for d in deployed.values() if d.restore} == {2}
    assert (step(job)[0], slots_of(job.master.job_graph)) == (STARTING, 2)
    job.run_all()
    (ended,) = job.taken(RescaleEnded)
    assert (ended.parallelism, ended.error, step(job)) == (2, None, (DONE, ""))
    job.complete(3)
    assert job.history[0][:2] == (3, "COMPLETED")


def slots_of(graph: JobGraph) -> int:
    return max(v.parallelism for v in graph.vertices)


def test_slots_that_a_lower_parallelism_does_not_need_are_returned(make_job: MakeJob) -> None:
    job = Master(at(make_job, 3))
    rescaled(job, at(make_job, 1), 1)
    (kept,) = job.taken(KeepSlots)
    assert (kept.allocation_ids, kept.slots) == (frozenset({"a0"}), 1)
    assert {e.allocation_id for e in job.master.graph.executions()} == {"a0"}
    assert job.master.phase is JobPhase.RUNNING


def test_there_and_back_no_execution_id_comes_twice(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1))
    rescaled(job, at(make_job, 2), 1, "b0")
    rescale(job, at(make_job, 1), "back")
    take_checkpoint(job, 2)
    job.committed(2)
    end_tasks(job)
    job.out = []
    job.handle(JobStored("j1"))
    assert set(job.deployed()) == {"j1-0-0-2", "j1-1-0-2"}


def test_a_report_of_a_replaced_task_is_acknowledged_and_changes_nothing(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1))
    ended = job.master.graph.find("j1-0-0-0")
    assert ended is not None
    rescaled(job, at(make_job, 2), 1, "b0")
    assert job.master.graph.find("j1-0-0-0") is None
    assert job.master.graph.find_earlier("j1-0-0-0") is ended.execution


def test_without_slots_in_time_the_job_runs_on_untouched(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1))
    job.complete(1)
    rescale(job, at(make_job, 4))
    offer(job, "b0")
    job.out = []
    job.now_ms += 300_000
    job.tick()
    assert step(job) == (DONE, "SS6233")
    (ended,) = job.taken(RescaleEnded)
    assert ended.error.message == "the job was not rescaled: it would need 4 slots and got 2 within 300 s"
    assert (job.master.status, slots_of(job.master.job_graph), len(job.master.slots)) == (
        JobStatus.RUNNING,
        1,
        1,
    )
    assert job.master.restarts.count == 0


def test_a_job_whose_tasks_do_not_run_until_the_deadline_lacks_no_slots(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1), restarts=3)
    rescale(job, at(make_job, 2))
    job.fail("j1-0-0-0")
    offer(job, "b0")
    assert (step(job)[0], job.master.phase is JobPhase.RUNNING) == (SLOTS, False)
    job.now_ms += 300_000
    job.tick()
    error = job.master.rescaling.known()[0].error
    assert error is not None
    assert (error.code, "not all of its tasks ran within 300 s" in error.message) == ("SS6234", True)


def test_slots_of_which_it_is_known_that_they_do_not_come_are_not_awaited(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1))
    refused = ErrorInfo(code="SS5112", message="no room", reason=FailureReason.NO_RESOURCES)
    rescale(job, at(make_job, 3))
    job.handle(NoTaskManagerLeft(refused, 1))
    assert (step(job), job.master.phase) == ((DONE, "SS6233"), JobPhase.RUNNING)
    error = job.master.rescaling.known()[0].error
    assert error is not None
    assert all(words in error.message for words in ("needs 3 slots, has 1", "no room"))
    # A TaskManager that is lost once its job has begun to start anew: the job turns back.
    rescale(job, at(make_job, 2), "s")
    offer(job, "b0", task_manager="tm1")
    take_checkpoint(job, 1)
    end_tasks(job)
    job.handle(SinksCommitted("j1", 1))
    job.handle(JobStored("j1"))
    job.handle(TaskManagerLost("tm1#0", LOST))
    job.tick(100)
    job.handle(NoTaskManagerLeft(refused, 1))
    assert (step(job, "s"), job.master.status) == ((STOPPING, ""), JobStatus.RESTARTING)
    end_tasks(job)
    job.handle(JobStored("j1"))
    job.run_all()
    assert (step(job, "s"), slots_of(job.master.job_graph)) == ((DONE, "SS5112"), 1)


@pytest.mark.parametrize(
    ("parallelism", "is_begun", "awaited", "code"),
    [(4, False, SLOTS, "SS6233"), (3, False, CHECKPOINT, "SS6233"), (3, True, CHECKPOINT, "SS6234")],
)
def test_a_lost_task_manager_is_replaced_for_the_present_parallelism_alone(
    make_job: MakeJob, parallelism: int, is_begun: bool, awaited: RescaleStep, code: str
) -> None:
    """Whether the job waits for the slots of the other one, or for a checkpoint."""
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, parallelism))
    offer(job, "b0", task_manager="tm1")
    if is_begun:
        job.tick()
    assert step(job)[0] is awaited
    job.out = []
    job.handle(TaskManagerLost("tm0#0", LOST))
    job.tick(100)
    assert step(job) == (DONE, code)
    kept, *requested = [i for i in job.out if isinstance(i, KeepSlots | RequestSlots)]
    assert (kept, {i.slots for i in requested}) == (KeepSlots("j1", frozenset({"b0"}), 2), {2})
    offer(job, "c0", task_manager="tm2")
    assert len(job.deployed()) == 4


def test_a_task_that_fails_while_slots_are_awaited_is_restarted_in_those_that_there_are(
    make_job: MakeJob,
) -> None:
    job = Master(at(make_job, 1))
    job.complete(1)
    rescale(job, at(make_job, 2))
    job.out = []
    job.fail("j1-0-0-0")
    # The request for the slots of the rescale stays open.
    assert job.taken(WithdrawRequest) == []
    job.run_all()
    assert job.master.phase is JobPhase.RUNNING
    offer(job, "b0")
    assert step(job)[0] is CHECKPOINT


@pytest.mark.parametrize("tolerable", ["0", "3"])
def test_a_checkpoint_that_fails_leaves_the_job_as_it_was(make_job: MakeJob, tolerable: str) -> None:
    job = Master(at(make_job, 2, tolerable_failed_checkpoints=tolerable))
    rescale(job, at(make_job, 1))
    job.tick()
    job.decline("j1-0-0-0", 1)
    assert step(job) == (DONE, "SS6234")
    assert (job.master.phase, slots_of(job.master.job_graph)) == (JobPhase.RUNNING, 2)
    assert job.master.restarts.count == 0
    job.complete(2)
    assert job.history[0][:2] == (2, "COMPLETED")


def test_a_checkpoint_that_is_not_stored_leaves_the_job_as_it_was(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, 1))
    job.tick()
    job.acknowledge_all(1)
    job.not_stored(1)
    assert (step(job), job.master.phase) == ((DONE, "SS6234"), JobPhase.RUNNING)


def test_a_task_that_fails_before_the_checkpoint_is_complete_ends_the_rescale_alone(
    make_job: MakeJob,
) -> None:
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, 1))
    job.tick()
    job.fail("j1-0-0-0")
    assert step(job) == (DONE, "SS6234")
    job.run_all()
    assert (job.master.phase, slots_of(job.master.job_graph)) == (JobPhase.RUNNING, 2)


def test_a_checkpoint_that_cannot_begin_is_not_awaited_for_ever(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2, timeout="20 s"))
    job.tick(1000)
    rescale(job, at(make_job, 1))
    # Behind the end of all sources no checkpoint begins, not even when the one before is over.
    for n in (0, 1):
        job.report(f"j1-0-{n}-0", ExecutionState.FINISHED)
    job.out = []
    job.tick(19_999)
    assert (step(job), job.taken(TriggerCheckpoint)) == ((CHECKPOINT, ""), [])
    job.tick(1)
    assert step(job) == (DONE, "SS6234")
    assert job.master.phase is JobPhase.RUNNING
    error = job.master.rescaling.known()[0].error
    assert error is not None
    assert error.message == (
        "the job was not rescaled, since its checkpoint failed: the checkpoint did not begin within 20 s: "
        "its sources have read all that there is"
    )
    assert error.hint == "wait for the end of the job"


def test_the_checkpoint_of_a_rescale_is_not_forgotten_for_later_savepoints(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2, timeout="20 s"))
    job.tick(1000)
    for n in (0, 1):
        job.report(f"j1-0-{n}-0", ExecutionState.FINISHED)
    rescale(job, at(make_job, 1))
    for n in range(101):
        job.handle(SavepointRequested("j1", f"s{n}", CheckpointKind.SAVEPOINT, "/sp"))
    known = job.master.checkpoints.requests.known()
    assert [(s.trigger_id, s.error.code) for s in known if s.error] == [("s99", "SS6215"), ("s100", "SS6215")]
    job.tick(20_000)
    assert step(job) == (DONE, "SS6234")


@pytest.mark.parametrize("answer", [JobStored("j1"), JobStoreFailed("j1", TORN)])
def test_a_job_that_cannot_be_kept_is_kept_as_it_was_and_goes_on_with_the_parallelism_that_it_had(
    make_job: MakeJob, answer: JobStored | JobStoreFailed
) -> None:
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, 1))
    take_checkpoint(job, 1)
    job.committed(1)
    end_tasks(job)
    job.out = []
    job.handle(JobStoreFailed("j1", DISK_FULL))
    job.tick()
    # The store may have failed behind its rename.
    assert [slots_of(i.job_graph) for i in job.out if isinstance(i, StoreJob)] == [2]
    assert job.deployed() == {}
    job.handle(answer)
    job.tick()
    deployed = job.deployed()
    assert set(deployed) == {"j1-0-0-1", "j1-0-1-1", "j1-1-0-1", "j1-1-1-1"}
    assert {d.restore.checkpoint_id for d in deployed.values() if d.restore} == {1}
    assert step(job) == (DONE, "SS5001")


def turning_back(make_job: MakeJob) -> Master:
    """A job that was at 1, got too few slots for 2, and is to be stored as it was."""
    job = Master(at(make_job, 1))
    rescale(job, at(make_job, 2))
    offer(job, "b0", task_manager="tm1")
    take_checkpoint(job, 1)
    job.committed(1)
    job.handle(TaskManagerLost("tm1#0", LOST))
    end_tasks(job)
    job.out = []
    job.handle(JobStored("j1"))
    assert [r.slots for r in job.taken(RequestSlots)] == [2]
    job.now_ms += 300_000
    job.tick()
    (store,) = job.taken(StoreJob)
    assert slots_of(store.job_graph) == 1
    return job


def test_without_slots_for_the_other_parallelism_the_job_turns_back(make_job: MakeJob) -> None:
    job = turning_back(make_job)
    job.handle(JobStored("j1"))
    assert set(job.deployed()) == {"j1-0-0-2", "j1-1-0-2"}
    job.run_all()
    assert step(job) == (DONE, "SS6003")
    assert (job.master.phase, job.master.restarts.count) == (JobPhase.RUNNING, 0)


def test_a_job_that_turns_back_is_stored_again_until_it_is(make_job: MakeJob) -> None:
    job = turning_back(make_job)
    for _ in range(2):
        job.handle(JobStoreFailed("j1", DISK_FULL))
        job.tick(999)
        assert (step(job)[0], job.taken(StoreJob)) == (STORING, [])
        job.tick(1)
        job.tick(5000)
        (store,) = job.taken(StoreJob)
        assert (slots_of(store.job_graph), store.is_rescaled) == (1, True)
    job.handle(JobStored("j1"))
    assert set(job.deployed()) == {"j1-0-0-2", "j1-1-0-2"}
    job.run_all()
    assert step(job) == (DONE, "SS6003")


def test_a_job_that_is_cancelled_meanwhile_ends(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, 1))
    take_checkpoint(job, 1)
    job.handle(CancelRequested("j1"))
    job.committed(1)
    end_tasks(job)
    job.tick()
    job.handle(JobStored("j1"))
    assert job.taken(StoreJob) == []
    from sqlstream.runtime.jobmanager.events import SinksAborted

    job.handle(SinksAborted("j1"))
    assert (job.master.status, step(job)) == (JobStatus.CANCELED, (DONE, "SS6235"))


def test_a_repeated_request_changes_nothing_and_a_second_one_is_refused(make_job: MakeJob) -> None:
    job = Master(at(make_job, 1))
    rescale(job, at(make_job, 2))
    rescale(job, at(make_job, 2))
    rescale(job, at(make_job, 3), "second")
    assert [s.trigger_id for s in job.master.rescaling.known()] == ["r", "second"]
    assert (step(job), step(job, "second")) == ((SLOTS, ""), (DONE, "SS6232"))


def test_the_parallelism_that_the_job_has_is_there_at_once(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, 2))
    assert (step(job), job.master.phase) == ((DONE, ""), JobPhase.RUNNING)


def test_what_tasks_wrote_behind_the_checkpoint_is_removed_at_the_end_of_the_job(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2))
    rescale(job, at(make_job, 1))
    take_checkpoint(job, 1)
    job.committed(1)
    job.report("j1-1-0-0", ExecutionState.FINISHED, None, rows("late", LAST_CHECKPOINT_ID))
    end_tasks(job)
    job.handle(JobStored("j1"))
    job.run_all()
    for name in ("j1-0-0-1", "j1-1-0-1"):
        job.report(name, ExecutionState.FINISHED)
    job.committed(LAST_CHECKPOINT_ID)
    (removed,) = job.taken(AbortSinks)
    assert removed.commits[0].vertex_id == job.master.job_graph.vertices[1].id


def test_the_state_of_operators_is_found_in_other_vertices(make_job: MakeJob) -> None:
    """At parallelism 1 both operators are one task."""
    wide = at(make_job, 2)
    source, sink = wide.vertices
    chained = replace(sink.operators[0], input=0)
    narrow = replace(
        wide,
        vertices=(replace(source, operators=(*source.operators, chained), parallelism=1),),
        edges=(),
    )
    job = Master(wide)
    rescale(job, narrow)
    take_checkpoint(job, 1)
    job.committed(1)
    end_tasks(job)
    job.out = []
    job.handle(JobStored("j1"))
    ((name, deployed),) = job.deployed().items()
    assert (name, deployed.restore is not None) == ("j1-0-0-1", True)
    assert deployed.restore is not None
    assert len(deployed.restore.states) == 2
    assert {o.operator_id for state in deployed.restore.states for o in state.operators} == {1}
    assert chained.input != NETWORK_INPUT


def complete_unaligned(job: Master, checkpoint_id: int) -> KeptCheckpoint:
    """The next checkpoint has rows in flight."""
    job.out = []
    job.tick(1000)
    items = InFlightItems(True, 0, 0, (3,))
    for execution in list(job.master.graph.executions()):
        has_items = execution.execution_id.startswith("j1-0-")
        in_flight = (items,) if has_items else ()
        state = replace(state_of(execution.execution_id, checkpoint_id), in_flight=in_flight)
        job.acknowledge(execution.execution_id, checkpoint_id, state=state)
    stored = job.manifest()
    job.stored(checkpoint_id)
    return stored


def forward(make_job: MakeJob, parallelism: int, **changes: str) -> JobGraph:
    """Of rows between its tasks nobody knows where they belong when there are others."""
    return with_config(make_job("j1", parallelism, parallelism, ExchangeKind.FORWARD), **changes)


def test_an_older_checkpoint_with_rows_in_flight_is_one_to_go_on_from(make_job: MakeJob) -> None:
    job = Master(at(make_job, 2, num_retained="3"))
    complete_unaligned(job, 1)
    rescaled(job, at(make_job, 1), 2)
    assert [(c.checkpoint_id, c.is_usable) for c in job.master.checkpoints.completed] == [
        (1, True),
        (2, True),
    ]


def test_older_checkpoints_with_rows_that_belong_to_nobody_are_kept_for_no_restart(make_job: MakeJob) -> None:
    job = Master(forward(make_job, 2, num_retained="3"))
    complete_unaligned(job, 1)
    rescaled(job, forward(make_job, 1), 2)
    assert [(c.checkpoint_id, c.is_usable) for c in job.master.checkpoints.completed] == [
        (1, False),
        (2, True),
    ]
    job.taken(StoreCheckpoint)
    job.fail("j1-0-0-1", BROKEN)
    assert {d.restore.checkpoint_id for d in job.deployed().values() if d.restore} == {2}
    job.run_all()
    job.complete(3)
    assert [c.manifest.checkpoint_id for c in job.taken(DiscardCheckpoint)] == [1]


def test_a_new_job_manager_takes_a_job_up_that_has_such_an_older_checkpoint(make_job: MakeJob) -> None:
    job = Master(forward(make_job, 2, num_retained="3"))
    older = complete_unaligned(job, 1)
    rescale(job, forward(make_job, 1))
    job.out = []
    job.tick()
    job.acknowledge_all(2)
    newest = job.manifest()
    again = Master(forward(make_job, 1, num_retained="3"), restored=(newest, older), restored_only=True)
    assert {d.restore.checkpoint_id for d in again.deployed().values() if d.restore} == {2}


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ("restarting", "is RESTARTING", "rescale it again once all of its tasks run"),
        ("finished", "has finished in part.*: its sources have read all", "wait for the end of the job"),
        ("rescaled", "is being rescaled", "once its tasks run"),
        ("another job", "has other operators", "the job that has this id now"),
    ],
)
def test_what_cannot_be_rescaled_says_why(make_job: MakeJob, change: str, message: str, hint: str) -> None:
    graph = at(make_job, 2)
    job = Master(graph)
    target = replace(make_job("j1", 1, 1), config=graph.config)
    if change == "restarting":
        job.report("j1-0-0-0", ExecutionState.FAILED, BROKEN)
    elif change == "finished":
        for n in (0, 1):
            job.report(f"j1-0-{n}-0", ExecutionState.FINISHED)
    elif change == "rescaled":
        rescale(job, target)
    elif change == "another job":
        operator = replace(target.vertices[0].operators[0], uid="other")
        first = replace(target.vertices[0], operators=(operator,))
        target = replace(target, vertices=(first, target.vertices[1]))
    with pytest.raises(UserError, match=message) as raised:
        check_can_be_rescaled(job.master, target)
    assert hint in raised.value.hint


def test_a_job_without_checkpoints_of_its_own_takes_one_to_be_rescaled(make_job: MakeJob) -> None:
    job = Master(make_job("j1", 2, 2))
    target = make_job("j1", 1, 1)
    check_can_be_rescaled(job.master, target)
    rescaled(job, target, 1)
    assert (step(job), slots_of(job.master.job_graph)) == ((DONE, ""), 1)
    job.out = []
    job.tick(100_000)
    assert job.taken(TriggerCheckpoint) == []


def test_figures_of_the_job_go_on_from_those_of_the_checkpoint_that_it_goes_on_from(
    make_job: MakeJob,
) -> None:
    """After a rescale, a restart and at another JobManager; what was counted behind the checkpoint is counted again."""

    def read(name: str, count: int) -> None:
        figures = {0: {"numRecordsOut": count, "numRecordsOutPerSecond": 1.5, "stateBytes": 8}}
        job.handle(MetricsReceived((TaskMetrics(name, {}, figures),)))

    def acknowledge(checkpoint_id: int, **read: int) -> None:
        for execution in list(job.master.graph.executions()):
            name = execution.execution_id
            counted = {0: {"numRecordsOut": read[name.replace("-", "_")]}} if name.startswith("j1-0") else {}
            job.acknowledge(
                name, checkpoint_id, state=replace(state_of(name, checkpoint_id), counted=counted)
            )
        job.stored(checkpoint_id)
        job.committed(checkpoint_id)

    def total() -> tuple[int | float, int | float]:
        figures = measure_job(job.master)
        return figures.total["numRecordsRead"], figures.operators[0].get("numRecordsOutPerSecond", 0)

    job = Master(at(make_job, 2))
    read("j1-0-0-0", 4)
    read("j1-0-1-0", 4)
    rescale(job, at(make_job, 1))
    job.tick()
    acknowledge(1, j1_0_0_0=3, j1_0_1_0=4)
    end_tasks(job)
    job.handle(JobStored("j1"))
    job.run_all()
    assert total() == (7, 0)
    read("j1-0-0-1", 5)
    assert total() == (12, 1.5)
    job.tick(1000)
    job.out = []
    acknowledge(2, j1_0_0_1=2)
    manifest = job.manifest()
    job.fail("j1-0-0-1")
    job.run_all()
    assert total() == (9, 0)
    read("j1-0-0-2", 1)
    assert total() == (10, 1.5)
    job = Master(at(make_job, 2), restored=(manifest,))
    assert total() == (9, 0)
    other = KeptCheckpoint(replace(manifest.manifest, job_id="j0"), "/elsewhere", manifest.path)
    job = Master(at(make_job, 2), restored=(other,))
    assert measure_job(job.master).total["numRecordsRead"] == 0


class Fate:
    """A job under random answers and failures, which is rescaled now and then; `handle` checks all invariants after each event.
    State: the job, and how many slots were offered."""

    def __init__(self, seed: int, make_job: MakeJob) -> None:
        self.rng = random.Random(seed)
        self.make_job = make_job
        self.job = Master(
            at(make_job, self.rng.randrange(1, 4), tolerable_failed_checkpoints="9"), restarts=99
        )
        self.slots = 0

    def settle(self) -> None:
        """Whatever is awaited comes, and nothing fails."""
        for _ in range(40):
            for event in (
                self.offer,
                self.store_checkpoint,
                self.commit,
                self.end,
                self.keep,
                self.run,
                self.tick,
            ):
                event()
            if self.job.master.phase is JobPhase.RUNNING and not self.job.master.rescaling.is_under_way:
                return
            self.acknowledge()

    def step(self) -> None:
        usual = [
            self.offer,
            self.acknowledge,
            self.store_checkpoint,
            self.commit,
            self.end,
            self.keep,
            self.run,
        ]
        rare = [self.rescale, self.rescale, self.fail, self.lose, self.refuse_store, self.refuse_checkpoint]
        self.rng.choice(usual if self.rng.random() < 0.8 else rare)()
        self.tick()

    def rescale(self) -> None:
        rescale(self.job, at(self.make_job, self.rng.randrange(1, 4)), str(self.rng.random()))

    def tick(self) -> None:
        self.job.tick(self.rng.choice([10, 200, 1000]))

    def offer(self) -> None:
        self.slots += 1
        offer(self.job, f"s{self.slots}")

    def executions(self, *states: ExecutionState) -> list[str]:
        return [e.execution_id for e in self.job.master.graph.executions() if e.state in states]

    def acknowledge(self) -> None:
        for pending in list(self.job.master.checkpoints.coordinator.pending.values()):
            for name in list(pending.awaited):
                self.job.acknowledge(name, pending.checkpoint_id)

    def store_checkpoint(self) -> None:
        for pending in list(self.job.master.checkpoints.coordinator.pending.values()):
            if pending.is_storing:
                self.job.stored(pending.checkpoint_id)

    def refuse_checkpoint(self) -> None:
        for pending in list(self.job.master.checkpoints.coordinator.pending.values()):
            if pending.is_storing:
                self.job.not_stored(pending.checkpoint_id)

    def commit(self) -> None:
        for i in [i for i in self.job.out if isinstance(i, CommitSinks)]:
            self.job.committed(i.checkpoint_id)

    def end(self) -> None:
        for name in self.executions(ExecutionState.CANCELING):
            self.job.report(name, ExecutionState.CANCELED)

    def run(self) -> None:
        for name in self.executions(ExecutionState.DEPLOYING, ExecutionState.INITIALIZING):
            self.job.report(name, ExecutionState.RUNNING)

    def keep(self) -> None:
        self.job.handle(JobStored("j1"))

    def refuse_store(self) -> None:
        self.job.handle(JobStoreFailed("j1", DISK_FULL))

    def fail(self) -> None:
        for name in self.executions(ExecutionState.RUNNING)[:1]:
            self.job.report(name, ExecutionState.FAILED, BROKEN)

    def lose(self) -> None:
        self.job.handle(TaskManagerLost("tm0#0", LOST))


def test_whatever_happens_the_job_runs_in_the_end_with_the_slots_of_its_parallelism_and_no_id_twice(
    make_job: MakeJob,
) -> None:
    done = {"": 0}
    for seed in range(150):
        fate = Fate(seed, make_job)
        for _ in range(60):
            fate.step()
        fate.settle()
        master = fate.job.master
        assert master.phase is JobPhase.RUNNING, seed
        assert not master.rescaling.is_under_way, seed
        assert len(master.slots) == master.slots.needed == slots_of(master.job_graph), seed
        statuses = master.rescaling.known()
        for status in statuses:
            code = status.error.code if status.error else ""
            done[code] = done.get(code, 0) + 1
        assert all(status.is_done for status in statuses), seed
        attempts = [
            i.message for i in fate.job.out if isinstance(i, Send) and isinstance(i.message, DeployTask)
        ]
        first = {m.descriptor.execution_id: m.descriptor.vertex.parallelism for m in attempts}
        assert all(first[m.descriptor.execution_id] == m.descriptor.vertex.parallelism for m in attempts), (
            seed
        )
    assert done[""] > 50
    assert {"SS6232", "SS6234"} <= done.keys()
