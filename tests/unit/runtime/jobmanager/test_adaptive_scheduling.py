"""Jobs whose parallelism follows the slots that there are."""

from __future__ import annotations

from typing import Any

import pytest
from checkpointed_master import ROOT, Master, state_of
from kept_checkpoints import KeptCheckpoint
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.errors import ErrorInfo, FailureReason, UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import InFlightItems, StateSegment
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rescale import RescaleStep
from sqlstream.messages.rpc import DeployTask, SlotOffer, TriggerCheckpoint
from sqlstream.runtime.jobmanager.adaptive_scheduling import Fitting, adaptive_settings
from sqlstream.runtime.jobmanager.dispatcher import Dispatcher, check_can_be_rescaled
from sqlstream.runtime.jobmanager.events import (
    JobStored,
    KeepSlots,
    Noted,
    RequestSlots,
    RescaleRequested,
    SavepointRequested,
    SlotsOffered,
    StoreJob,
    TaskManagerLost,
)
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.runtime.jobmanager.restart_strategy import FixedDelay

LOST = ErrorInfo(code="SS6001", message="silent", reason=FailureReason.TASK_MANAGER_LOST)
DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE two (k BIGINT, v BIGINT) WITH ('connector' = 'stream', 'scan.parallelism' = '2');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
"""
COUNTS = "INSERT INTO console SELECT k, count(*) FROM s GROUP BY k"
PREFIX = "jobmanager.adaptive-scheduler."
ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "execution.checkpointing.interval": "1 h",
    PREFIX + "submission.resource-stabilization-timeout": "10 s",
    PREFIX + "submission.resource-wait-timeout": "60 s",
    PREFIX + "executing.resource-stabilization-timeout": "20 s",
    PREFIX + "executing.cooldown-after-rescaling": "30 s",
}


def planned(parallelism: int, sql: str = COUNTS, **changes: str) -> JobGraph:
    config = ADAPTIVE | {k.replace("__", ".").replace("_", "-"): v for k, v in changes.items()}
    (plan,) = compile_script(DDL + sql, config | {"parallelism.default": str(parallelism)})
    return replace(plan.job_graph, job_id="j1")


class Adaptive(Master):
    """A job that has no slots yet."""

    def __init__(self, job: JobGraph, restored: tuple[KeptCheckpoint, ...] = ()) -> None:
        config = JobMasterConfig(
            "jm:1",
            slot_request_timeout_ms=60_000,
            restart_strategy=lambda: FixedDelay(3, 100),
            checkpoint_directory=ROOT,
        )
        self.now_ms = 0
        self.master = JobMaster(job, config, 0, restored)
        self.out: list[Any] = []
        self.handle(JobStored("j1"))

    def offer(self, task_manager: str, slots: int, first: int = 0) -> None:
        offers = tuple(SlotOffer(n, f"{task_manager}-{n}") for n in range(first, first + slots))
        self.handle(SlotsOffered(f"{task_manager}#0", f"{task_manager}:1", offers))

    def lose(self, task_manager: str) -> None:
        self.handle(TaskManagerLost(f"{task_manager}#0", LOST))

    def end_cancelled(self) -> None:
        for execution in list(self.master.graph.executions()):
            if execution.state is ExecutionState.CANCELING:
                self.report(execution.execution_id, ExecutionState.CANCELED)

    def settle(self, ms: int) -> None:
        """Time passes, and tasks do what they are told."""
        for _ in range(ms // 100):
            self.tick(100)
            self.end_cancelled()
            for execution in list(self.master.graph.executions()):
                if execution.state is ExecutionState.DEPLOYING:
                    self.report(execution.execution_id, ExecutionState.RUNNING)

    def checkpoint(self) -> None:
        """The one that is asked for, up to its commit."""
        (checkpoint_id,) = {m.checkpoint_id for m in self.taken(TriggerCheckpoint)}
        self.acknowledge_all(checkpoint_id)
        self.stored(checkpoint_id)

    def take_checkpoint(self, number: int) -> None:
        self.handle(SavepointRequested("j1", f"c{number}", CheckpointKind.CHECKPOINT))
        self.tick()
        self.checkpoint()

    @property
    def parallelism(self) -> int:
        assert self.master.job_graph.scaling is not None
        return self.master.job_graph.scaling.parallelism

    @property
    def running(self) -> tuple[JobPhase, int]:
        return self.master.phase, self.parallelism

    def errors(self) -> list[str]:
        return [s.error.code for s in self.master.rescaling.known() if s.error]


def test_a_job_with_all_its_slots_starts_at_once() -> None:
    job = Adaptive(planned(4))
    assert [(r.slots, r.least) for r in job.taken(RequestSlots)] == [(4, 1)]
    job.offer("a", 2)
    job.offer("b", 2)
    assert (len(job.deployed()), job.parallelism) == (8, 4)


def test_a_job_with_fewer_slots_starts_when_no_others_come() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(9_900)
    assert job.running == (JobPhase.SCHEDULING, 4)
    job.settle(400)
    assert job.running == (JobPhase.RUNNING, 2)
    assert job.master.restarts.count == 0
    said = [n.text for n in job.taken(Noted)]
    assert "the job starts with the parallelism 2 of 4, since it has 2 slots" in said
    # What was asked for stays in the store.
    assert job.taken(StoreJob) == []


def test_the_time_to_wait_ends_the_wait_for_further_slots() -> None:
    job = Adaptive(
        planned(4, **{PREFIX.replace(".", "__") + "submission__resource-stabilization-timeout": "10 min"})
    )
    job.offer("a", 3)
    job.settle(60_500)
    assert job.running == (JobPhase.RUNNING, 3)


def test_a_job_without_enough_slots_is_failed_by_its_strategy() -> None:
    sql = "INSERT INTO console SELECT k, count(*) FROM two GROUP BY k"
    job = Adaptive(planned(4, sql))
    assert [(r.slots, r.least) for r in job.taken(RequestSlots)] == [(4, 2)]
    job.offer("a", 1)
    job.settle(60_100)
    assert job.master.restarts.count == 1
    assert job.master.restarts.records[0].error.code == "SS6003"


def test_a_job_takes_all_slots_that_it_wants_behind_its_cool_down_from_a_checkpoint() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(11_000)
    assert job.running == (JobPhase.RUNNING, 2)
    job.offer("b", 2)
    job.settle(28_000)
    assert job.taken(TriggerCheckpoint) == []
    job.settle(3_000)
    job.checkpoint()
    job.settle(500)
    assert (job.running, job.errors()) == ((JobPhase.RUNNING, 4), [])
    assert {e.restored_id for e in job.master.graph.executions()} == {1}
    assert job.master.restarts.count == 0


def test_fewer_slots_than_it_wants_are_taken_when_no_others_come() -> None:
    job = Adaptive(planned(8))
    job.offer("a", 2)
    job.settle(60_000)
    job.offer("b", 2)
    job.settle(15_000)
    job.offer("c", 2)
    job.settle(19_900)
    assert job.taken(TriggerCheckpoint) == []
    job.settle(300)
    job.checkpoint()
    job.settle(500)
    assert job.running == (JobPhase.RUNNING, 6)


def test_a_small_increase_is_left_until_it_is_all_that_is_wanted() -> None:
    job = Adaptive(planned(4, jobmanager__adaptive_scheduler__min_parallelism_increase="2"))
    job.offer("a", 2)
    job.settle(60_000)
    job.offer("b", 1)
    job.settle(60_000)
    assert job.taken(TriggerCheckpoint) == []
    job.offer("b", 1, first=1)
    job.settle(300)
    job.checkpoint()
    job.settle(500)
    assert job.running == (JobPhase.RUNNING, 4)
    three = Adaptive(planned(3, jobmanager__adaptive_scheduler__min_parallelism_increase="2"))
    three.offer("a", 2)
    three.settle(60_000)
    three.offer("b", 1)
    three.settle(300)
    three.checkpoint()
    three.settle(500)
    assert three.running == (JobPhase.RUNNING, 3)


def test_a_job_that_loses_slots_goes_on_with_the_others_from_its_last_checkpoint() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.offer("b", 2)
    job.settle(200)
    job.take_checkpoint(1)
    job.out = []
    job.lose("b")
    job.settle(500)
    assert (job.master.phase, [r.slots for r in job.taken(RequestSlots)][-1:]) == (JobPhase.SCHEDULING, [4])
    job.settle(10_500)
    assert job.running == (JobPhase.RUNNING, 2)
    assert {e.restored_id for e in job.master.graph.executions()} == {1}
    job.offer("c", 2)
    job.out = []
    job.settle(30_500)
    job.checkpoint()
    job.settle(500)
    assert job.running == (JobPhase.RUNNING, 4)


def test_slots_that_are_lost_before_any_checkpoint_let_the_job_begin_anew_with_fewer() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.offer("b", 2)
    job.settle(200)
    job.lose("b")
    job.settle(11_000)
    assert job.running == (JobPhase.RUNNING, 2)
    assert {e.restored_id for e in job.master.graph.executions()} == {0}


def test_slots_that_are_lost_while_the_job_starts_with_more_are_not_awaited() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(60_000)
    job.offer("b", 2)
    job.tick()
    job.tick()
    job.checkpoint()
    job.end_cancelled()
    job.tick(50)
    assert job.master.rescaling.known()[-1].step is RescaleStep.STARTING
    job.lose("b")
    job.settle(12_000)
    assert job.running == (JobPhase.RUNNING, 2)
    assert {e.restored_id for e in job.master.graph.executions()} == {1}


def test_behind_checkpoints_that_fail_it_goes_on_from_the_last_that_is_complete() -> None:
    job = Adaptive(planned(4, execution__checkpointing__tolerable_failed_checkpoints="9"))
    job.offer("a", 2)
    job.settle(11_000)
    job.take_checkpoint(1)
    job.offer("b", 2)
    for checkpoint_id in (2, 3):
        job.settle(31_000)
        execution = next(job.master.graph.executions())
        job.decline(execution.execution_id, checkpoint_id)
        assert job.running == (JobPhase.RUNNING, 2)
    job.settle(31_500)
    assert job.errors() == ["SS6234", "SS6234"]
    assert job.running == (JobPhase.RUNNING, 4)
    assert {e.restored_id for e in job.master.graph.executions()} == {1}


def test_slots_beside_those_of_its_tasks_that_are_lost_are_requested_again() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(11_000)
    job.offer("b", 2)
    job.out = []
    job.lose("b")
    assert [r.slots for r in job.taken(RequestSlots)] == [4]
    assert job.running == (JobPhase.RUNNING, 2)


NO_EDGE = InFlightItems(True, 7, 0, (3,))
"""Rows that no channel of a job at another parallelism brings."""

BY_HASH = InFlightItems(True, 0, 0, (3,), (StateSegment("shared/x-1.arrow", 0, 100, 7, 3),))
"""Rows that a source has queued for the first subtask behind it."""


def with_rows_in_flight(job: Adaptive, items: InFlightItems = NO_EDGE) -> KeptCheckpoint:
    """The next checkpoint of the job."""
    job.handle(SavepointRequested("j1", "c", CheckpointKind.CHECKPOINT))
    job.tick()
    (checkpoint_id,) = {m.checkpoint_id for m in job.taken(TriggerCheckpoint)}
    graph = job.master.job_graph
    for vertex_id, subtasks in list(job.master.graph.vertices.items()):
        in_flight = () if items is BY_HASH and graph.inputs_of(vertex_id) else (items,)
        for execution in [s.execution for s in subtasks]:
            state = replace(state_of(execution.execution_id, checkpoint_id), in_flight=in_flight)
            job.acknowledge(execution.execution_id, checkpoint_id, state=state)
    kept = job.manifest()
    job.stored(checkpoint_id)
    return kept


def test_behind_rows_in_flight_a_job_that_loses_slots_waits_for_as_many() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.offer("b", 2)
    job.settle(200)
    with_rows_in_flight(job)
    job.lose("b")
    job.settle(30_000)
    assert job.running == (JobPhase.SCHEDULING, 4)
    job.offer("c", 2)
    job.settle(500)
    assert job.running == (JobPhase.RUNNING, 4)
    assert {e.restored_id for e in job.master.graph.executions()} == {1}


def test_another_job_manager_begins_at_the_parallelism_of_rows_in_flight() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(11_000)
    kept = with_rows_in_flight(job)
    Dispatcher(JobMasterConfig(checkpoint_directory=ROOT)).check_submission(planned(4), (kept,))
    next_one = Adaptive(planned(4), (kept,))
    assert [(r.slots, r.least) for r in next_one.taken(RequestSlots)] == [(4, 1)]
    next_one.offer("a", 2)
    next_one.settle(500)
    assert next_one.running == (JobPhase.RUNNING, 2)
    next_one.offer("b", 2)
    next_one.settle(30_500)
    next_one.checkpoint()
    next_one.settle(500)
    assert next_one.running == (JobPhase.RUNNING, 4)


def arriving(job: Adaptive) -> list[int]:
    """How many rows in flight each attempt is deployed with, that takes part of them."""
    deployed = [m.descriptor.restore.arrivals for m in job.taken(DeployTask) if m.descriptor.restore]
    return [
        sum(sum(each.rows) for each in arrivals.rows) for arrivals in deployed if arrivals and arrivals.rows
    ]


def test_rows_in_flight_by_key_go_on_with_the_slots_that_are_left() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.offer("b", 2)
    job.settle(200)
    with_rows_in_flight(job, BY_HASH)
    job.taken(DeployTask)
    job.lose("b")
    job.settle(30_000)
    assert job.running == (JobPhase.RUNNING, 2)
    assert {e.restored_id for e in job.master.graph.executions()} == {1}
    # Each of the two takes those of the 4 x 3 rows that have its keys.
    assert arriving(job) == [12, 12]


@pytest.mark.parametrize("slots", [1, 3, 4])
def test_another_job_manager_begins_with_what_it_finds_behind_rows_in_flight_by_key(slots: int) -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(11_000)
    kept = with_rows_in_flight(job, BY_HASH)
    Dispatcher(JobMasterConfig(checkpoint_directory=ROOT)).check_submission(planned(4), (kept,))
    next_one = Adaptive(planned(4), (kept,))
    next_one.offer("a", slots)
    next_one.settle(11_000)
    assert next_one.running == (JobPhase.RUNNING, slots)
    assert arriving(next_one) == [6] * slots


def test_another_job_manager_begins_with_what_it_finds() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 2)
    job.settle(11_000)
    job.handle(SavepointRequested("j1", "c", CheckpointKind.CHECKPOINT))
    job.tick()
    job.acknowledge_all(1)
    kept = job.manifest()
    next_one = Adaptive(planned(4), (kept,))
    next_one.offer("a", 3)
    next_one.settle(11_000)
    assert next_one.running == (JobPhase.RUNNING, 3)
    assert {e.restored_id for e in next_one.master.graph.executions()} == {1}


def test_a_client_asks_for_another_parallelism() -> None:
    job = Adaptive(planned(4))
    job.offer("a", 4)
    job.settle(200)
    job.handle(RescaleRequested("j1", "r", planned(2)))
    job.tick()
    job.checkpoint()
    job.end_cancelled()
    job.tick()
    (stored,) = job.taken(StoreJob)
    assert stored.job_graph.scaling.parallelism == 2
    job.handle(JobStored("j1"))
    job.settle(500)
    assert job.running == (JobPhase.RUNNING, 2)
    assert [len(k.allocation_ids) for k in job.taken(KeepSlots)][-1] == 2
    job.offer("b", 2)
    job.settle(40_000)
    assert job.running == (JobPhase.RUNNING, 2)


def reactive() -> JobGraph:
    job = planned(1, scheduler_mode="reactive")
    return replace(job, config={k: v for k, v in job.config.items() if "submission" not in k})


def test_in_reactive_mode_a_job_takes_what_there_is() -> None:
    job = Adaptive(reactive())
    assert [(r.slots, r.least) for r in job.taken(RequestSlots)] == [(128, 1)]
    job.offer("a", 3)
    job.settle(1_200)
    assert job.running == (JobPhase.RUNNING, 3)
    job.offer("b", 2)
    job.settle(30_500)
    job.checkpoint()
    job.settle(500)
    assert job.running == (JobPhase.RUNNING, 5)
    with pytest.raises(UserError, match="takes all slots that there are"):
        check_can_be_rescaled(job.master, planned(2))


def test_reactive_mode_is_refused_where_task_managers_are_started_for_jobs() -> None:
    dispatcher = Dispatcher(JobMasterConfig(checkpoint_directory=ROOT), slots_max=8)
    with pytest.raises(UserError, match="wants all slots that there are") as caught:
        dispatcher.check_submission(reactive())
    assert caught.value.code == "SS6100"


def test_a_job_that_can_do_with_the_slots_of_the_cluster_is_not_refused() -> None:
    dispatcher = Dispatcher(JobMasterConfig(checkpoint_directory=ROOT), slots_max=2)
    dispatcher.check_submission(planned(4))
    with pytest.raises(Exception, match="needs 4 slots"):
        dispatcher.check_submission(planned(4, jobmanager__scheduler="default"))


def test_jobs_that_have_no_other_parallelism_are_scheduled_as_before() -> None:
    assert adaptive_settings(planned(4, jobmanager__scheduler="default")) is None
    fixed = "INSERT INTO console SELECT k, v FROM two"
    assert adaptive_settings(planned(2, fixed)) is None
    with pytest.raises(UserError, match="not supported yet"):
        adaptive_settings(planned(2, jobmanager__scheduler="AdaptiveBatch"))


def test_the_highest_parallelism_that_fits() -> None:
    fitting = Fitting(planned(8))
    assert [fitting.fit(slots) for slots in (0, 1, 5, 8, 20)] == [0, 1, 5, 8, 8]
    source = "s /*+ OPTIONS('slot-sharing-group' = 'x') */"
    hinted = f"INSERT INTO console SELECT k, count(*) FROM {source} JOIN two USING (k) GROUP BY k"
    fitting = Fitting(planned(8, hinted))
    assert [fitting.fit(slots) for slots in (2, 3, 4, 7, 99)] == [0, 1, 2, 3, 8]
