"""A job whose source is assigned its splits: when it starts, what its readers get, and what a failure gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sqlstream.errors import ErrorInfo, FailureReason, Span
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import AssignSplits, DeployTask, RequestSplits, SlotOffer, TaskStateUpdate
from sqlstream.runtime.jobmanager.events import (
    CancelRequested,
    CommitSinks,
    DiscoveryFailed,
    GiveBackSplits,
    JobFinished,
    JobStored,
    ReadTable,
    RequestSlots,
    Send,
    SlotsOffered,
    SplitsDiscovered,
    SplitsRequested,
    StartEnumerator,
    StopEnumerators,
    TaskStateChanged,
    Tick,
)
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import Discovery, SourceSplit

MakeJob = Callable[..., JobGraph]
CONFIG = JobMasterConfig("jm:1", enumerates=lambda connector: connector == "nexmark")
SOURCE = f"{0:032x}"
MISSING = ErrorInfo(code="SS5002", message="no such path", reason=FailureReason.USER_DATA)


@dataclass
class Once:
    """One restart after a tenth of a second."""

    restarts: int = 0

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        self.restarts += 1
        return 100 if self.restarts == 1 else None


def offer(tm: str, *allocations: str) -> SlotsOffered:
    return SlotsOffered(f"{tm}#0", f"{tm}:1", tuple(SlotOffer(i, a) for i, a in enumerate(allocations)))


def report(master: JobMaster, execution_id: str, sequence: int, state: ExecutionState) -> list[Any]:
    subtask = master.graph.find(execution_id)
    assert subtask is not None
    error = MISSING if state is ExecutionState.FAILED else None
    tm = subtask.execution.task_manager_id
    update = TaskStateUpdate(tm, "j1", execution_id, sequence, state, error)
    return master.handle(TaskStateChanged(update), 30)


def sent(instructions: list[Any], kind: type) -> list[Any]:
    return [i.message for i in instructions if isinstance(i, Send) and isinstance(i.message, kind)]


def stored(job: JobGraph, is_restarted: bool = False) -> JobMaster:
    config = replace(CONFIG, restart_strategy=Once) if is_restarted else CONFIG
    master = JobMaster(job, config, 0)
    started = master.handle(JobStored("j1"), 0)
    assert [type(i) for i in started] == [RequestSlots, StartEnumerator]
    return master


def found(*numbers: int, is_last: bool = True, is_on_demand: bool = False) -> SplitsDiscovered:
    splits = tuple(SourceSplit({"n": n}) for n in numbers)
    return SplitsDiscovered("j1", SOURCE, Discovery(splits, is_last, is_on_demand))


def first_splits(instructions: list[Any]) -> dict[str, list[int] | None]:
    return {
        m.descriptor.execution_id: None
        if m.descriptor.splits is None
        else [p["n"] for p in m.descriptor.splits.positions]
        for m in sent(instructions, DeployTask)
    }


def request(master: JobMaster, execution_id: str, number: int, *returned: int) -> list[Any]:
    subtask = master.graph.find(execution_id)
    assert subtask is not None
    tm = subtask.execution.task_manager_id
    asked = RequestSplits(tm, "j1", execution_id, number, tuple({"n": n} for n in returned))
    return master.handle(SplitsRequested(asked), 50)


def test_tasks_start_once_there_are_slots_and_the_splits_are_known(make_job: MakeJob) -> None:
    for is_found_first in (True, False):
        master = stored(make_job("j1", 2, 1))
        events = [found(1, 2, 3), offer("tm0", "a", "b")]
        once, then = events if is_found_first else reversed(events)
        assert first_splits(master.handle(once, 10)) == {}
        # However long a look takes: there are slots.
        if not is_found_first:
            assert master.handle(Tick(), 100_000) == []
        assert first_splits(master.handle(then, 20)) == {
            "j1-0-0-0": [1, 3], "j1-0-1-0": [2], "j1-1-0-0": None
        }  # fmt: skip


def test_the_end_of_a_job_is_told_to_the_tables_that_it_has_read(make_job: MakeJob) -> None:
    job = make_job("j1", 1, 1)
    master = stored(job)
    discovery = Discovery((SourceSplit({"n": 1}),), is_last=True)
    master.handle(SplitsDiscovered("j1", SOURCE, discovery, {"found": 1}), 10)
    master.handle(offer("tm0", "a"), 20)
    ids = [execution.execution_id for execution in master.graph.executions()]
    for execution_id in ids:
        report(master, execution_id, 0, ExecutionState.RUNNING)
    *_, last = ended = [report(master, execution_id, 1, ExecutionState.FINISHED) for execution_id in ids]
    assert [read for out in ended[:-1] for read in commits(out)] == []
    spec = job.vertices[0].operators[0].spec
    assert isinstance(spec, SourceSpec)
    assert commits(last) == [(ReadTable(spec, {"found": 1}, job.config),)]


def commits(instructions: list[Any]) -> list[tuple[ReadTable, ...]]:
    return [i.read for i in instructions if isinstance(i, CommitSinks)]


def test_a_table_that_cannot_be_read_fails_the_job_with_its_place_in_the_statement(make_job: MakeJob) -> None:
    job = make_job("j1", 1, 1)
    span = Span(3, 8)
    spanned = replace_head(job, span)
    master = stored(spanned)
    ended = master.handle(DiscoveryFailed("j1", SOURCE, MISSING), 10)
    assert StopEnumerators("j1") in ended
    finished = next(i for i in ended if isinstance(i, JobFinished))
    assert finished.status is JobStatus.FAILED
    assert finished.error is not None
    assert (finished.error.message, finished.error.vertex) == ("no such path", job.vertices[0].name)
    assert finished.error.span == span


def replace_head(job: JobGraph, span: Span) -> JobGraph:
    source, *others = job.vertices
    head = msgspec.structs.replace(source.operators[0], span=span)
    source = msgspec.structs.replace(source, operators=(head,))
    return msgspec.structs.replace(job, vertices=(source, *others))


def test_a_reader_that_asks_gets_its_splits_and_one_that_waits_gets_those_found_later(
    make_job: MakeJob,
) -> None:
    master = stored(make_job("j1", 2, 1))
    master.handle(offer("tm0", "a", "b"), 10)
    master.handle(found(1, is_last=False), 20)
    assert sent(request(master, "j1-0-0-0", 1), AssignSplits) == []
    assert sent(request(master, "j1-0-1-0", 1), AssignSplits) == []
    (given,) = sent(master.handle(found(2, is_last=False), 60), AssignSplits)
    assert (given.execution_id, given.number, given.assigned.positions) == ("j1-0-1-0", 1, ({"n": 2},))
    assert sent(request(master, "j1-0-1-0", 1), AssignSplits) == [given]
    foreign = RequestSplits("other#0", "j1", "j1-0-0-0", 1)
    assert master.handle(SplitsRequested(foreign), 70) == []
    assert request(master, "j1-0-0-0", 1, 1) == [GiveBackSplits("j1", SOURCE, [{"n": 1}], 1)]
    assert request(master, "j1-0-0-0", 1, 1) == []


def test_what_a_failed_reader_had_is_read_again_by_its_next_attempt(make_job: MakeJob) -> None:
    master = stored(make_job("j1", 2, 2, ExchangeKind.FORWARD), is_restarted=True)
    master.handle(offer("tm0", "a", "b"), 10)
    master.handle(found(1, 2, 3, 4), 20)
    for execution in list(master.graph.executions()):
        report(master, execution.execution_id, 0, ExecutionState.RUNNING)
    report(master, "j1-0-0-0", 1, ExecutionState.FAILED)
    report(master, "j1-1-0-0", 1, ExecutionState.CANCELED)
    anew = master.handle(Tick(), 500)
    assert first_splits(anew) == {"j1-0-0-1": [1, 3], "j1-1-0-1": None}


def test_a_look_that_failed_is_repeated_when_the_job_restarts(make_job: MakeJob) -> None:
    master = stored(make_job("j1", 1, 1), is_restarted=True)
    master.handle(offer("tm0", "a"), 10)
    master.handle(DiscoveryFailed("j1", SOURCE, MISSING), 20)
    assert master.phase is JobPhase.RESTARTING
    again = master.handle(Tick(), 200)
    assert [i.vertex_id for i in again if isinstance(i, StartEnumerator)] == [SOURCE]
    assert first_splits(again) == {}
    assert first_splits(master.handle(found(1), 210)) == {"j1-0-0-1": [1], "j1-1-0-1": None}


def test_a_look_that_failed_for_another_run_of_the_job_restarts_nothing(make_job: MakeJob) -> None:
    """As one that was begun before a rescale, and is reported behind it."""
    master = stored(make_job("j1", 1, 1), is_restarted=True)
    master.handle(offer("tm0", "a"), 10)
    assert master.handle(DiscoveryFailed("j1", SOURCE, MISSING, run=1), 20) == []
    assert master.phase is JobPhase.SCHEDULING
    assert first_splits(master.handle(found(1), 30)) == {"j1-0-0-0": [1], "j1-1-0-0": None}


def test_the_enumerators_of_a_cancelled_job_are_stopped(make_job: MakeJob) -> None:
    master = stored(make_job("j1", 1, 1))
    assert StopEnumerators("j1") in master.handle(CancelRequested("j1"), 10)
    assert master.handle(found(1), 20) == []
