"""Sessions that another server goes on with, and statements that are sent again."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from gateway_harness import BLACKHOLE, UNBOUNDED, failure, gateway_service, rows, run, settled, until

from sqlstream.client.catalog.catalogs import memory_catalogs
from sqlstream.client.gateway.asker import AskedStatement, Asker
from sqlstream.client.gateway.kept_sessions import SessionFiles
from sqlstream.client.gateway.operations import Operation
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.service import GatewayService, Sent
from sqlstream.client.gateway.sessions import GatewaySession
from sqlstream.client.sessions.outcomes import Outcome
from sqlstream.client.sessions.session import Session
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.statements import Statement
from sqlstream.runtime.embedded import EmbeddedCluster


class Servers:
    """Gateways of one directory, one after the other, on one cluster: `next` kills the one before."""

    def __init__(self, directory: Path, cluster: EmbeddedCluster) -> None:
        self.directory = directory
        self.cluster = cluster
        self.settings: dict[str, str] = {}
        self.elsewhere: dict[str, bytes | None] = {}
        self.catalogs = memory_catalogs()

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        for path, data in changes.items():
            assert Path(path).parent == self.directory
            self.elsewhere[Path(path).name] = data

    def next(self) -> GatewayService:
        self.service = GatewayService(
            lambda config: Session(self.cluster, {**self.settings, **config}, self.catalogs),
            GatewayOptions(check_interval_ms=0),
            files=SessionFiles(str(self.directory), is_durable=False, keep=self.keep),
        )
        return self.service

    def kept(self) -> list[str]:
        """The same files are kept elsewhere."""
        found = {path.name: path.read_bytes() for path in self.directory.iterdir()}
        assert {name: data for name, data in self.elsewhere.items() if data is not None} == found
        return sorted(found)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with EmbeddedCluster(in_process=True, print_lines=lambda *_: None) as cluster:
        found = Servers(tmp_path, cluster)
        found.next()
        yield found
        found.service.close()


def send(
    service: GatewayService, session: str, text: str, handle: str, is_repeated: bool = False
) -> Operation:
    return settled(service.execute(session, text, sent=Sent(handle, is_repeated)))


def test_a_session_goes_on_with_its_settings_temporary_objects_and_names(servers: Servers) -> None:
    servers.settings = {"parallelism.default": "3", "pipeline.name": "of the server"}
    first = servers.next()
    asker = Asker(level=2)
    session = first.open_session({"table.dml-sync": "true", "rest.port": "1"}, "mine", asker)
    run(
        first,
        session,
        "SET 'parallelism.default' = '2'",
        "RESET 'pipeline.name'",
        "SET 'pipeline.name' = 'own'",
        "CREATE DATABASE d",
        "USE d",
        BLACKHOLE,
        "CREATE TEMPORARY VIEW v AS SELECT 1 AS n UNION ALL SELECT 2",
        "BEGIN STATEMENT SET",
        "INSERT INTO sink SELECT n FROM v",
    )
    before = first.session(session).properties()
    first.close()

    second = servers.next()
    assert second.session_level(session) == 2
    found = second.session(session)
    assert (found.name, found.properties()) == ("mine", before)
    assert (before["parallelism.default"], before["rest.port"]) == ("2", "1")
    until(lambda: settled(run(second, session, "END")))
    assert sorted(rows(run(second, session, "SELECT n FROM v"))) == [(1,), (2,)]
    assert rows(run(second, session, "SHOW TABLES")) == [("sink",), ("v",)]
    second.close_session(session)
    assert servers.kept() == []
    servers.next()
    assert servers.service.session_count == 0


def test_an_operation_of_an_earlier_server_is_lost_and_the_error_says_so(servers: Servers) -> None:
    session = servers.service.open_session({})
    operation = run(servers.service, session, "SELECT 1")
    second = servers.next()
    with pytest.raises(UserError) as caught:
        second.operation(session, operation.handle)
    assert caught.value.code == "SS6093"
    other = second.open_session({})
    with pytest.raises(UserError, match="can not find"):
        second.operation(other, operation.handle)


def test_settings_of_one_statement_are_not_kept(servers: Servers) -> None:
    session = servers.service.open_session({"parallelism.default": "2"})
    config = {"parallelism.default": "7", "pipeline.name": "once"}
    settled(servers.service.execute(session, "SET 'table.dml-sync' = 'true'", config))
    expected = servers.service.session(session).properties()
    assert expected == {"parallelism.default": "2", "table.dml-sync": "true"}
    assert servers.next().session(session).properties() == expected


def test_settings_of_the_statement_that_runs_are_not_those_of_the_session(servers: Servers) -> None:
    """The client is told that it has ended before they are gone."""
    session = servers.service.session(servers.service.open_session({"parallelism.default": "2"}))
    with session.settings({"parallelism.default": "7", "pipeline.name": "once"}):
        assert session.session.config["parallelism.default"] == "7"
        assert session.properties() == {"parallelism.default": "2"}


def test_nothing_is_written_for_statements_that_change_no_session(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = servers.service.open_session({})
    written: list[str] = []
    monkeypatch.setattr(SessionFiles, "put", lambda self, handle, kept: written.append(handle))
    run(servers.service, session, "SELECT 1", "SHOW TABLES", "EXPLAIN SELECT 1")
    assert written == []
    run(servers.service, session, "SET 'parallelism.default' = '2'", "SET 'parallelism.default' = '2'")
    assert written == [session]


def test_a_session_that_cannot_go_on_ends_and_others_go_on(servers: Servers, tmp_path: Path) -> None:
    good = servers.service.open_session({})
    bad = servers.service.open_session({})
    (tmp_path / f"{bad}.session").write_bytes(b"\x81\xa7version\x63")
    (tmp_path / "x.draft").write_bytes(b"")
    second = servers.next()
    assert [session.handle for session in second.sessions()] == [good]
    assert servers.kept() == [f"{good}.session"]


def test_a_statement_that_is_sent_again_to_the_same_server_is_one_operation(servers: Servers) -> None:
    service, session, handle = servers.service, servers.service.open_session({}), str(uuid.uuid4())
    run(service, session, BLACKHOLE)
    operation = send(service, session, "INSERT INTO sink SELECT 1", handle)
    assert operation.handle == handle
    assert send(service, session, "INSERT INTO sink SELECT 1", handle, is_repeated=True) is operation
    assert [job.job_id for job in servers.cluster.jobs()] == [handle.replace("-", "")]
    service.close_operation(session, handle)
    # Also when the first request comes after the second one was answered and closed.
    with pytest.raises(UserError) as caught:
        service.execute(session, "INSERT INTO sink SELECT 1", sent=Sent(handle))
    assert caught.value.code == "SS6021"
    assert len(servers.cluster.jobs()) == 1


def test_a_statement_that_is_sent_again_while_it_comes_is_one_operation() -> None:
    handle, repeated = str(uuid.uuid4()), list[Operation]()

    class Listener:
        """The statement is sent again when the first one is about to be added."""

        def announce(self, statement: AskedStatement) -> None:
            if not threads:
                threads.append(threading.Thread(target=repeat))
                threads[0].start()
                threads[0].join(0.2)

        def end(self, statement: AskedStatement, outcome: str, error: SqlStreamError | None) -> None:
            pass

    def repeat() -> None:
        repeated.append(service.execute(session, "SHOW VIEWS", sent=Sent(handle, True)))

    threads: list[threading.Thread] = []
    with gateway_service(listener=Listener()) as (service, _):
        session = service.open_session({})
        first = service.execute(session, "SHOW VIEWS", sent=Sent(handle))
        threads[0].join()
        assert repeated == [first]


def test_a_session_that_was_closed_stays_closed_when_its_statement_ends_later(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, session = servers.service, servers.service.open_session({})
    begun, closed, ended = (threading.Event() for _ in range(3))
    execute, keep = Session.execute, GatewayService._keep

    def execute_late(self: Session, statement: Statement) -> Outcome:
        begun.set()
        assert closed.wait(60)
        return execute(self, statement)

    def keep_and_tell(self: GatewayService, of: GatewaySession, handle: str) -> None:
        keep(self, of, handle)
        ended.set()

    monkeypatch.setattr(Session, "execute", execute_late)
    monkeypatch.setattr(GatewayService, "_keep", keep_and_tell)
    service.execute(session, "SET 'parallelism.default' = '2'")
    assert begun.wait(60)
    service.close_session(session)
    closed.set()
    assert ended.wait(60)
    assert servers.kept() == []


def test_an_insert_that_is_sent_again_to_the_next_server_is_answered_with_its_job(servers: Servers) -> None:
    session, handle = servers.service.open_session({}), str(uuid.uuid4())
    run(servers.service, session, BLACKHOLE)
    first = rows(send(servers.service, session, "INSERT INTO sink SELECT 1", handle))
    second = servers.next()
    assert rows(send(second, session, "INSERT INTO sink SELECT 1", handle, is_repeated=True)) == first
    assert len(servers.cluster.jobs()) == 1
    # One that had not arrived runs now.
    other = str(uuid.uuid4())
    answer = rows(send(second, session, "INSERT INTO sink SELECT 2", other, is_repeated=True))
    assert answer == [(other.replace("-", ""),)]
    assert len(servers.cluster.jobs()) == 2


@pytest.mark.parametrize("is_repeated", [True, False])
@pytest.mark.parametrize("of_job", ["SELECT id FROM u", "INSERT INTO sink SELECT id FROM u"])
def test_a_handle_that_is_the_id_of_anothers_job_gives_no_power_over_it(
    servers: Servers, of_job: str, is_repeated: bool
) -> None:
    service, tables = servers.service, (BLACKHOLE, UNBOUNDED.format(rate=10))
    owner = service.open_session({})
    run(service, owner, *tables)
    job_id = run(service, owner, of_job).result().job_id
    assert job_id is not None
    handle = str(uuid.UUID(job_id))
    runs = {"SHOW VIEWS"} | ({"SELECT id FROM u"} if is_repeated else set())
    for text in ("SHOW VIEWS", "SELECT id FROM u", "INSERT INTO sink SELECT id FROM u"):
        other = service.open_session({"table.dml-sync": "true"})
        run(service, other, *tables)
        operation = service.execute(other, text, sent=Sent(handle, is_repeated))
        if text in runs:
            assert settled(operation).result().job_id != job_id
        else:
            assert failure(operation).code == "SS6008"
        service.close_session(other)
    assert servers.cluster.status(job_id).status is JobStatus.RUNNING


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_job_is_no_answer_to_another_user(servers: Servers, is_repeated: bool) -> None:
    session, handle = servers.service.open_session({}), str(uuid.uuid4())
    run(servers.service, session, BLACKHOLE)
    send(servers.service, session, "INSERT INTO sink SELECT 1", handle)
    second = servers.next()
    second.session(session).session.owner = "another"
    assert failure(send(second, session, "INSERT INTO sink SELECT 1", handle, is_repeated)).code == "SS6008"


def test_a_query_that_is_sent_again_runs_again_under_another_job(servers: Servers) -> None:
    session, handle = servers.service.open_session({}), str(uuid.uuid4())
    query = "SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (n) GROUP BY n"
    send(servers.service, session, query, handle)
    operation = send(servers.next(), session, query, handle, is_repeated=True)
    assert [row[0] for row in rows(operation)] == [1, 1]
    assert len({job.job_id for job in servers.cluster.jobs()}) == 2


def test_a_change_of_the_session_that_is_sent_again_is_made_once(servers: Servers) -> None:
    session, handle = servers.service.open_session({}), str(uuid.uuid4())
    run(servers.service, session, BLACKHOLE, "BEGIN STATEMENT SET")
    send(servers.service, session, "INSERT INTO sink SELECT 1", handle)
    second = servers.next()
    assert send(second, session, "INSERT INTO sink SELECT 1", handle, is_repeated=True).error is None
    assert second.session(session).session.statement_set == ("INSERT INTO sink SELECT 1",)
    # One that had not arrived.
    other = str(uuid.uuid4())
    send(second, session, "INSERT INTO sink SELECT 2", other, is_repeated=True)
    assert second.session(session).session.statement_set == (
        "INSERT INTO sink SELECT 1",
        "INSERT INTO sink SELECT 2",
    )


def test_a_statement_set_whose_job_runs_is_over_also_when_its_end_was_not_kept(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, handle = servers.service.open_session({}), str(uuid.uuid4())
    run(servers.service, session, BLACKHOLE, "BEGIN STATEMENT SET", "INSERT INTO sink SELECT 1")
    with monkeypatch.context() as patch:
        patch.setattr(SessionFiles, "put", lambda *_: None)
        first = rows(send(servers.service, session, "END", handle))
    second = servers.next()
    assert rows(send(second, session, "END", handle, is_repeated=True)) == first
    assert second.session(session).session.statement_set is None


def test_what_cannot_be_done_twice_is_not_and_the_error_says_what_may_have_happened(servers: Servers) -> None:
    session, handle = servers.service.open_session({}), str(uuid.uuid4())
    create = "CREATE TABLE kept (n BIGINT) WITH ('connector' = 'blackhole')"
    send(servers.service, session, create, handle)
    second = servers.next()
    error: SqlStreamError = failure(send(second, session, create, handle, is_repeated=True))
    assert "it may have taken effect" in error.detail
    call = "STOP JOB '0123456789abcdef0123456789abcdef'"
    assert failure(send(second, session, call, str(uuid.uuid4()), is_repeated=True)).code == "SS6091"
    with contextlib.suppress(SqlStreamError):
        assert failure(send(second, session, call, str(uuid.uuid4()))).code == "SS6009"
