"""What callers get when the JobManager's own rules are broken."""

from __future__ import annotations

import threading

import msgspec
import pytest

from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.errors import InternalError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.cluster_surroundings import ClusterSurroundings
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.runtime.jobmanager.job_manager import JobManager

TIMEOUT_S = 60
SQL = """
CREATE TABLE t (a BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20');
SELECT a FROM t;
"""


def test_who_waits_for_rows_gets_their_end_and_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    told, ended = threading.Event(), threading.Event()
    around = ClusterSurroundings(on_crash=told.set)
    with EmbeddedCluster(in_process=True, surroundings=around) as cluster:
        session = Session(cluster)
        *_, job = [session.execute(statement) for statement in parse_statements(SQL)]
        assert isinstance(job, Job)
        rows = job.results()
        assert next(iter(rows)).num_rows > 0

        def read_all() -> None:
            assert all(batch.num_rows for batch in rows)
            ended.set()

        reader = threading.Thread(target=read_all, daemon=True)
        reader.start()

        def break_off(*_: object) -> None:
            raise KeyError("a rule")

        with monkeypatch.context() as broken:
            broken.setattr(JobManager, "handle", break_off)
            assert told.wait(TIMEOUT_S)
        assert ended.wait(TIMEOUT_S)
        reader.join(TIMEOUT_S)
        with pytest.raises(InternalError, match="the JobManager broke off"):
            cluster.jobs()


def test_all_jobs_are_cancelled_although_one_was_forgotten_since_they_were_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: list[JobStatusReply] = []
    cluster = EmbeddedCluster(in_process=True)
    cluster.start()
    session = Session(cluster)
    *_, job = [session.execute(statement) for statement in parse_statements(SQL)]
    assert isinstance(job, Job)
    cluster.when_ended(job.id, ends.append)
    listed = cluster._shell.overview()
    gone = msgspec.structs.replace(listed[0], job_id="f" * 32)
    monkeypatch.setattr(cluster._shell, "overview", lambda: (gone, *listed))
    cluster.close()
    assert [end.status for end in ends] == [JobStatus.CANCELED]
