"""Submission, questions and the record of jobs that are over."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from sqlstream.client.sessions.served_files import inferring_job
from sqlstream.errors import ErrorInfo, FailureReason, JobError, UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.scaling import Scaling
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.dispatcher import PLANNING_JOBS_MAX, check_job_graph
from sqlstream.runtime.jobmanager.events import (
    CancelRequested,
    JobFinished,
    JobStored,
    JobStoreFailed,
    RemoveJob,
    RequestTaskManagers,
    StoreJob,
    SubmitRequested,
    Tick,
)
from sqlstream.runtime.jobmanager.job_manager import JobManager, JobManagerConfig
from sqlstream.runtime.jobmanager.resources.provisioning import ProvisioningConfig
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManagerConfig
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT

MakeJob = Callable[..., JobGraph]
DISK_FULL = ErrorInfo(code="SS5001", message="disk full", reason=FailureReason.EXTERNAL)


def test_a_job_is_stored_before_it_runs(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig(ResourceManagerConfig(provisioning=ProvisioningConfig("tm"))))
    job = make_job()
    assert manager.handle(SubmitRequested(job), 0) == [StoreJob(job)]
    assert manager.dispatcher.status("j1").status is JobStatus.INITIALIZING
    assert manager.handle(JobStored("j1"), 1) == [RequestTaskManagers(("tm-1",))]
    assert manager.dispatcher.status("j1").status is JobStatus.RUNNING


def test_submitting_a_job_twice_runs_it_once(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig())
    job = make_job()
    manager.handle(SubmitRequested(job), 0)
    manager.dispatcher.check_submission(job)
    assert manager.handle(SubmitRequested(job), 1) == []
    with pytest.raises(UserError) as caught:
        manager.dispatcher.check_submission(make_job("j1", 2, 2))
    assert caught.value.code == "SS6008"


def test_submitting_a_job_again_that_was_rescaled_does_nothing(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig())
    first, other = (
        msgspec.structs.replace(
            make_job("j1", n, n, config={"parallelism.default": str(n)}), scaling=Scaling(n, ())
        )
        for n in (1, 2)
    )
    manager.handle(SubmitRequested(other), 0)
    manager.dispatcher.check_submission(first)
    assert manager.handle(SubmitRequested(first), 1) == []
    with pytest.raises(UserError, match="belongs to another job"):
        manager.dispatcher.check_submission(msgspec.structs.replace(first, name="insert into another table"))


def test_a_job_that_cannot_be_stored_fails_without_running(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig())
    manager.handle(SubmitRequested(make_job()), 0)
    out = manager.handle(JobStoreFailed("j1", DISK_FULL), 1)
    assert JobFinished("j1", JobStatus.FAILED, DISK_FULL) in out
    assert manager.dispatcher.status("j1").error == DISK_FULL


def test_a_job_cancelled_while_it_is_stored_never_starts(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig())
    manager.handle(SubmitRequested(make_job()), 0)
    out = manager.handle(CancelRequested("j1"), 1)
    finished, removed = (i for i in out if isinstance(i, JobFinished | RemoveJob))
    assert finished == JobFinished("j1", JobStatus.CANCELED, None)
    assert (removed.job_id, removed.ended.details.status) == ("j1", JobStatus.CANCELED)
    assert manager.handle(JobStored("j1"), 2) == []


def test_the_record_keeps_the_newest_jobs(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig(archive_max=2))
    for n in range(3):
        manager.handle(SubmitRequested(make_job(f"j{n}")), n)
        manager.handle(CancelRequested(f"j{n}"), n)
    assert [(j.job_id, j.status, j.tasks) for j in manager.dispatcher.overview()] == [
        ("j1", JobStatus.CANCELED, {"CANCELED": 2}),
        ("j2", JobStatus.CANCELED, {"CANCELED": 2}),
    ]
    with pytest.raises(UserError, match='job "j0" is not known'):
        manager.dispatcher.status("j0")


def test_jobs_are_forgotten_some_time_after_their_ends_unless_they_wait_for_the_next_server(
    make_job: MakeJob,
) -> None:
    manager = JobManager(JobManagerConfig(archive_ms=1000))
    for n in range(3):
        manager.handle(SubmitRequested(make_job(f"j{n}")), n)
        manager.handle(CancelRequested(f"j{n}"), n)
    waiting = manager.dispatcher.archive["j0"]
    details = msgspec.structs.replace(waiting.details, status=JobStatus.SUSPENDED)
    manager.dispatcher.archive["j0"] = msgspec.structs.replace(waiting, details=details)
    manager.handle(Tick(), 1000)
    assert [job.job_id for job in manager.dispatcher.overview()] == ["j0", "j1", "j2"]
    manager.handle(Tick(), 1001)
    assert [job.job_id for job in manager.dispatcher.overview()] == ["j0", "j2"]
    manager.handle(Tick(), 5000)
    assert [job.job_id for job in manager.dispatcher.overview()] == ["j0"]


def test_graphs_that_no_scheduler_could_run_are_refused(make_job: MakeJob) -> None:
    dispatcher = JobManager(JobManagerConfig()).dispatcher
    job = make_job("j1", 1, 2, ExchangeKind.FORWARD)
    with pytest.raises(JobError, match="FORWARD edge joins vertices of different parallelism"):
        dispatcher.check_submission(job)
    with pytest.raises(JobError, match="no vertices"):
        dispatcher.check_submission(msgspec.structs.replace(job, vertices=(), edges=()))
    for key in ("restart-strategy.type", "execution.runtime-mode"):
        with pytest.raises(UserError, match=key):
            dispatcher.check_submission(make_job(config={key: "sometimes"}))


def test_graphs_with_a_hole_are_refused_with_what_is_missing(make_job: MakeJob) -> None:
    replace = msgspec.structs.replace
    job = make_job("j1", 2, 2)
    source, sink = job.vertices
    (edge,) = job.edges
    broken = {
        "two of its vertices have one id": replace(job, vertices=(source, sink, sink)),
        "a vertex has no subtasks": replace(job, vertices=(source, replace(sink, parallelism=0))),
        "a vertex has more subtasks than key groups": replace(
            job, vertices=(source, replace(sink, max_parallelism=1))
        ),
        "two of its edges have one id": replace(job, edges=(edge, edge)),
        "an edge leads to a vertex that is not there": replace(job, edges=(replace(edge, target="9"),)),
    }
    broken_source = replace(job, edges=(replace(edge, source="9"),))
    for problem, graph in (
        *broken.items(),
        ("an edge leads to a vertex that is not there", broken_source),
    ):
        with pytest.raises(JobError) as caught:
            check_job_graph(graph)
        assert (caught.value.code, caught.value.reason) == ("SS6010", FailureReason.DEPLOYMENT_FAILED)
        assert caught.value.message == f'job "insert j1" cannot run: {problem}'
    check_job_graph(job)
    uneven = make_job("j1", 2, 1, ExchangeKind.FORWARD)
    hashed = replace(edge, id=edge.id + 1)
    with pytest.raises(JobError, match="a FORWARD edge joins vertices of different parallelism"):
        check_job_graph(replace(uneven, edges=(hashed, *uneven.edges)))


def test_a_job_wider_than_the_cluster_can_ever_be_is_refused_at_once(make_job: MakeJob) -> None:
    dispatcher = JobManager(JobManagerConfig(slots_max=2)).dispatcher
    dispatcher.check_submission(make_job("j1", 2, 1))
    with pytest.raises(JobError, match="needs 3 slots, the cluster has at most 2") as caught:
        dispatcher.check_submission(make_job("j1", 2, 3))
    assert caught.value.reason is FailureReason.NO_RESOURCES


def test_a_job_waits_for_slots_as_long_as_its_own_settings_say(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig())
    manager.handle(SubmitRequested(make_job(config={"slot.request.timeout": "7 s"})), 0)
    manager.handle(JobStored("j1"), 1_000)
    manager.handle(Tick(), 7_999)
    assert manager.dispatcher.status("j1").status is JobStatus.RUNNING
    manager.handle(Tick(), 8_000)
    status = manager.dispatcher.status("j1")
    assert status.status is JobStatus.FAILED
    assert status.error is not None
    assert "got 0 within 7 s" in status.error.message


def test_a_task_is_given_up_when_its_task_manager_should_have_ended_itself_and_been_missed(
    make_job: MakeJob,
) -> None:
    """task.cancellation.timeout is the TaskManager's; behind it, heartbeat.timeout is what it takes to miss one."""
    dispatcher = JobManager(JobManagerConfig(ResourceManagerConfig(heartbeat_timeout_ms=3_000))).dispatcher
    dispatcher.on_submit(make_job("j1", config={"task.cancellation.timeout": "20 s"}), 0)
    dispatcher.on_submit(make_job("j2"), 0)
    assert dispatcher.masters["j1"].config.cancellation_timeout_ms == 23_000
    assert dispatcher.masters["j2"].config.cancellation_timeout_ms == 180_000 + 3_000


def test_queries_push_no_other_job_out_of_the_record(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig(archive_max=4))

    def end(job: JobGraph) -> None:
        manager.handle(SubmitRequested(job), 0)
        manager.handle(CancelRequested(job.job_id), 0)

    end(make_job("insert"))
    for n in range(9):
        end(as_query(make_job(f"q{n}")))
    assert [j.job_id for j in manager.dispatcher.overview()] == ["insert", "q6", "q7", "q8"]


def test_queries_within_their_half_of_the_record_are_kept(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig(archive_max=4))
    for job in (as_query(make_job("q0")), as_query(make_job("q1")), *(make_job(f"i{n}") for n in range(3))):
        manager.handle(SubmitRequested(job), 0)
        manager.handle(CancelRequested(job.job_id), 0)
    assert [j.job_id for j in manager.dispatcher.overview()] == ["q0", "q1", "i1", "i2"]


def test_what_statements_ask_while_they_are_planned_pushes_no_query_out_of_the_record(
    make_job: MakeJob,
) -> None:
    manager = JobManager(JobManagerConfig(archive_max=50))
    asking = [inferring_job({"connector": "filesystem", "path": "a.csv"}, f"a{n}", {}) for n in range(60)]
    for job in (as_query(make_job("query")), *asking):
        manager.handle(SubmitRequested(job), 0)
        manager.handle(CancelRequested(job.job_id), 0)
    kept = [f"a{n}" for n in range(60 - PLANNING_JOBS_MAX, 60)]
    assert [j.job_id for j in manager.dispatcher.overview()] == ["query", *kept]


def test_the_graph_of_a_job_is_known_while_it_lives_and_when_it_has_ended(make_job: MakeJob) -> None:
    manager = JobManager(JobManagerConfig())
    live, ended = make_job("live"), make_job("ended")
    for job in (live, ended):
        manager.handle(SubmitRequested(job), 0)
    manager.handle(CancelRequested("ended"), 1)
    assert manager.dispatcher.job_graph("live") is live
    assert manager.dispatcher.job_graph("ended") is ended
    with pytest.raises(UserError, match='job "j9" is not known'):
        manager.dispatcher.job_graph("j9")


def as_query(job: JobGraph) -> JobGraph:
    """The job with a sink whose rows go to the client."""
    first, *others = job.vertices
    operator = first.operators[0]
    sink = SinkSpec("result", COLLECT, {}, operator.output_schema)
    operators = (*first.operators, msgspec.structs.replace(operator, id=99, spec=sink))
    return msgspec.structs.replace(
        job, vertices=(msgspec.structs.replace(first, operators=operators), *others)
    )
