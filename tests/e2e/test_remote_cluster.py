"""A client in another process than the JobManager: the same answers over the control protocol."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from pyarrow import flight

from sqlstream.client.clusters import remote_cluster
from sqlstream.client.clusters.remote_cluster import RemoteClusterClient
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import ExternalError, UserError
from sqlstream.messages.client_rpc import ClientAttached
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply, encode_message
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.runtime.net.flight import ATTACH

WAIT_S = 60
BIDS = "CREATE TABLE bids (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1'"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(task_managers=1) as running:
        yield running


@pytest.fixture
def remote(cluster: EmbeddedCluster) -> Iterator[RemoteClusterClient]:
    with contextlib.closing(RemoteClusterClient(cluster.address, cluster.token)) as client:
        yield client


def run(session: Session, text: str) -> Job:
    """Run a script; its last statement is a query or INSERT."""
    outcomes = [session.execute(statement) for statement in parse_script(text)]
    assert isinstance(outcomes[-1], Job)
    return outcomes[-1]


def bounded(rows: int) -> str:
    return f"{BIDS}, 'fields.n.end' = '{rows}', 'rows-per-second' = '{10 * rows}');"


def endless(rate: int) -> str:
    return f"{BIDS}, 'fields.n.end' = '1000000000', 'rows-per-second' = '{rate}');"


def test_a_query_over_the_control_protocol_gives_the_rows_of_one_in_process(
    remote: RemoteClusterClient,
) -> None:
    text = bounded(200_000) + "SELECT n % 7 AS k, COUNT(*) AS c, SUM(n) AS s FROM bids GROUP BY n % 7;"
    job = run(Session(remote), text)
    assert job.schema is not None
    from sqlstream.client.rendering.render import final_rows

    rows = sorted(tuple(row.values()) for b in final_rows(job.schema, job.rows()) for row in b.to_pylist())
    assert job.wait(WAIT_S)[0] is JobStatus.FINISHED
    assert job.metrics().total["numRecordsRead"] == 200_000
    with local_session() as session:
        local = run(session, text)
        assert local.schema is not None
        batches = final_rows(local.schema, local.rows())
        assert rows == sorted(tuple(row.values()) for b in batches for row in b.to_pylist())


def test_the_end_of_a_job_is_told_without_a_thread_that_waits(remote: RemoteClusterClient) -> None:
    replies: list[JobStatusReply] = []
    ended = threading.Event()
    text = (
        bounded(1000)
        + "CREATE TABLE gone (n BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO gone SELECT n FROM bids;"
    )
    job = run(Session(remote), text)
    job.when_ended(lambda reply: (replies.append(reply), ended.set()))
    assert ended.wait(WAIT_S)
    assert [(r.job_id, r.status) for r in replies] == [(job.id, JobStatus.FINISHED)]
    is_told_again = threading.Event()
    job.when_ended(lambda reply: is_told_again.set())
    # Told over the stream like the first time, not from within the call.
    assert is_told_again.wait(WAIT_S)


def test_a_reader_that_leaves_and_cancels_frees_the_job(remote: RemoteClusterClient) -> None:
    job = run(Session(remote), endless(100_000) + "SELECT n FROM bids;")
    results = job.results()
    assert next(iter(results)).num_rows > 0
    results.close()
    assert results.is_ended
    job.cancel()
    assert job.wait(WAIT_S)[0] is JobStatus.CANCELED


def test_jobs_task_managers_and_graphs_are_answered(remote: RemoteClusterClient) -> None:
    job = run(Session(remote), endless(10) + "SELECT n FROM bids;")
    assert remote.job_graph(job.id).job_id == job.id
    assert job.id in [entry.job_id for entry in remote.jobs()]
    assert remote.details(job.id).vertices
    assert remote.exceptions(job.id) == ()
    job.cancel()
    job.wait(WAIT_S)
    assert [t.slots for t in remote.task_managers()] == [1]


def test_an_unknown_job_is_the_users_error_and_a_wrong_token_an_external_one(
    cluster: EmbeddedCluster, remote: RemoteClusterClient
) -> None:
    with pytest.raises(UserError, match='job "nowhere" is not known') as caught:
        remote.status("nowhere")
    assert caught.value.code == "SS6009"
    with pytest.raises(ExternalError, match="the server refuses the secret") as refused:
        RemoteClusterClient(cluster.address, "guessed")
    assert refused.value.code == "SS6032"


class SilentServer(flight.FlightServerBase):
    """A JobManager that says nothing until `answers` is set. `has_left`: its client is gone again."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.is_asked, self.answers, self.has_left = threading.Event(), threading.Event(), threading.Event()

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        if action.type == ATTACH:
            self.is_asked.set()
        self.answers.wait(WAIT_S)
        if action.type == ATTACH:
            yield encode_message(ClientAttached())
            deadline_s = time.monotonic() + WAIT_S
            while not context.is_cancelled():
                if time.monotonic() > deadline_s:
                    return
                time.sleep(0.01)
            self.has_left.set()


def test_a_client_that_was_not_attached_in_time_leaves_when_the_server_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_cluster, "LEAVE_TIMEOUT_S", 0.2)
    with SilentServer() as server:
        # On a loaded machine a client may give up before its call has arrived.
        for timeout_s in (0.2, 1, 5):
            monkeypatch.setattr(remote_cluster, "ATTACH_TIMEOUT_S", timeout_s)
            with pytest.raises(ExternalError, match="it has not answered for") as caught:
                RemoteClusterClient(f"grpc://127.0.0.1:{server.port}", "token")
            assert caught.value.code == "SS6015"
            if server.is_asked.is_set():
                break
        assert server.is_asked.is_set()
        server.answers.set()
        assert server.has_left.wait(WAIT_S)


def test_ends_come_behind_all_printed_lines(cluster: EmbeddedCluster) -> None:
    printed: list[str] = []

    def print_slowly(job_id: str, lines: list[str], is_error: bool) -> None:
        time.sleep(0.02)
        printed.extend(lines)

    text = (
        BIDS.replace("'datagen'", "'datagen', 'number-of-rows' = '5000'")
        + ", 'fields.n.end' = '5000'); CREATE TABLE shown (n BIGINT) WITH ('connector' = 'print');"
        + "SET 'execution.batch-rows' = '250'; INSERT INTO shown SELECT n FROM bids;"
    )
    with contextlib.closing(RemoteClusterClient(cluster.address, cluster.token, print_slowly)) as client:
        job = run(Session(client), text)
        assert job.wait(WAIT_S)[0] is JobStatus.FINISHED
        assert len(printed) == 5000


def test_a_job_whose_lines_cannot_be_printed_is_cancelled_and_its_waiter_told(
    cluster: EmbeddedCluster,
) -> None:
    def refuse(job_id: str, lines: list[str], is_error: bool) -> None:
        raise BrokenPipeError("nobody reads")

    text = (
        endless(50) + "CREATE TABLE shown (n BIGINT) WITH ('connector' = 'print');"
        "INSERT INTO shown SELECT n FROM bids;"
    )
    with contextlib.closing(RemoteClusterClient(cluster.address, cluster.token, refuse)) as client:
        job = run(Session(client), text)
        with pytest.raises(BrokenPipeError):
            job.wait(WAIT_S)
        assert client.status(job.id).status is JobStatus.CANCELED


def test_a_client_that_leaves_takes_its_queries_with_it(
    cluster: EmbeddedCluster, remote: RemoteClusterClient
) -> None:
    with contextlib.closing(RemoteClusterClient(cluster.address, cluster.token)) as client:
        job = run(Session(client), endless(10) + "SELECT n FROM bids;")
    assert remote.wait(job.id, WAIT_S).status is JobStatus.CANCELED


def test_a_job_manager_that_has_ended_is_told_by_name() -> None:
    running = EmbeddedCluster(task_managers=1)
    running.start()
    with contextlib.closing(RemoteClusterClient(running.address, running.token)) as client:
        job = run(Session(client), endless(10) + "SELECT n FROM bids;")
        replies: list[JobStatusReply] = []
        ended = threading.Event()
        job.when_ended(lambda reply: (replies.append(reply), ended.set()))
        running.close()
        assert ended.wait(WAIT_S)
        assert replies[0].status is JobStatus.SUSPENDED
        with pytest.raises(ExternalError, match="the server has ended") as caught:
            client.jobs()
        assert caught.value.code == "SS6034"
