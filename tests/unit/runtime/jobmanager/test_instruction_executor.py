"""What is done for each instruction, on which thread, and what is reported of it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kept_checkpoints import KeptCheckpoints
from msgspec.structs import replace
from no_enumerators import NoEnumerators

from sqlstream.errors import ErrorInfo, ExternalError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.dispatcher import Dispatcher
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CancelRequested,
    CommitSinks,
    GiveBackSplits,
    JobFinished,
    JobStored,
    JobStoreFailed,
    Noted,
    ReadTable,
    ReleaseTaskManager,
    RemoveCheckpoints,
    RequestTaskManagers,
    SavepointRequested,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    StartEnumerator,
    StopEnumerators,
    StopGivenUp,
    StoreJob,
    TaskManagerExited,
)
from sqlstream.runtime.jobmanager.instruction_executor import InstructionExecutor, JobManagerServices
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.net.exchange import LocalTransport
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec

MakeJob = Callable[..., JobGraph]
TIMEOUT_S = 60.0


class Outside:
    """The store, the committer and the provider of one test. Calls whose name is in `broken` raise, and all of them wait
    until they may `go_on`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.broken: set[str] = set()
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = threading.Semaphore(0)
        self.path_of_kept = ""

    def _called(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        self.begun.release()
        self.go_on.wait(TIMEOUT_S)
        if name in self.broken:
            raise ExternalError("SS5001", f"could not {name}")
        self.calls.append((f"{name} done", *arguments))

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        self._called("put", job_graph.job_id, encoded)

    def remove(self, job_id: str, ended: Any) -> None:
        self._called("remove", job_id, ended.details.start_ms)

    def mark_ending(self, job_id: str, end: JobStatus, error: ErrorInfo | None) -> None:
        self._called("mark", job_id, end, error)

    def keep_end(self, request: CancelRequested | SavepointRequested) -> None:
        self._called("keep end", request)

    def forget_end(self, job_id: str) -> None:
        self._called("forget end", job_id)

    def blame(self, job_id: str) -> None: ...

    def kept_file(self, job_id: str) -> str:
        return self.path_of_kept

    def commit(self, job_id: str, checkpoint_id: int, commits: Any, is_last: bool = False) -> None:
        self._called("commit", job_id)

    def remove_staged(self, job_id: str, staged: Any) -> None: ...

    def abort(self, job_id: str, commits: Any) -> None:
        self._called("abort", job_id)

    def request_task_manager(self, resource_id: str) -> None:
        self._called("request", resource_id)

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        self._called("release", resource_id, is_lost)


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def reports() -> list[Any]:
    return []


@pytest.fixture
def checkpoints() -> KeptCheckpoints:
    return KeptCheckpoints()


@pytest.fixture
def executor(
    outside: Outside, reports: list[Any], checkpoints: KeptCheckpoints
) -> Iterator[InstructionExecutor]:
    services = JobManagerServices(LocalTransport(), outside, outside, outside, NoEnumerators(), checkpoints)
    made = InstructionExecutor(services, reports.append, lambda ms: ms + 1_000)
    yield made
    outside.go_on.set()
    made.stop()


def failed(name: str) -> ErrorInfo:
    return ErrorInfo.of(ExternalError("SS5001", f"could not {name}"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_what_has_happened_is_logged_and_a_process_without_a_log_prints_nothing(
    executor: InstructionExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        executor.carry_out(Noted("1 of 2 tasks restart in 1 s", "j1"))
        executor.carry_out(Noted("2 tasks begin anew", is_warning=False))
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("WARNING", "1 of 2 tasks restart in 1 s"),
        ("INFO", "2 tasks begin anew"),
    ]
    assert logging.getLogger("sqlstream.runtime.jobmanager.notes").handlers, (
        "logging prints warnings that nobody handles"
    )


def test_each_outcome_is_reported(
    executor: InstructionExecutor, outside: Outside, reports: list[Any], make_job: MakeJob
) -> None:
    for expected_job, expected_commit, expected_exit in (
        (JobStored("j1"), SinksCommitted("j1", 7), None),
        (
            JobStoreFailed("j1", failed("put")),
            SinksCommitFailed("j1", 7, failed("commit")),
            TaskManagerExited("tm-1", failed("request")),
        ),
    ):
        executor.expect_job("j1", b"graph")
        executor.carry_out(StoreJob(make_job("j1")))
        executor.carry_out(CommitSinks("j1", 7, ()))
        executor.carry_out(AbortSinks("j1", ()))
        executor.carry_out(RequestTaskManagers(("tm-1",)))
        expected = [expected_job, expected_commit, SinksAborted("j1"), expected_exit]
        expected = [report for report in expected if report is not None]
        wait_for(lambda expected=expected: len(reports) >= len(expected))  # type: ignore[misc]
        # What succeeds is not reported by all.
        wait_for(lambda: ("request done", "tm-1") in outside.calls)
        assert sorted(map(repr, reports)) == sorted(map(repr, expected))
        reports.clear()
        outside.broken = {"put", "commit", "abort", "request"}
    assert ("put", "j1", b"graph") in outside.calls


def test_a_job_that_does_not_end_well_is_marked_before_its_output_is_removed(
    executor: InstructionExecutor, outside: Outside, reports: list[Any]
) -> None:
    cause = ErrorInfo("SS5001", "disk full")
    for instruction in (AbortSinks("j1", ()), AbortSinks("j2", (), JobStatus.FAILED, cause)):
        executor.carry_out(instruction)
    wait_for(lambda: len(reports) == 2)
    called = [call for call in outside.calls if "done" not in call[0]]
    assert sorted(called, key=lambda call: call[1]) == [
        ("abort", "j1"), ("mark", "j2", JobStatus.FAILED, cause), ("abort", "j2")
    ]  # fmt: skip


def test_jobs_are_stored_and_task_managers_requested_one_after_the_other(
    executor: InstructionExecutor, outside: Outside, make_job: MakeJob
) -> None:
    outside.go_on.clear()
    for job_id in ("j1", "j2"):
        executor.expect_job(job_id, b"")
        executor.carry_out(StoreJob(make_job(job_id)))
    executor.carry_out(RequestTaskManagers(("tm-1", "tm-2")))
    executor.carry_out(ReleaseTaskManager("tm-1", is_lost=True))
    for _ in range(2):
        assert outside.begun.acquire(timeout=TIMEOUT_S)
    # Both threads wait: a third call would need a thread more.
    assert not outside.begun.acquire(timeout=0.05)
    outside.go_on.set()
    wait_for(lambda: len(outside.calls) == 10)
    assert [c for c in outside.calls if c[0].startswith("put")] == [
        ("put", "j1", b""),
        ("put done", "j1", b""),
        ("put", "j2", b""),
        ("put done", "j2", b""),
    ]
    assert [c[:2] for c in outside.calls if c[0].startswith("re")] == [
        ("request", "tm-1"),
        ("request done", "tm-1"),
        ("request", "tm-2"),
        ("request done", "tm-2"),
        ("release", "tm-1"),
        ("release done", "tm-1"),
    ]
    assert ("release", "tm-1", True) in outside.calls


def test_what_is_kept_of_an_ended_job_has_times_of_the_wall_clock(
    executor: InstructionExecutor, outside: Outside, make_job: MakeJob
) -> None:
    dispatcher = Dispatcher(JobMasterConfig())
    dispatcher.on_submit(make_job("j1"), 5)
    (removal,) = dispatcher.on_finished(JobFinished("j1", JobStatus.FINISHED, None), 0)
    executor.carry_out(removal)
    wait_for(lambda: ("remove done", "j1", 1_005) in outside.calls)


def test_checkpoints_are_removed_when_the_job_is_and_stay_with_one_that_is_still_kept(
    executor: InstructionExecutor,
    outside: Outside,
    checkpoints: KeptCheckpoints,
    make_job: MakeJob,
    tmp_path: Path,
) -> None:
    dispatcher = Dispatcher(JobMasterConfig())

    def end(job_id: str) -> None:
        dispatcher.on_submit(make_job(job_id), 5)
        (removal,) = dispatcher.on_finished(JobFinished(job_id, JobStatus.FINISHED, None), 0)
        executor.carry_out(replace(removal, removals=(RemoveCheckpoints(job_id, f"/c/{job_id}", {}),)))

    outside.broken = {"remove"}
    end("failed")
    wait_for(lambda: ("remove", "failed", 1_005) in outside.calls)
    outside.broken = set()
    outside.path_of_kept = str(tmp_path)
    end("suspended")
    wait_for(lambda: ("remove done", "suspended", 1_005) in outside.calls)
    executor._store_thread.submit(setattr, outside, "path_of_kept", "").result(TIMEOUT_S)
    outside.go_on.clear()
    end("j1")
    wait_for(lambda: ("remove", "j1", 1_005) in outside.calls)
    assert checkpoints.calls == []
    outside.go_on.set()
    executor.stop()
    assert checkpoints.calls == [("remove_all", "/c/j1")]


def test_a_failure_that_no_job_depends_on_is_logged(
    executor: InstructionExecutor,
    outside: Outside,
    reports: list[Any],
    make_job: MakeJob,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outside.broken = {"release", "remove", "abort"}
    dispatcher = Dispatcher(JobMasterConfig())
    dispatcher.on_submit(make_job("j1"), 5)
    executor.carry_out(*dispatcher.on_finished(JobFinished("j1", JobStatus.FINISHED, None), 0))
    executor.carry_out(ReleaseTaskManager("tm-1", is_lost=False))
    executor.carry_out(AbortSinks("j1", ()))
    wait_for(lambda: len(caplog.records) == 3)
    executor.stop()
    assert sorted(r.getMessage().rpartition(" could not ")[2] for r in caplog.records) == [
        "abort",
        "release",
        "remove",
    ]
    assert [r.exc_info for r in caplog.records] == [None] * 3
    assert reports == [SinksAborted("j1")]


def test_a_stop_completes_the_commits_under_way_and_begins_nothing_else(outside: Outside) -> None:
    services = JobManagerServices(
        LocalTransport(), outside, outside, outside, NoEnumerators(), KeptCheckpoints()
    )
    executor = InstructionExecutor(services, lambda event: None, lambda ms: ms)
    outside.go_on.clear()
    executor.carry_out(RequestTaskManagers(("tm-1", "tm-2")))
    for number in range(8):
        executor.carry_out(CommitSinks(f"j{number}", 7, ()))
    # One request and as many commits as there are threads for.
    wait_for(lambda: len(outside.calls) == 5)
    stopping = threading.Thread(target=executor.stop, daemon=True)
    stopping.start()
    stopping.join(0.05)
    assert stopping.is_alive()
    outside.go_on.set()
    stopping.join(TIMEOUT_S)
    assert not stopping.is_alive()
    wait_for(lambda: ("request done", "tm-1") in outside.calls)
    executor._provider_thread.shutdown(wait=True)
    names = [call[0] for call in outside.calls]
    assert (names.count("commit"), names.count("commit done"), names.count("request")) == (4, 4, 1)


class Enumerators(NoEnumerators):
    """Enumerators that note what they are asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def start(self, source: StartEnumerator, report: Any) -> None:
        self.asked.append((source, report))

    def give_back(self, returned: GiveBackSplits) -> None:
        self.asked.append(returned)

    def on_finished(self, job_id: str, read: tuple[ReadTable, ...]) -> None:
        self.asked.append(read)

    def stop_job(self, job_id: str) -> None:
        self.asked.append(job_id)


def test_enumerators_are_started_given_back_what_was_not_read_and_stopped(
    outside: Outside, reports: list[Any], checkpoints: KeptCheckpoints
) -> None:
    enumerators, report = Enumerators(), reports.append
    services = JobManagerServices(LocalTransport(), outside, outside, outside, enumerators, checkpoints)
    executor = InstructionExecutor(services, report, lambda ms: ms)
    start = StartEnumerator("j1", "v1", SourceSpec("t", "connector", {}, Schema(()), ()), 1, {})
    returned = GiveBackSplits("j1", "v1", [{"path": "a"}], 1)
    for instruction in (start, returned, StopEnumerators("j1")):
        executor.carry_out(instruction)
    executor.stop()
    assert enumerators.asked == [(start, report), returned, "j1"]


@pytest.mark.parametrize("broken", [(), ("commit",)])
def test_tables_are_told_that_they_are_read_when_all_is_committed_and_before_the_job_has_finished(
    outside: Outside, checkpoints: KeptCheckpoints, broken: tuple[str, ...]
) -> None:
    outside.broken.update(broken)
    enumerators, reports = Enumerators(), queue.Queue[Any]()
    services = JobManagerServices(LocalTransport(), outside, outside, outside, enumerators, checkpoints)
    told_before: list[list[object]] = []

    def report(event: Any) -> None:
        told_before.append(list(enumerators.asked))
        reports.put(event)

    executor = InstructionExecutor(services, report, lambda ms: ms)
    read = (ReadTable(SourceSpec("t", "connector", {}, Schema(()), ()), {}, {}),)
    executor.carry_out(CommitSinks("j1", 7, (), True, read))
    reports.get(timeout=TIMEOUT_S)
    executor.stop()
    assert told_before == [[] if broken else [read]]


def test_an_end_is_stored_before_whoever_asks_for_it_is_answered(
    executor: InstructionExecutor, outside: Outside
) -> None:
    outside.go_on.clear()
    asking = threading.Thread(target=executor.keep_end, args=(CancelRequested("j1"),))
    asking.start()
    assert outside.begun.acquire(timeout=TIMEOUT_S)
    assert asking.is_alive()
    outside.go_on.set()
    asking.join(TIMEOUT_S)
    assert outside.calls[-1] == ("keep end done", CancelRequested("j1"))
    executor.carry_out(StopGivenUp("j1"))
    wait_for(lambda: ("forget end done", "j1") in outside.calls)


def test_a_job_ends_also_when_the_store_cannot_say_so(
    executor: InstructionExecutor, outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    outside.broken.add("keep end")
    executor.keep_end(CancelRequested("j1"))
    assert "the end of the job is not stored" in caplog.text
