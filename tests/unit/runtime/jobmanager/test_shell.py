"""JobManager and TaskManager shells on real threads, joined within the process."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from committable_harness import file_of
from kept_checkpoints import KeptCheckpoints
from no_enumerators import NoEnumerators

from sqlstream.errors import ErrorInfo, ExternalError, FailureReason, InternalError, SqlStreamError, UserError
from sqlstream.graph.job_graph import JobGraph, encode_job_graph
from sqlstream.messages.client_rpc import (
    CancelJob,
    ClusterOverviewReply,
    DescribedJobReply,
    JobDetailsReply,
    JobExceptionsReply,
    JobGraphReply,
    JobMetricsReply,
    JobOverviewReply,
    RequestClusterOverview,
    RequestDescribedJob,
    RequestJobDetails,
    RequestJobExceptions,
    RequestJobGraph,
    RequestJobMetrics,
    RequestJobOverview,
    RequestJobStatus,
)
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    DeployTask,
    JobDetails,
    JobMetrics,
    JobStatusReply,
    SinkCommittables,
    TaskDeploymentDescriptor,
    TaskMetrics,
)
from sqlstream.runtime.client_messages import answer_request
from sqlstream.runtime.jobmanager.collaborators import JobStore, KeepNothing
from sqlstream.runtime.jobmanager.events import CancelRequested, EndedJob, SinkCommit
from sqlstream.runtime.jobmanager.instruction_executor import JobManagerServices
from sqlstream.runtime.jobmanager.job_manager import JobManagerConfig
from sqlstream.runtime.jobmanager.resources.provisioning import ProvisioningConfig
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManagerConfig
from sqlstream.runtime.jobmanager.shell import JobManagerShell
from sqlstream.runtime.net.exchange import LocalTransport
from sqlstream.runtime.taskmanager.events import TaskStateChanged
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig
from sqlstream.runtime.taskmanager.shell import TaskExecutorShell
from sqlstream.spi.committable import Committable

MakeJob = Callable[..., JobGraph]
TIMEOUT_S = 60.0


class TasksThatEndAtOnce:
    """A TaskRunner whose tasks do what the job's config says: finish, fail, or wait to be cancelled."""

    def __init__(self) -> None:
        self.report: Callable[[TaskStateChanged], None] = lambda change: None
        self.running = threading.Event()

    def start(self, descriptor: TaskDeploymentDescriptor) -> None:
        id, how = descriptor.execution_id, descriptor.config.get("test.task", "finish")
        metrics = TaskMetrics(id, {}, {o.id: {"numRecordsOut": 2} for o in descriptor.vertex.operators})
        self.report(TaskStateChanged(id, ExecutionState.RUNNING, metrics=metrics))
        if how == "finish":
            files = (SinkCommittables(1, (file_of(id),)),)
            self.report(TaskStateChanged(id, ExecutionState.FINISHED, None, files, metrics))
        elif how == "fail":
            error = ErrorInfo(code="SS5002", message="bad row", reason=FailureReason.USER_DATA)
            self.report(TaskStateChanged(id, ExecutionState.FAILED, error))
        else:
            self.running.set()

    def cancel(self, execution_id: str) -> None:
        self.report(TaskStateChanged(execution_id, ExecutionState.CANCELED))

    def forget_job(self, job_id: str) -> None:
        """Nothing is kept of a job."""

    def metrics(self) -> tuple[TaskMetrics, ...]:
        return ()


class CommitsKept:
    """A Committer that remembers, or cannot."""

    def __init__(self) -> None:
        self.committed: list[Committable] = []
        self.is_full = False

    def commit(
        self, job_id: str, checkpoint_id: int, commits: tuple[SinkCommit, ...], is_last: bool = False
    ) -> None:
        if self.is_full:
            raise ExternalError("SS5001", "disk full")
        self.committed += [c for commit in commits for c in commit.committables]

    def remove_staged(self, job_id: str, staged: Any) -> None: ...

    def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        pass


class NoMoreTaskManagers:
    def request_task_manager(self, resource_id: str) -> None:
        raise ExternalError("SS6006", f"TaskManager {resource_id} could not be started: no room")

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        pass


class Cluster:
    """One JobManager and two TaskManagers of one slot."""

    def __init__(
        self,
        config: JobManagerConfig | None = None,
        transport: LocalTransport | None = None,
        store: JobStore | None = None,
    ) -> None:
        def steady_ms() -> int:
            return time.monotonic_ns() // 1_000_000

        self.clock_set_by_ms = 0
        self.crashes: list[ErrorInfo] = []
        self.committer = CommitsKept()
        self.runners = [TasksThatEndAtOnce(), TasksThatEndAtOnce()]
        transport = transport or LocalTransport()
        self.job_manager = JobManagerShell(
            config or JobManagerConfig(),
            JobManagerServices(
                transport,
                store or KeepNothing(),
                self.committer,
                NoMoreTaskManagers(),
                NoEnumerators(),
                KeptCheckpoints(),
            ),
            steady_ms,
            lambda: steady_ms() + self.clock_set_by_ms,
            self.crashes.append,
        )
        transport.listen("jm", self.job_manager.receive)  # type: ignore[arg-type]
        self.task_managers = []
        for n, runner in enumerate(self.runners):
            config = TaskExecutorConfig(f"tm{n}", f"tm{n}:1", 1)
            shell = TaskExecutorShell(config, "jm", transport, runner, steady_ms, self.crashes.append)
            runner.report = shell.task_state_changed
            transport.listen(f"tm{n}:1", shell.receive)
            self.task_managers.append(shell)
        for shell in (self.job_manager, *self.task_managers):
            shell.start()

    def stop(self) -> None:
        for shell in (*self.task_managers, self.job_manager):
            shell.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.stop()
    assert running.crashes == []


def test_a_job_finishes_and_its_sinks_are_committed(cluster: Cluster, make_job: MakeJob) -> None:
    job_id = cluster.job_manager.submit(make_job("j1", 2, 2))
    assert cluster.job_manager.wait(job_id, TIMEOUT_S) == JobStatusReply("j1", JobStatus.FINISHED)
    assert {c.content["file"] for c in cluster.committer.committed} == {"j1-1-0-0", "j1-1-1-0"}
    assert cluster.job_manager.metrics(job_id).total["numRecordsRead"] == 4
    assert [v.state for v in cluster.job_manager.details(job_id).vertices] == [ExecutionState.FINISHED] * 2


def test_the_first_error_of_a_task_is_the_cause(cluster: Cluster, make_job: MakeJob) -> None:
    cluster.job_manager.submit(make_job("j1", 1, 1, config={"test.task": "fail"}))
    status = cluster.job_manager.wait("j1", TIMEOUT_S)
    assert status.status is JobStatus.FAILED
    assert [e.message for e in cluster.job_manager.exceptions("j1")] == ["bad row"]


def test_a_running_job_is_cancelled(cluster: Cluster, make_job: MakeJob) -> None:
    cluster.job_manager.submit(make_job("j1", 1, 1, config={"test.task": "wait"}))
    assert any(runner.running.wait(TIMEOUT_S / 2) for runner in cluster.runners)
    cluster.job_manager.cancel("j1")
    assert cluster.job_manager.wait("j1", TIMEOUT_S).status is JobStatus.CANCELED


def test_a_commit_that_fails_is_the_cause_of_the_job(cluster: Cluster, make_job: MakeJob) -> None:
    cluster.committer.is_full = True
    cluster.job_manager.submit(make_job("j1"))
    status = cluster.job_manager.wait("j1", TIMEOUT_S)
    assert status.error is not None
    assert (status.error.code, status.error.message) == ("SS5001", "disk full")


def test_nothing_is_left_of_a_submission_that_breaks_off_and_the_next_one_runs(
    cluster: Cluster, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*ignored: object) -> None:
        raise KeyError("a rule")

    manager = cluster.job_manager
    with monkeypatch.context() as patched:
        patched.setattr(manager._job_manager.dispatcher, "on_submit", break_off)
        with pytest.raises(InternalError, match="cannot be run"):
            manager.submit(make_job("j1"))
    assert manager._executor._encoded == {}
    manager.submit(make_job("j1"))
    assert manager.wait("j1", TIMEOUT_S).status is JobStatus.FINISHED


def test_a_job_whose_task_managers_cannot_be_started_fails_with_the_cause(make_job: MakeJob) -> None:
    provisioned = ResourceManagerConfig(provisioning=ProvisioningConfig("child"))
    cluster = Cluster(JobManagerConfig(provisioned))
    try:
        cluster.job_manager.submit(make_job("j1"))
        error = cluster.job_manager.wait("j1", TIMEOUT_S).error
        assert error is not None
        assert (error.code, error.reason) == ("SS6003", FailureReason.NO_RESOURCES)
        assert error.message == (
            "no TaskManager is left and 10 replacements have ended too: "
            "TaskManager child-11 could not be started: no room"
        )
    finally:
        cluster.stop()


def test_jobs_follow_each_other_through_the_same_slots(cluster: Cluster, make_job: MakeJob) -> None:
    for n in range(5):
        cluster.job_manager.submit(make_job(f"j{n}", 2, 2))
    assert {cluster.job_manager.wait(f"j{n}", TIMEOUT_S).status for n in range(5)} == {JobStatus.FINISHED}


def test_requests_as_messages_are_answered(cluster: Cluster, make_job: MakeJob) -> None:
    answer = functools.partial(answer_request, cluster.job_manager)
    cluster.job_manager.submit(make_job("j1"))
    cluster.job_manager.wait("j1", TIMEOUT_S)
    assert answer(RequestJobStatus("j1")) == JobStatusReply("j1", JobStatus.FINISHED)
    manager = cluster.job_manager
    assert answer(RequestJobDetails("j1")) == JobDetailsReply(manager.details("j1"))
    assert answer(RequestDescribedJob("j1")) == DescribedJobReply(manager.details("j1"), make_job("j1"))
    assert answer(RequestJobMetrics("j1")) == JobMetricsReply(manager.metrics("j1"))
    assert answer(RequestJobExceptions("j1")) == JobExceptionsReply(())
    assert answer(RequestJobGraph("j1")) == JobGraphReply(make_job("j1"))
    assert answer(RequestJobOverview()) == JobOverviewReply(manager.overview())
    asked = answer(RequestClusterOverview())
    assert isinstance(asked, ClusterOverviewReply)
    assert sorted(t.task_manager_id for t in asked.task_managers) == ["tm0#0", "tm1#0"]
    with pytest.raises(UserError) as refused:
        answer(CancelJob("j9"))
    assert refused.value.code == "SS6009"
    with pytest.raises(UserError, match="j9"):
        cluster.job_manager.wait("j9", TIMEOUT_S)


def test_a_message_that_cancels_is_answered_with_the_status_and_ends_the_job(
    cluster: Cluster, make_job: MakeJob
) -> None:
    cluster.job_manager.submit(make_job("j1", 3, 1))
    reply = answer_request(cluster.job_manager, CancelJob("j1"))
    assert isinstance(reply, JobStatusReply)
    assert cluster.job_manager.wait("j1", TIMEOUT_S).status is JobStatus.CANCELED
    assert cluster.job_manager.job_graph("j1") == make_job("j1", 3, 1)


def test_whoever_waits_learns_that_the_job_manager_stopped(cluster: Cluster, make_job: MakeJob) -> None:
    cluster.job_manager.submit(make_job("j1", 3, 1))
    with pytest.raises(TimeoutError):
        cluster.job_manager.wait("j1", 0.01)
    cluster.job_manager.stop()
    with pytest.raises(UserError, match="the cluster has ended"):
        cluster.job_manager.wait("j1", TIMEOUT_S)


DAY_MS = 86_400_000


@pytest.mark.parametrize("step_ms", [DAY_MS, -DAY_MS])
def test_setting_the_clock_loses_no_task_manager_and_moves_what_is_shown(
    make_job: MakeJob, step_ms: int
) -> None:
    config = JobManagerConfig(ResourceManagerConfig(heartbeat_interval_ms=20, heartbeat_timeout_ms=5_000))
    cluster = Cluster(config)
    try:
        cluster.job_manager.submit(make_job("j1", 2, 2, config={"test.task": "wait"}))
        assert any(runner.running.wait(TIMEOUT_S / 2) for runner in cluster.runners)
        before = cluster.job_manager.cluster()
        started = cluster.job_manager.details("j1").start_ms
        cluster.clock_set_by_ms = step_ms
        # Several rounds of the loop, heartbeats among them, all behind the step.
        deadline_s = time.monotonic() + TIMEOUT_S
        while cluster.job_manager.cluster()[0].last_heartbeat_ms - step_ms <= before[0].last_heartbeat_ms:
            assert time.monotonic() < deadline_s
        after = cluster.job_manager.cluster()
        assert [t.task_manager_id for t in after] == [t.task_manager_id for t in before]
        assert [t.registered_ms - step_ms for t in after] == pytest.approx(
            [t.registered_ms for t in before], abs=1
        )
        details = cluster.job_manager.details("j1")
        assert (details.status, details.end_ms) == (JobStatus.RUNNING, -1)
        assert details.start_ms - step_ms == pytest.approx(started, abs=1)
        assert cluster.job_manager.overview()[0].start_ms == pytest.approx(details.start_ms, abs=1)
        subtask = details.vertices[0].subtasks[0]
        assert all(abs(ms - step_ms - started) < TIMEOUT_S * 1000 for ms in subtask.timestamps_ms.values())
    finally:
        cluster.stop()
    assert cluster.crashes == []


def test_an_error_of_our_own_in_an_answer_reaches_the_client_as_an_internal_error(
    cluster: Cluster, make_job: MakeJob
) -> None:
    """Whoever asks, waits or comes later gets an error that has a code; none is left waiting."""
    manager = cluster.job_manager
    manager.submit(make_job("j1", 3, 1))
    waited = waiting(lambda: manager.wait("j1", TIMEOUT_S))
    with pytest.raises(InternalError, match="broke off: ZeroDivisionError"):
        manager._ask(lambda dispatcher: 1 // 0)
    assert "ZeroDivisionError" in waited().message
    with pytest.raises(InternalError, match="broke off"):
        manager.status("j1")
    with pytest.raises(InternalError, match="broke off") as refused:
        answer_request(manager, RequestJobStatus("j1"))
    assert refused.value.code == "SS9001"
    assert [error.message for error in cluster.crashes] == [
        "ZeroDivisionError: integer division or modulo by zero"
    ]
    cluster.crashes.clear()


def test_an_error_of_our_own_between_answers_reaches_the_clients_as_an_internal_error(
    cluster: Cluster, make_job: MakeJob
) -> None:
    manager = cluster.job_manager
    manager.submit(make_job("j1", 3, 1))
    waited = waiting(lambda: manager.wait("j1", TIMEOUT_S))
    manager._loop.put(object())
    assert "broke off" in waited().message
    with pytest.raises(InternalError, match="broke off"):
        manager.overview()
    assert len(cluster.crashes) == 1
    cluster.crashes.clear()


def test_a_question_that_was_queued_when_the_job_manager_stopped_is_answered_soon(cluster: Cluster) -> None:
    manager = cluster.job_manager
    is_asked, goes_on = threading.Event(), threading.Event()

    def hold(dispatcher: Any) -> None:
        is_asked.set()
        goes_on.wait(TIMEOUT_S)

    holder = threading.Thread(target=lambda: manager._ask(hold), daemon=True)
    holder.start()
    assert is_asked.wait(TIMEOUT_S)
    asked = waiting(lambda: manager.overview())
    while manager._loop._queue.empty():
        time.sleep(0.001)
    stopper = threading.Thread(target=manager.stop, daemon=True)
    stopper.start()
    while not manager._loop._is_stopped:
        time.sleep(0.001)
    goes_on.set()
    assert asked().code == "SS6012"
    stopper.join(TIMEOUT_S)
    holder.join(TIMEOUT_S)


def waiting(ask: Callable[[], Any]) -> Callable[[], SqlStreamError]:
    """Ask on a thread of its own; what is returned waits for the error that ends it."""
    errors: list[SqlStreamError] = []

    def run() -> None:
        try:
            ask()
        except SqlStreamError as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end() -> SqlStreamError:
        thread.join(60)
        assert errors, "nothing ended the wait"
        return errors[0]

    return end


def test_the_end_of_a_job_comes_without_a_thread_that_waits(cluster: Cluster, make_job: MakeJob) -> None:
    job_id = cluster.job_manager.submit(make_job("j1", 2, 2))
    end = cluster.job_manager.end_of(job_id)
    assert end.result(TIMEOUT_S) == JobStatusReply("j1", JobStatus.FINISHED)
    assert cluster.job_manager._unanswered == set()
    with pytest.raises(UserError, match="not known"):
        cluster.job_manager.end_of("j9").result(TIMEOUT_S)


def test_a_job_manager_that_stops_answers_who_awaits_the_end_of_a_job(
    cluster: Cluster, make_job: MakeJob
) -> None:
    cluster.job_manager.submit(make_job("j1", 3, 1))
    end = cluster.job_manager.end_of("j1")
    cluster.job_manager.stop()
    assert end.result(0).status is JobStatus.SUSPENDED


class SlowStore(KeepNothing):
    """A store that keeps a job only once it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        self.may_end.wait(TIMEOUT_S)


def test_a_submission_is_answered_once_the_job_is_stored(cluster: Cluster, make_job: MakeJob) -> None:
    store = SlowStore()
    cluster.job_manager._executor._store = store
    answers: list[str] = []
    submitting = threading.Thread(
        target=lambda: answers.append(cluster.job_manager.submit(make_job("j1", 1, 1))), daemon=True
    )
    submitting.start()
    submitting.join(0.3)
    assert answers == []
    store.may_end.set()
    submitting.join(TIMEOUT_S)
    assert answers == ["j1"]


class RecordingStore(KeepNothing):
    """Notes the bytes of each job that it is given."""

    def __init__(self) -> None:
        self.encoded: dict[str, bytes] = {}

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        assert job_graph.job_id not in self.encoded
        self.encoded[job_graph.job_id] = encoded


def test_the_store_is_given_the_bytes_that_a_job_was_encoded_to(cluster: Cluster, make_job: MakeJob) -> None:
    store = RecordingStore()
    cluster.job_manager._executor._store = store
    first, second = make_job("j1"), make_job("j2")
    encoded = encode_job_graph(first)
    for _ in range(2):
        cluster.job_manager.submit(first, encoded)
        cluster.job_manager.submit(second)
    assert store.encoded["j1"] is encoded
    assert store.encoded["j2"] == encode_job_graph(second)
    assert cluster.job_manager._executor._encoded == {}


def test_a_wait_that_times_out_leaves_nothing_behind(cluster: Cluster, make_job: MakeJob) -> None:
    cluster.job_manager.submit(make_job("j1", 3, 1))
    with pytest.raises(TimeoutError):
        cluster.job_manager.wait("j1", 0.01)
    cluster.job_manager.status("j1")
    assert cluster.job_manager._ends_awaited["j1"] == []
    assert cluster.job_manager._unanswered == set()


def test_a_time_is_shown_the_same_each_time(cluster: Cluster, make_job: MakeJob) -> None:
    cluster.job_manager.submit(make_job("j1", 3, 1))
    shown = set()
    for step_ms in (0, 1, -1, 2):
        cluster.clock_set_by_ms = step_ms
        shown.add(cluster.job_manager.details("j1").start_ms)
    assert len(shown) == 1


class CannotDeploy(LocalTransport):
    """A transport that cannot encode what tells of the job `job_id`."""

    job_id = ""

    def send(self, address: str, message: Any) -> None:
        if isinstance(message, DeployTask) and message.descriptor.job_id == self.job_id:
            raise OverflowError("can't serialize ints >= 2**64")
        super().send(address, message)


def test_a_job_whose_messages_cannot_be_sent_fails_alone(
    make_job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    transport = CannotDeploy()
    transport.job_id = "poison"
    cluster = Cluster(transport=transport)
    manager = cluster.job_manager
    try:
        manager.submit(make_job("poison"))
        reply = manager.wait("poison", TIMEOUT_S)
        assert reply.status is JobStatus.FAILED
        assert reply.error is not None
        assert (reply.error.code, "OverflowError" in reply.error.message) == ("SS9001", True)
        assert reply.error.detail, "its story is missing"
        assert "OverflowError" in caplog.text
        # Its slots are free again, and the JobManager lives.
        manager.submit(make_job("j1", 2, 2))
        assert manager.wait("j1", TIMEOUT_S).status is JobStatus.FINISHED
        assert {entry.status for entry in manager.overview()} == {JobStatus.FAILED, JobStatus.FINISHED}
    finally:
        cluster.stop()
    assert cluster.crashes == []


class KeepsEnds(KeepNothing):
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep_end(self, request: Any) -> None:
        self.kept.append(request)


def test_the_cancellation_of_a_job_that_waits_for_another_process_is_left_to_it(make_job: MakeJob) -> None:
    store = KeepsEnds()
    cluster = Cluster(store=store)
    for job_id, status in (("waits", JobStatus.SUSPENDED), ("over", JobStatus.FINISHED)):
        details = JobDetails(job_id, job_id, status, 0, 0, {status.value: 0}, ())
        cluster.job_manager.remember(
            [EndedJob(make_job(job_id), details, JobMetrics(job_id, status, {}, {}))]
        )
        cluster.job_manager.cancel(job_id)
    cluster.stop()
    assert store.kept == [CancelRequested("waits")]


class BlamesJobs(KeepNothing):
    def __init__(self) -> None:
        self.blamed: list[str] = []

    def blame(self, job_id: str) -> None:
        self.blamed.append(job_id)


def test_the_job_that_was_dealt_with_when_the_job_manager_ended_is_noted(make_job: MakeJob) -> None:
    store = BlamesJobs()
    cluster = Cluster(store=store)
    manager = cluster.job_manager
    try:
        manager.submit(make_job("j1", config={"test.task": "wait"}))
        waited = waiting(lambda: manager.wait("j1", TIMEOUT_S))
        manager._job_manager.resource_manager.on_release_slots = None  # type: ignore[assignment,method-assign]
        manager.cancel("j1")
        assert "broke off" in waited().message
    finally:
        cluster.stop()
    assert store.blamed == ["j1"]
    assert len(cluster.crashes) == 1
