"""Restarts of the regions that a failure hits, and any event in any phase."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from committable_harness import file_of

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    CancelTask,
    DeployTask,
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
    JobStoreFailed,
    MetricsReceived,
    MetricsRequested,
    NoTaskManagerLeft,
    Noted,
    ReleaseSlots,
    RequestSlots,
    Send,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    SlotsOffered,
    SuspendRequested,
    TaskManagerLost,
    TaskStateChanged,
    Tick,
)
from sqlstream.runtime.jobmanager.execution_graph import ATTEMPTS_KEPT, ExecutionGraph
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_phase import PHASE_TRANSITIONS, JobPhase
from sqlstream.runtime.jobmanager.job_regions import regions_of
from sqlstream.runtime.story import Story
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

MakeJob = Callable[..., JobGraph]
CONFIG = JobMasterConfig("jm:1", slot_request_timeout_ms=1000, cancellation_timeout_ms=5000, resend_ms=500)
BROKEN = ErrorInfo(code="SS5002", message="bad row", reason=FailureReason.OPERATOR_FAILED)
LOST = ErrorInfo(code="SS6001", message="silent", reason=FailureReason.TASK_MANAGER_LOST)
RUNNING, FINISHED, FAILED, CANCELED = (
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
    ExecutionState.FAILED,
    ExecutionState.CANCELED,
)


@dataclass
class UpTo:
    """Restarts after `delay_ms`, `times` times."""

    times: int
    delay_ms: int = 100
    failures: list[ErrorInfo] = field(default_factory=list)

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        self.failures.append(failure)
        return self.delay_ms if len(self.failures) <= self.times else None


def offer(tm: str, *allocations: str) -> SlotsOffered:
    return SlotsOffered(f"{tm}#0", f"{tm}:1", tuple(SlotOffer(i, a) for i, a in enumerate(allocations)))


def running(job: JobGraph, restarts: UpTo, *offers: SlotsOffered) -> JobMaster:
    master = JobMaster(job, replace(CONFIG, restart_strategy=lambda: restarts), 0)
    master.handle(JobStored("j1"), 0)
    for each in offers or (offer("tm0", "a", "b"),):
        master.handle(each, 10)
    for execution in master.graph.executions():
        report(master, execution.execution_id, RUNNING, 20)
    assert master.phase is JobPhase.RUNNING
    return master


def report(
    master: JobMaster,
    execution_id: str,
    state: ExecutionState,
    now_ms: int,
    error: ErrorInfo | None = None,
    files: tuple[str, ...] = (),
) -> list[Any]:
    subtask = master.graph.find(execution_id)
    assert subtask is not None
    committables = (SinkCommittables(1, tuple(file_of(f) for f in files)),) if files else ()
    sequence = subtask.execution.last_sequence + 1
    tm = subtask.execution.task_manager_id
    update = TaskStateUpdate(tm, "j1", execution_id, sequence, state, error, committables)
    return master.handle(TaskStateChanged(update), now_ms)


def sent(instructions: list[Any], kind: type) -> list[Any]:
    return [i.message for i in instructions if isinstance(i, Send) and isinstance(i.message, kind)]


def deployed(instructions: list[Any]) -> list[str]:
    return [m.descriptor.execution_id for m in sent(instructions, DeployTask)]


def notes(instructions: list[Any]) -> list[Noted]:
    return [i for i in instructions if isinstance(i, Noted)]


def states(master: JobMaster) -> dict[str, str]:
    return {e.execution_id: e.state.value for e in master.graph.executions()}


@pytest.mark.parametrize(
    ("exchange", "sources", "sinks", "regions"),
    [
        (ExchangeKind.HASH, 2, 2, [{"0-0", "0-1", "1-0", "1-1"}]),
        (ExchangeKind.FORWARD, 2, 2, [{"0-0", "1-0"}, {"0-1", "1-1"}]),
        (ExchangeKind.RESCALE, 4, 2, [{"0-0", "0-1", "1-0"}, {"0-2", "0-3", "1-1"}]),
        (ExchangeKind.BROADCAST, 1, 2, [{"0-0", "1-0", "1-1"}]),
    ],
)
def test_subtasks_that_exchange_rows_are_one_region(
    make_job: MakeJob, exchange: ExchangeKind, sources: int, sinks: int, regions: list[set[str]]
) -> None:
    graph = ExecutionGraph(make_job("j1", sources, sinks, exchange), 0, Story())
    found = [
        {s.execution.execution_id.removeprefix("j1-").removesuffix("-0") for s in region.subtasks}
        for region in regions_of(graph)
    ]
    assert found == regions


def test_only_the_region_that_failed_is_restarted_with_its_next_attempt(make_job: MakeJob) -> None:
    restarts = UpTo(1)
    master = running(make_job("j1", 2, 2, ExchangeKind.FORWARD), restarts)
    out = report(master, "j1-0-0-0", FAILED, 1000, BROKEN)
    assert [m.execution_id for m in sent(out, CancelTask)] == ["j1-1-0-0"]
    cause = 'task "bids (1/2)" has failed: error[SS5002]: bad row'
    assert notes(out) == [Noted(f"2 of 4 tasks restart in 0.1 s: {cause}", "j1")]
    assert (master.phase, master.status) == (JobPhase.RESTARTING, JobStatus.RESTARTING)
    report(master, "j1-1-0-0", CANCELED, 1050)
    assert deployed(master.handle(Tick(), 1099)) == []
    out = master.handle(Tick(), 1100)
    assert deployed(out) == ["j1-0-0-1", "j1-1-0-1"]
    assert notes(out) == [Noted("2 of 4 tasks begin anew", "j1", is_warning=False)]
    assert (master.phase, master.status) == (JobPhase.DEPLOYING, JobStatus.RUNNING)
    assert states(master) == {
        "j1-0-0-1": "DEPLOYING",
        "j1-0-1-0": "RUNNING",
        "j1-1-0-1": "DEPLOYING",
        "j1-1-1-0": "RUNNING",
    }
    assert restarts.failures == [BROKEN]
    assert master.error is None


def test_a_query_whose_rows_are_on_their_way_is_not_restarted(make_job: MakeJob) -> None:
    job = make_job("j1", 1, 1)
    source, sink = job.vertices
    operator = sink.operators[0]
    query = msgspec.structs.replace(operator, spec=SinkSpec("", COLLECT, {}, Schema(())))
    vertices = (source, msgspec.structs.replace(sink, operators=(query,)))
    restarts = UpTo(5)
    master = running(msgspec.structs.replace(job, vertices=vertices), restarts, offer("tm0", "a"))
    report(master, "j1-0-0-0", FAILED, 40, BROKEN)
    assert (master.status, master.error, restarts.failures) == (JobStatus.FAILING, BROKEN, [])


def test_a_restarted_job_finishes_and_commits_only_what_the_last_attempts_wrote(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1, delay_ms=0), offer("tm0", "a"))
    report(master, "j1-1-0-0", FINISHED, 30, files=("half",))
    assert deployed(report(master, "j1-0-0-0", FAILED, 40, BROKEN)) == ["j1-0-0-1", "j1-1-0-1"]
    report(master, "j1-1-0-1", FINISHED, 50, files=("whole",))
    out = report(master, "j1-0-0-1", FINISHED, 60)
    commits = [c.committables for i in out if isinstance(i, CommitSinks) for c in i.commits]
    assert commits == [(file_of("whole"),)]
    out = master.handle(SinksCommitted("j1", LAST_CHECKPOINT_ID), 70)
    assert [c.committables for i in out if isinstance(i, AbortSinks) for c in i.commits] == [
        (file_of("half"),)
    ]
    assert master.phase is JobPhase.CLEANING_UP
    out = master.handle(SinksAborted("j1"), 80)
    assert out == [ReleaseSlots("j1"), JobFinished("j1", JobStatus.FINISHED, None)]


def test_a_job_that_fails_after_a_restart_removes_the_output_of_all_attempts(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1, delay_ms=0), offer("tm0", "a"))
    report(master, "j1-1-0-0", FINISHED, 30, files=("first",))
    report(master, "j1-0-0-0", FAILED, 40, BROKEN)
    report(master, "j1-1-0-1", FINISHED, 50, files=("second",))
    out = report(master, "j1-0-0-1", FAILED, 60, BROKEN)
    aborted = [c.committables for i in out if isinstance(i, AbortSinks) for c in i.commits]
    assert aborted == [(file_of("second"), file_of("first"))]
    assert (master.phase, master.status, master.error) == (JobPhase.ABORTING, JobStatus.FAILING, BROKEN)
    master.handle(SinksAborted("j1"), 70)
    assert master.phase is JobPhase.FAILED


def test_failures_that_follow_from_a_failure_are_not_counted(make_job: MakeJob) -> None:
    restarts = UpTo(1)
    master = running(make_job("j1", 2, 2), restarts)
    report(master, "j1-0-0-0", FAILED, 30, BROKEN)
    report(master, "j1-1-0-0", FAILED, 31, LOST)
    report(master, "j1-1-1-0", FAILED, 32, LOST)
    assert restarts.failures == [BROKEN]
    assert master.phase is JobPhase.RESTARTING


def test_a_lost_task_manager_is_replaced_and_the_others_keep_their_slots(make_job: MakeJob) -> None:
    job = make_job("j1", 2, 2, ExchangeKind.FORWARD)
    master = running(job, UpTo(1), offer("tm0", "a"), offer("tm1", "b"))
    master.handle(TaskManagerLost("tm0#0", LOST), 1000)
    assert master.handle(Tick(), 1100)[0] == RequestSlots("j1", 2)
    assert (master.phase, master.status) == (JobPhase.SCHEDULING, JobStatus.RUNNING)
    out = master.handle(offer("tm9", "c"), 1200)
    placed = {m.descriptor.execution_id: m.task_manager_id for m in sent(out, DeployTask)}
    assert placed == {"j1-0-0-1": "tm9#0", "j1-1-0-1": "tm9#0"}
    assert states(master)["j1-0-1-0"] == "RUNNING"


def test_without_slots_for_a_restart_the_job_fails_with_that_reason(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1), offer("tm0", "a"))
    master.handle(TaskManagerLost("tm0#0", LOST), 1000)
    master.handle(Tick(), 1100)
    master.handle(Tick(), 2099)
    assert master.phase is JobPhase.SCHEDULING
    master.handle(Tick(), 2100)
    assert master.error is not None
    assert master.error.reason is FailureReason.NO_RESOURCES


def test_no_task_manager_left_ends_the_wait_for_slots_of_a_restart(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1), offer("tm0", "a"))
    master.handle(TaskManagerLost("tm0#0", LOST), 1000)
    master.handle(Tick(), 1100)
    master.handle(NoTaskManagerLeft(BROKEN), 1200)
    assert (master.status, master.error) == (JobStatus.FAILING, BROKEN)


def test_a_task_that_does_not_end_for_a_restart_is_given_up(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1), offer("tm0", "a"))
    report(master, "j1-0-0-0", FAILED, 1000, BROKEN)
    assert not any(isinstance(i, GiveUpTaskManager) for i in master.handle(Tick(), 5999))
    out = master.handle(Tick(), 6000)
    assert GiveUpTaskManager("tm0#0") in out
    # The stuck task still uses its slot.
    assert deployed(out) == []
    assert RequestSlots("j1", 1) in out


def test_late_reports_of_an_earlier_attempt_are_acknowledged_and_change_nothing(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1, delay_ms=0), offer("tm0", "a"))
    report(master, "j1-0-0-0", FAILED, 30, BROKEN)
    report(master, "j1-1-0-0", CANCELED, 40)
    before = states(master)
    late = TaskStateUpdate("tm0#0", "j1", "j1-0-0-0", 9, FINISHED)
    out = master.handle(TaskStateChanged(late), 50)
    assert out == [Send("tm0:1", TaskStateAck("tm0#0", "j1-0-0-0", 9))]
    assert states(master) == before


def test_a_bounded_number_of_attempts_is_remembered(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(99, delay_ms=0), offer("tm0", "a"))
    for attempt in range(ATTEMPTS_KEPT + 5):
        report(master, f"j1-0-0-{attempt}", FAILED, 30, BROKEN)
        report(master, f"j1-1-0-{attempt}", CANCELED, 40)
    source = master.graph.find(f"j1-0-0-{ATTEMPTS_KEPT + 5}")
    assert source is not None
    assert [e.attempt for e in source.earlier] == list(range(5, ATTEMPTS_KEPT + 5))
    assert master.graph.find_earlier("j1-0-0-4") is None
    assert master.graph.find_earlier("j1-0-0-5") is not None


def test_cancelling_a_job_that_waits_for_its_restart_ends_it(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(1), offer("tm0", "a"))
    report(master, "j1-0-0-0", FAILED, 30, BROKEN)
    report(master, "j1-1-0-0", CANCELED, 40)
    out = master.handle(CancelRequested("j1"), 50)
    assert out[-1] == JobFinished("j1", JobStatus.CANCELED, None)


def test_a_suspended_job_tells_its_tasks_to_end_and_waits_for_none(make_job: MakeJob) -> None:
    master = running(make_job("j1", 1, 1), UpTo(0), offer("tm0", "a"))
    out = master.handle(SuspendRequested("j1"), 30)
    assert [m.execution_id for m in sent(out, CancelTask)] == ["j1-0-0-0", "j1-1-0-0"]
    assert out[-2:] == [ReleaseSlots("j1"), JobFinished("j1", JobStatus.SUSPENDED, None)]
    assert master.handle(Tick(), 9999) == []


# --- any event in any phase


class Fate:
    """A JobMaster, what its surroundings still owe it, and events that nobody awaits."""

    def __init__(self, seed: int, job: JobGraph) -> None:
        self.rng = random.Random(seed)
        self.restarts = UpTo(self.rng.choice([0, 1, 3, 30]), self.rng.choice([0, 100, 2000]))
        self.master = JobMaster(job, replace(CONFIG, restart_strategy=lambda: self.restarts), 0)
        self.now_ms = 0
        self.phases: set[JobPhase] = set()
        self.leases = 0
        self.commits = 0
        self.ends: list[JobFinished] = []

    def step(self, event: Any) -> None:
        self.phases.add(self.master.phase)
        for instruction in self.master.handle(event, self.now_ms):
            if isinstance(instruction, CommitSinks):
                self.commits += 1
            if isinstance(instruction, JobFinished):
                self.ends.append(instruction)
        self.phases.add(self.master.phase)

    def any_event(self) -> Any:
        kind = self.rng.choice(["task"] * 12 + ["tick"] * 6 + ["offer"] * 4 + ["other"] * 2)
        self.now_ms += self.rng.choice([1, 20, 300, 1500])
        match kind:
            case "task":
                return self.report_of_a_task()
            case "tick":
                return Tick()
            case "offer":
                self.leases += 1
                return offer(f"tm{self.rng.randint(0, 3)}", f"lease{self.leases}")
            case _:
                return self.rng.choice(self.others())

    def report_of_a_task(self) -> Any:
        vertices = self.master.graph.subtasks()
        execution = self.rng.choice([e for s in vertices for e in (*s.earlier, s.execution)])
        state = self.rng.choice(
            [ExecutionState.INITIALIZING, *[RUNNING] * 4, *[FINISHED] * 4, FAILED, CANCELED]
        )
        sequence = execution.last_sequence + self.rng.choice([0, 1, 1, 1, 2])
        files = (SinkCommittables(1, (file_of(execution.execution_id),)),) if state is FINISHED else ()
        return TaskStateChanged(
            TaskStateUpdate(
                execution.task_manager_id or "tm0#0",
                "j1",
                execution.execution_id,
                sequence,
                state,
                BROKEN if state is FAILED else None,
                files,
            )
        )

    def others(self) -> list[Any]:
        often = [SinksCommitted("j1", LAST_CHECKPOINT_ID), SinksAborted("j1"), JobStored("j1")] * 4
        return [
            *often,
            SinksCommitFailed("j1", LAST_CHECKPOINT_ID, BROKEN),
            TaskManagerLost(f"tm{self.rng.randint(0, 3)}#0", LOST),
            NoTaskManagerLeft(LOST),
            MetricsRequested("j1"),
            MetricsReceived((TaskMetrics("j1-0-0-0", {}),)),
            JobStoreFailed("j1", BROKEN) if self.rng.random() < 0.1 else Tick(),
            CancelRequested("j1") if self.rng.random() < 0.1 else Tick(),
            SuspendRequested("j1") if self.rng.random() < 0.1 else Tick(),
        ]


@pytest.mark.parametrize("exchange", [ExchangeKind.HASH, ExchangeKind.FORWARD])
@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 2000), marks=pytest.mark.slow)])
def test_any_event_in_any_phase_leads_to_one_end_and_breaks_no_rule(
    make_job: MakeJob, exchange: ExchangeKind, seeds: range
) -> None:
    """`handle` checks all invariants of the job after each event."""
    phases: set[JobPhase] = set()
    most_attempts = 0
    for seed in seeds:
        fate = Fate(seed, make_job("j1", 2, 2, exchange))
        for _ in range(300):
            fate.step(fate.any_event())
        master = fate.master
        assert len(fate.ends) == (0 if PHASE_TRANSITIONS[master.phase] else 1), seed
        assert fate.commits <= 1 + len(fate.restarts.failures), seed
        assert len(fate.restarts.failures) <= fate.restarts.times + 1, seed
        assert master.status is not JobStatus.FINISHED or fate.commits >= 1, seed
        phases |= fate.phases
        most_attempts = max(most_attempts, *(e.attempt for e in master.graph.executions()))
    assert phases == set(JobPhase) - {JobPhase.CREATED, JobPhase.STOPPING}
    assert most_attempts > 5
