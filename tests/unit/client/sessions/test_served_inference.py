"""In a server, files are looked at in a task."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.cancellation import given_up_by
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.outcomes import Job, Rows
from sqlstream.client.sessions.served_files import ServedInference
from sqlstream.client.sessions.session import Session
from sqlstream.errors import ExternalError, FailureReason, JobError, UserError
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.planner.dialect.parser import parse_script, parse_statement
from sqlstream.runtime.embedded import EmbeddedCluster


@pytest.fixture
def cluster() -> Iterator[LocalClusterClient]:
    made = LocalClusterClient()
    yield made
    made.close()


def jobs(cluster: LocalClusterClient) -> list[tuple[str, JobStatus]]:
    return [(job.name, job.status) for job in cluster.jobs()]


def test_a_table_is_inferred_by_one_job(cluster: LocalClusterClient, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,at\n1,2024-01-01\n")
    session = Session(cluster, is_served=True)
    session.execute(parse_statement(f"CREATE TABLE t LIKE '{tmp_path}/a.csv'"))
    assert jobs(cluster) == [("infer", JobStatus.FINISHED)]
    shown = session.execute(parse_statement("SHOW CREATE TABLE t"))
    own = Session(cluster)
    own.execute(parse_statement(f"CREATE TABLE t LIKE '{tmp_path}/a.csv'"))
    assert isinstance(shown, Rows)
    assert own.execute(parse_statement("SHOW CREATE TABLE t")) == shown
    # A session of one's own looks at the files itself.
    assert len(jobs(cluster)) == 1


def test_errors_have_their_code_and_place(cluster: LocalClusterClient, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1]")
    session = Session(cluster, is_served=True)
    for name, code in (("a.json", "SS5024"), ("b.csv", "SS5002")):
        with pytest.raises(UserError) as caught:
            session.compile(parse_statement(f"SELECT * FROM '{tmp_path}/{name}'"))
        assert (caught.value.code, caught.value.span is not None) == (code, True)


def wide_file(path: Path) -> str:
    """A file that takes a second or more."""
    lines = [",".join(f"c{i}" for i in range(400))]
    lines += [",".join(str(n * i) for i in range(400)) for n in range(4000)]
    path.write_text("\n".join(lines))
    return str(path)


def test_files_that_take_too_long_are_an_error_and_their_job_is_cancelled(
    cluster: LocalClusterClient, tmp_path: Path
) -> None:
    path = wide_file(tmp_path / "wide.csv")
    with pytest.raises(ExternalError, match="took longer than 0 s") as caught:
        ServedInference(cluster, timeout_s=0.0).format(path)
    assert (caught.value.code, bool(caught.value.hint)) == ("SS5026", True)
    (job,) = cluster.jobs()
    assert cluster.wait(job.job_id, 60).status is JobStatus.CANCELED


BUSY = """
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole');
SET 'parallelism.default' = '1';
INSERT INTO nothing SELECT n FROM ticks;
"""


def test_a_cluster_without_a_free_slot_is_the_cause_and_not_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    with EmbeddedCluster({"slotmanager.number-of-slots.max": "1"}) as full:
        session = Session(full, is_served=True)
        for statement in parse_script(BUSY):
            job = session.execute(statement)
        assert isinstance(job, Job)
        await_running(full, job.id)
        with pytest.raises(JobError) as caught:
            ServedInference(full, timeout_s=0.5).format(f"{tmp_path}/a.csv")
        assert (caught.value.code, caught.value.reason) == ("SS6003", FailureReason.NO_RESOURCES)
        assert "SHOW JOBS" in caught.value.hint
        (asked,) = [job for job in full.jobs() if job.name == "infer"]
        assert full.wait(asked.job_id, 60).status is JobStatus.CANCELED


def await_running(cluster: EmbeddedCluster, job_id: str) -> None:
    deadline_s = time.monotonic() + 60
    while any(v.state is not ExecutionState.RUNNING for v in cluster.details(job_id).vertices):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_files_that_may_not_be_shared_are_refused_until_they_are_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")
    with EmbeddedCluster(in_process=True) as cluster:
        # As on a cluster of several hosts.
        cluster._is_on_one_host = False
        session = Session(cluster, is_served=True)
        query = parse_statement(f"SELECT * FROM '{tmp_path}/a.csv'")
        with pytest.raises(UserError) as caught:
            session.compile(query)
        assert (caught.value.code, caught.value.span is not None) == ("SS4057", True)
        assert cluster.jobs() == ()
        session.execute(parse_statement("SET 'execution.files-are-shared' = 'true'"))
        session.compile(query)


def test_a_statement_that_was_given_up_leaves_no_job(cluster: LocalClusterClient, tmp_path: Path) -> None:
    path = wide_file(tmp_path / "wide.csv")
    given_up = threading.Event()
    threading.Timer(0.3, given_up.set).start()
    with given_up_by(given_up), pytest.raises(JobError, match="SS6031"):
        ServedInference(cluster).format(path)
    (job,) = cluster.jobs()
    assert cluster.wait(job.job_id, 60).status is JobStatus.CANCELED
