"""How long the gateway keeps sessions, operations and statements, and how many."""

from __future__ import annotations

import threading

import pytest
from gateway_harness import (
    BLACKHOLE,
    UNBOUNDED,
    Running,
    failure,
    gateway_service,
    rows,
    run,
    running_jobs,
    settled,
    until,
)

from sqlstream.client.gateway.asker import Asker
from sqlstream.client.gateway.operations import OperationStatus
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus


def test_a_session_that_idles_loses_its_queries_and_keeps_its_inserts() -> None:
    now_ms = [0]
    options = GatewayOptions(idle_timeout_ms=1000, check_interval_ms=0)
    with gateway_service(options, lambda: now_ms[0]) as (service, cluster):
        idle, busy = service.open_session({}), service.open_session({})
        run(service, idle, UNBOUNDED.format(rate=10), BLACKHOLE)
        insert = run(service, idle, "INSERT INTO sink SELECT id FROM u").result()
        query = run(service, idle, "SELECT id FROM u").result()
        until(lambda: running_jobs(cluster) == 2)
        now_ms[0] = 900
        service.session(busy)
        now_ms[0] = 1500
        service.close_idle_sessions()
        with pytest.raises(UserError, match=f"session '{idle}' does not exist"):
            service.session(idle)
        service.session(busy)
        until(lambda: cluster.status(str(query.job_id)).status is JobStatus.CANCELED)
        assert cluster.status(str(insert.job_id)).status is JobStatus.RUNNING


def test_idle_sessions_are_looked_for_at_intervals() -> None:
    options = GatewayOptions(idle_timeout_ms=200, check_interval_ms=50)
    with gateway_service(options) as (service, _):
        service.open_session({})
        until(lambda: service.session_count == 0)


def test_a_thousand_sessions_are_opened_and_dropped(gateway: Running) -> None:
    service, _ = gateway
    threads = threading.active_count()
    handles = [service.open_session({}) for _ in range(1000)]
    for handle in handles[::10]:
        service.execute(handle, "SHOW TABLES")
    assert service.session_count == 1000
    for handle in handles:
        service.close_session(handle)
    assert service.session_count == 0
    assert threading.active_count() <= threads + 100
    with pytest.raises(UserError, match="does not exist"):
        service.close_session(handles[0])


def test_sessions_operations_and_statements_are_bounded() -> None:
    options = GatewayOptions(sessions_max=2, operations_max=3, statement_bytes_max=90)
    with gateway_service(options) as (service, cluster):
        session, other = service.open_session({}), service.open_session({})
        with pytest.raises(UserError, match="exceeds the max count: 2"):
            service.open_session({})
        service.close_session(other)
        service.open_session({})
        with pytest.raises(UserError, match="longer than 90 bytes"):
            service.execute(session, f"SELECT '{'é' * 45}'")
        # Answers that were read to their end make room for others; those of queries that go on do not.
        for _ in range(5):
            assert rows(run(service, session, "SHOW VIEWS")) == []
        rows(run(service, session, UNBOUNDED.format(rate=10)))
        queries = [run(service, session, "SELECT id FROM u") for _ in range(3)]
        with pytest.raises(UserError, match="3 operations that are not closed"):
            service.execute(session, "SHOW VIEWS")
        queries[0].close()
        run(service, session, "SHOW VIEWS").result()
        until(lambda: running_jobs(cluster) == 2)


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_statement_may_have_as_many_bytes_as_the_limit_says(letter: str) -> None:
    longest = f"SHOW VIEWS -- {letter * 38}"
    with gateway_service(GatewayOptions(statement_bytes_max=len(longest.encode()))) as (service, _):
        session = service.open_session({})
        assert rows(run(service, session, longest)) == []
        with pytest.raises(UserError, match="SS6026"):
            service.execute(session, longest + "x")


def test_a_statement_that_has_run_is_dropped_and_what_operations_take_is_bounded() -> None:
    limit = 1024 * 1024
    options = GatewayOptions(operations_bytes_max=limit, page_bytes_max=600_000)
    with gateway_service(options) as (service, _):
        session = service.open_session({})
        for _ in range(5):
            assert run(service, session, f"SET 'pipeline.name' = 'a' -- {'x' * 900_000}").held_bytes < 1000
        # A failed statement is kept for its error; it makes room for others.
        failed = service.execute(session, f"SELECT x -- {'x' * 900_000}")
        assert failure(failed).code == "SS2003"
        assert failed.held_bytes > 900_000
        service.execute(session, f"SHOW VIEWS -- {'x' * 900_000}")
        assert failed.status is OperationStatus.CLOSED
        rows(run(service, session, UNBOUNDED.format(rate=50_000_000)))
        query = run(service, session, "SELECT id FROM u")
        until(lambda: query.held_bytes > limit)
        with pytest.raises(UserError, match=f"take more than {limit} bytes"):
            service.execute(session, "SHOW VIEWS")
        service.close_operation(session, query.handle)
        assert rows(run(service, session, "SHOW VIEWS")) == []


def test_what_waits_in_a_session_is_bounded() -> None:
    with gateway_service(GatewayOptions(operations_max=5)) as (service, _):
        session = service.open_session({"table.dml-sync": "true"})
        rows(run(service, session, UNBOUNDED.format(rate=10)))
        rows(run(service, session, BLACKHOLE))
        insert = service.execute(session, "INSERT INTO sink SELECT id FROM u")
        until(lambda: insert.status is OperationStatus.RUNNING)
        for _ in range(4):
            service.configure_session(session, "SET 'pipeline.name' = 'a'")
        with pytest.raises(UserError, match="5 operations that are not closed"):
            service.run_script(session, "SET 'pipeline.name' = 'a';")
        # A statement that is closed leaves its place in the queue only when its turn comes.
        service.close_operation(session, insert.handle)
        blocking = service.execute(session, "INSERT INTO sink SELECT id FROM u")
        until(lambda: blocking.status is OperationStatus.RUNNING)
        for _ in range(5):
            service.close_operation(session, service.execute(session, "SHOW VIEWS").handle)
        with pytest.raises(UserError, match="5 operations of the session wait"):
            service.execute(session, "SHOW VIEWS")
        service.close_operation(session, blocking.handle)


def test_only_answers_that_were_read_make_room_and_asking_for_them_again_says_so() -> None:
    with gateway_service(GatewayOptions(operations_max=2)) as (service, _):
        session = service.open_session({})
        empty, failed = run(service, session, "SHOW VIEWS"), settled(service.execute(session, "SELECT x"))
        # Nobody has asked for their answers yet, though one has no rows and the other failed.
        with pytest.raises(UserError, match="2 operations that are not closed"):
            service.execute(session, "SHOW TABLES")
        assert rows(empty) == []
        run(service, session, "SHOW TABLES")
        with pytest.raises(UserError, match="was dropped to make room for later ones") as caught:
            service.operation(session, empty.handle)
        assert caught.value.code == "SS6021"
        assert failure(service.operation(session, failed.handle)).code == "SS2003"
        service.execute(session, "SHOW DATABASES")


def test_what_the_sessions_of_a_user_take_is_bounded_together() -> None:
    options = GatewayOptions(has_users=True, user_bytes_max=2_000_000, page_bytes_max=600_000)
    mine, other = Asker("me"), Asker("other")
    with gateway_service(options) as (service, _):
        first, second = (service.open_session({}, asker=mine) for _ in range(2))
        others = service.open_session({}, asker=other)
        # The texts of views that one session keeps.
        for n in range(3):
            run(service, first, f"CREATE TEMPORARY VIEW v{n} AS SELECT '{'x' * 800_000}' AS a")
        said = "sessions of the user take more than 2000000 bytes"
        for refused in (
            lambda: service.execute(second, "SHOW VIEWS", asker=mine),
            lambda: service.configure_session(second, "SET 'pipeline.name' = 'a'", asker=mine),
            lambda: service.run_script(second, "SHOW VIEWS;", asker=mine),
            lambda: service.open_session({}, asker=mine),
        ):
            with pytest.raises(UserError, match=said) as caught:
                refused()
            assert caught.value.code == "SS6025"
        assert rows(settled(service.execute(others, "SHOW VIEWS", asker=other))) == []
        service.close_session(first)
        assert rows(settled(service.execute(second, "SHOW VIEWS", asker=mine))) == []


def test_without_users_each_session_is_bounded_by_itself() -> None:
    with gateway_service(GatewayOptions(user_bytes_max=1_000_000)) as (service, _):
        first, second = (service.open_session({}, asker=Asker("local")) for _ in range(2))
        for n in range(2):
            run(service, first, f"CREATE TEMPORARY VIEW v{n} AS SELECT '{'x' * 800_000}' AS a")
        with pytest.raises(UserError, match="take more than 1000000 bytes"):
            service.execute(first, "SHOW VIEWS")
        assert rows(run(service, second, "SHOW VIEWS")) == []


def test_answers_that_were_read_make_room_for_the_user() -> None:
    with gateway_service(GatewayOptions(has_users=True, user_bytes_max=2_000_000)) as (service, _):
        one, two = (service.open_session({}, asker=Asker("me")) for _ in range(2))
        failed = [service.execute(one, f"SELECT x -- {n} {'x' * 900_000}") for n in range(3)]
        for operation in failed:
            settled(operation)
        with pytest.raises(UserError, match="SS6025"):
            service.execute(two, "SHOW VIEWS")
        assert {failure(operation).code for operation in failed} == {"SS2003"}
        assert rows(run(service, two, "SHOW VIEWS")) == []
        assert {operation.status for operation in failed} == {OperationStatus.CLOSED}


def test_a_session_remembers_as_many_statements_as_their_texts_allow() -> None:
    with gateway_service() as (service, _):
        session = service.open_session({})
        found = service.session(session).session
        run(service, session, "CREATE TEMPORARY TABLE t (a STRING) WITH ('connector' = 'blackhole')")
        before = found.held_bytes
        jobs = [
            str(run(service, session, f"INSERT INTO t VALUES ('{'x' * 400_000}')").result().job_id)
            for _ in range(4)
        ]
        assert [found.submitted(job) is not None for job in jobs] == [False, False, True, True]
        assert 40_000_000 < found.held_bytes - before < 50_000_000
