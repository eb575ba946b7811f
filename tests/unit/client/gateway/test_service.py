"""The gateway without HTTP: sessions, operations and the jobs behind them."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_harness import (
    BLACKHOLE,
    TIMEOUT_S,
    UNBOUNDED,
    Running,
    failure,
    gateway_service,
    rows,
    run,
    running_jobs,
    settled,
    statuses,
    until,
)

from sqlstream.client.gateway.asker import Asker
from sqlstream.client.gateway.execution import Planning
from sqlstream.client.gateway.operations import OperationStatus
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.server.roles import Role
from sqlstream.client.sessions.outcomes import ResultKind
from sqlstream.errors import JobError, Span, UserError
from sqlstream.graph.job_graph import written_tables
from sqlstream.messages.job_state import JobStatus


def test_a_statement_without_rows_answers_ok_and_one_with_rows_its_rows(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    done = run(service, session, "SET 'parallelism.default' = '2'").result()
    assert (done.is_query, done.job_id) == (False, None)
    assert (done.facts.kind, done.facts.text) == (ResultKind.CONFIRMATION, "'parallelism.default' is '2'")
    listed = run(service, session, "SET")
    assert listed.result().facts.kind is ResultKind.ROWS
    assert rows(listed) == [("parallelism.default", "2")]
    assert service.session(session).properties() == {"parallelism.default": "2"}


def test_a_query_has_a_job_and_its_rows_follow(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({})
    table = "CREATE TEMPORARY TABLE g (id BIGINT) WITH ('connector'='datagen', 'number-of-rows'='3', 'fields.id.kind'='sequence',"
    query = run(service, session, f"{table} 'fields.id.start'='1', 'fields.id.end'='3')", "SELECT id FROM g")
    result = query.result()
    assert (result.is_query, result.facts.kind, result.facts.is_updating) == (True, ResultKind.QUERY, False)
    assert sorted(rows(query)) == [(1,), (2,), (3,)]
    assert cluster.status(str(result.job_id)).status is JobStatus.FINISHED
    counted = run(service, session, "SELECT COUNT(*) FROM g").result()
    assert (counted.facts.is_updating, counted.facts.is_bounded) == (True, True)


def test_an_error_has_its_place_in_the_statement(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    operation = service.execute(session, "SELECT\n x FROM nowhere")
    error = failure(operation)
    assert isinstance(error, UserError)
    assert error.span is not None
    assert operation.text[error.span.start : error.span.end] == "nowhere"
    assert operation.status is OperationStatus.ERROR


def test_a_failed_statement_keeps_no_calls_however_often_it_is_asked_for(gateway: Running) -> None:
    service, _ = gateway
    operation = service.execute(service.open_session({}), "SELECT x FROM nowhere")
    # Each call between here and there would be one more.
    lengths = [len(list(traceback.walk_tb(failure(operation).__traceback__))) for _ in range(3)]
    assert len(set(lengths)) == 1
    kept = operation.error
    assert kept is not None
    modules = {frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(kept.__traceback__)}
    assert not {
        name
        for name in modules
        if name.startswith(("sqlstream.planner.", "sqlstream.client.sessions", "sqlstream.client.statements"))
    }
    assert (kept.__cause__, kept.__context__) == (None, None)


def test_statements_of_a_session_run_in_order_and_sessions_side_by_side(gateway: Running) -> None:
    service, _ = gateway
    sessions = [service.open_session({}) for _ in range(4)]
    operations = []
    for number in range(25):
        for session in sessions:
            operations.append(service.execute(session, f"SET 'pipeline.name' = '{number}'"))
    for operation in operations:
        settled(operation).result()
    for session in sessions:
        assert service.session(session).properties()["pipeline.name"] == "24"


def test_settings_of_one_statement_are_in_force_for_it_alone(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({"pipeline.name": "first"})
    config = {"pipeline.name": "other", "table.local-time-zone": "UTC"}
    named = settled(service.execute(session, "SET", config))
    assert rows(named) == [("pipeline.name", "other"), ("table.local-time-zone", "UTC")]
    assert rows(run(service, session, "SET")) == [("pipeline.name", "first")]
    settled(service.execute(session, "SET 'pipeline.name' = 'last'", config))
    assert rows(run(service, session, "SET")) == [("pipeline.name", "last")]


def test_an_insert_is_answered_at_once_and_outlives_its_session(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({})
    insert = run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE, "INSERT INTO sink SELECT id FROM u")
    result = insert.result()
    assert rows(insert) == [(result.job_id,)]
    assert (result.schema.names, result.is_query, result.facts.kind) == (("job id",), False, ResultKind.JOB)
    service.close_session(session)
    until(lambda: cluster.status(str(result.job_id)).status is JobStatus.RUNNING)


def test_a_synchronous_insert_is_answered_when_its_job_has_ended(gateway: Running, tmp_path: Path) -> None:
    service, cluster = gateway
    session = service.open_session({"table.dml-sync": "true"})
    columns = "(a INT) WITH ('connector'='filesystem', 'format'='csv'"
    create = f"CREATE TEMPORARY TABLE f {columns}, 'path'='{tmp_path}')"
    insert = run(service, session, create, "INSERT INTO f VALUES (1), (2)")
    assert cluster.status(str(insert.result().job_id)).status is JobStatus.FINISHED
    assert sorted(rows(run(service, session, "SELECT a FROM f"))) == [(1,), (2,)]


def test_a_synchronous_insert_holds_back_its_session_and_no_thread(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({"table.dml-sync": "true"})
    run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE)
    insert = service.execute(session, "INSERT INTO sink SELECT id FROM u")
    behind = service.execute(session, "SHOW TABLES")
    until(lambda: running_jobs(cluster) == 1)
    assert (insert.status, behind.status) == (OperationStatus.RUNNING, OperationStatus.PENDING)
    insert.cancel()
    assert settled(insert).status is OperationStatus.CANCELED
    settled(behind).result()
    until(lambda: statuses(cluster)[-1] is JobStatus.CANCELED)


def test_a_synchronous_insert_that_is_closed_lets_its_session_go_on(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({"table.dml-sync": "true"})
    run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE)
    insert = service.execute(session, "INSERT INTO sink SELECT id FROM u")
    until(lambda: running_jobs(cluster) == 1)
    (first,) = (job.job_id for job in cluster.jobs() if not job.status.is_terminal)
    service.close_operation(session, insert.handle)
    assert rows(run(service, session, "SELECT 1")) == [(1,)]
    # The next INSERT holds back its session for its own job, and not until the first one ends.
    second = service.execute(session, "INSERT INTO sink SELECT id FROM u")
    behind = service.execute(session, "SELECT 2")
    until(lambda: running_jobs(cluster) == 2)
    cluster.cancel(first)
    until(lambda: running_jobs(cluster) == 1)
    assert (second.status, behind.status) == (OperationStatus.RUNNING, OperationStatus.PENDING)
    second.cancel()
    assert rows(settled(behind)) == [(2,)]


def test_a_synchronous_insert_fails_with_its_job(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({"table.dml-sync": "true"})
    failing = "INSERT INTO sink SELECT CAST(CAST(id AS STRING) || 'x' AS BIGINT) FROM u"
    operation = service.execute(session, failing)
    run(service, session, UNBOUNDED.format(rate=1000), BLACKHOLE)
    assert isinstance(failure(operation), UserError)
    assert isinstance(failure(service.execute(session, failing)), JobError)


def test_a_query_that_fails_says_so_after_its_rows(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    query = "SELECT CAST(CAST(id AS STRING) || 'x' AS BIGINT) FROM u"
    operation = run(service, session, UNBOUNDED.format(rate=1000), query)
    with pytest.raises(JobError):
        rows(operation)


def test_a_query_whose_job_is_stopped_says_so(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    operation = run(service, session, UNBOUNDED.format(rate=10), "SELECT id FROM u")
    run(service, session, f"STOP JOB '{operation.result().job_id}'").result()
    with pytest.raises(JobError, match="was cancelled"):
        rows(operation)


def test_closing_an_operation_frees_its_job(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({})
    operation = run(service, session, UNBOUNDED.format(rate=10), "SELECT id FROM u")
    until(lambda: running_jobs(cluster) == 1)
    service.close_operation(session, operation.handle)
    until(lambda: running_jobs(cluster) == 0)
    with pytest.raises(UserError, match="can not find the submitted operation"):
        service.operation(session, operation.handle)
    service.close_operation(session, operation.handle)


def test_only_an_operation_that_has_not_finished_can_be_cancelled(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    operation = run(service, session, "SHOW TABLES")
    with pytest.raises(UserError, match="from FINISHED to CANCELED"):
        service.cancel_operation(session, operation.handle)


def test_an_operation_that_is_cancelled_in_line_is_never_executed(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({"table.dml-sync": "true"})
    run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE)
    blocking = service.execute(session, "INSERT INTO sink SELECT id FROM u")
    waiting = service.execute(session, "SET 'pipeline.name' = 'never'")
    waiting.cancel()
    until(lambda: running_jobs(cluster) == 1)
    blocking.cancel()
    run(service, session, "SHOW TABLES")
    assert "pipeline.name" not in service.session(session).properties()
    assert "in CANCELED status" in failure(waiting).message


def test_jobs_are_listed_described_and_stopped(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({"pipeline.name": "mine"})
    insert = run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE, "INSERT INTO sink SELECT id FROM u")
    job_id = insert.result().job_id
    until(lambda: cluster.status(str(job_id)).status is JobStatus.RUNNING)
    described = run(service, session, f"DESCRIBE JOB '{job_id}'")
    assert described.result().schema.names == ("job id", "job name", "status", "start time", "remark")
    (row,) = rows(described)
    assert row[:3] == (job_id, "mine", "RUNNING")
    assert row in rows(run(service, session, "SHOW JOBS"))
    assert rows(run(service, session, f"STOP JOB '{job_id}'")) == [("OK",)]
    until(lambda: cluster.status(str(job_id)).status is JobStatus.CANCELED)
    error = failure(service.execute(session, "STOP JOB 'none'"))
    assert (error.code, getattr(error, "span", None) is not None) == ("SS6009", True)


def test_a_session_is_configured_by_ddl_and_settings_alone(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    settled(service.configure_session(session, "SET 'sql-client.verbose' = 'true'")).result()
    settled(service.configure_session(session, "CREATE TEMPORARY VIEW v AS SELECT 1 AS a")).result()
    assert service.session(session).properties() == {"sql-client.verbose": "true"}
    assert rows(run(service, session, "SHOW VIEWS")) == [("v",)]
    for text in ("SELECT 1", "SHOW TABLES", "SET", "INSERT INTO t SELECT 1", "STOP JOB 'a'"):
        assert failure(service.configure_session(session, text)).code == "SS6027"


def test_a_script_runs_whole_in_a_session_of_its_own_or_not_at_all(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({"pipeline.name": "scripted"})
    tables = f"{UNBOUNDED.format(rate=10)}; {BLACKHOLE};"
    script = f"{tables} SET 'parallelism.default' = '2'; INSERT INTO sink SELECT id FROM u;"
    result = settled(service.run_script(session, script)).result()
    until(lambda: cluster.status(str(result.job_id)).status is JobStatus.RUNNING)
    assert "parallelism.default" not in service.session(session).properties()
    assert [j.name for j in cluster.jobs() if j.job_id == result.job_id] == ["scripted"]
    for wrong, code in (
        ("CREATE TEMPORARY VIEW w AS SELECT 1; SELECT 1", "SS6028"),
        ("SELEC", "SS1001"),
        ("", "SS1003"),
    ):
        assert failure(service.run_script(session, wrong)).code == code


def test_a_session_that_closes_settles_what_waits_to_be_executed(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({"table.dml-sync": "true"})
    run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE)
    service.execute(session, "INSERT INTO sink SELECT id FROM u")
    waiting = [
        service.execute(session, "SHOW TABLES"),
        service.configure_session(session, "SET 'pipeline.name' = 'a'"),
        service.run_script(session, "SET 'pipeline.name' = 'b';"),
    ]
    service.close_session(session)
    assert [settled(operation).status for operation in waiting] == [OperationStatus.CLOSED] * 3


def test_a_script_has_the_settings_of_the_statements_before_it(gateway: Running) -> None:
    service, cluster = gateway
    session = service.open_session({"table.dml-sync": "true"})
    run(service, session, UNBOUNDED.format(rate=10), BLACKHOLE)
    insert = service.execute(session, "INSERT INTO sink SELECT id FROM u")
    service.execute(session, "SET 'pipeline.name' = 'set before'")
    tables = f"{UNBOUNDED.format(rate=10)}; {BLACKHOLE};"
    script = service.run_script(session, f"{tables} INSERT INTO sink SELECT id FROM u;")
    insert.cancel()
    job_id = settled(script).result().job_id
    assert [job.name for job in cluster.jobs() if job.job_id == job_id] == ["set before"]


def test_a_setting_of_one_statement_is_obeyed_or_refused(gateway: Running) -> None:
    service, _ = gateway
    session = service.open_session({})
    for config, code in (
        ({"pipeline.nme": "a"}, "SS4001"),
        ({"sqlstream.log.level": "INFO"}, "SS4007"),
        ({"parallelism.default": "x"}, "SS4002"),
    ):
        with pytest.raises(UserError) as raised:
            service.execute(session, "SELECT 1", config)
        assert raised.value.code == code
        with pytest.raises(UserError):
            service.run_script(session, "SET 'pipeline.name' = 'a';", config)
    tuning = {"rest.port": "1", "table.exec.mini-batch.enabled": "true", "sql-client.verbose": "true"}
    assert rows(settled(service.execute(session, "SELECT 1", tuning))) == [(1,)]


def test_an_unknown_session_has_no_statements(gateway: Running) -> None:
    service, _ = gateway
    with pytest.raises(UserError, match="session 'x' does not exist"):
        service.execute("x", "SELECT 1")


def test_paths_are_completed_where_nobody_authenticates_and_for_those_who_may_name_files(
    gateway: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = gateway
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a\n1\n")
    session, text = service.open_session({}), "SELECT * FROM 'ro"
    assert service.complete(session, text, len(text)) == ["'rows.csv'"]
    assert service.complete(session, text, len(text), Asker(permit=Role.READ_ONLY.permit)) == []


def test_a_session_completes_for_the_level_that_opened_it_and_above() -> None:
    with gateway_service() as (service, _):
        session = service.open_session({}, asker=Asker(level=1))
        assert service.session_level(session) == 1
        assert service.session_level("nobody") is None
        assert "SELECT" in service.complete(session, "SEL", 3, Asker(level=2))
        with pytest.raises(UserError, match=f"session '{session}' does not exist"):
            service.complete(session, "SEL", 3, Asker(level=0))


LONG = f"SELECT {', '.join(f'{i} + id AS c{i}' for i in range(4_000))} FROM u"
"""A query of 8,000 expressions: its planner looks some 350,000 times at whether it is given up."""

LAST_LOOKS_MAX = 10


class HeldPlanning:
    """Holds the first statement whose planner looks `look` times, from `reached` to `go_on`. `looks_after` counts those that
    its planner took afterwards."""

    def __init__(self, look: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.looks_after = 0
        self._look_at = look
        self._counts: Counter[Planning] = Counter()
        self._held: Planning | None = None
        self._plain_look = Planning.look
        monkeypatch.setattr(Planning, "look", lambda planning: self._look(planning))

    def _look(self, planning: Planning) -> None:
        self._counts[planning] += 1
        self.looks_after += planning is self._held
        if self._held is None and self._counts[planning] == self._look_at:
            self._held = planning
            self.reached.set()
            assert self.go_on.wait(TIMEOUT_S)
        self._plain_look(planning)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (
            lambda service, session, handle: service.cancel_operation(session, handle),
            OperationStatus.CANCELED,
        ),
        (lambda service, session, handle: service.close_operation(session, handle), OperationStatus.CLOSED),
    ],
    ids=["cancelled", "closed"],
)
@pytest.mark.parametrize("look", [1_000, 300_000])
def test_a_statement_that_is_planned_ends_soon_after_its_operation(
    gateway: Running,
    end: Callable[[GatewayService, str, str], None],
    status: OperationStatus,
    look: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, cluster = gateway
    session = service.open_session({})
    run(service, session, UNBOUNDED.format(rate=1))
    before = statuses(cluster)
    held = HeldPlanning(look, monkeypatch)
    operation = service.execute(session, LONG)
    assert held.reached.wait(TIMEOUT_S)
    assert operation.status is OperationStatus.RUNNING
    end(service, session, operation.handle)
    held.go_on.set()
    # The statements of a session run in order: this one begins when the other has ended.
    assert rows(run(service, session, "SELECT 1")) == [(1,)]
    assert held.looks_after <= LAST_LOOKS_MAX
    assert (operation.status, statuses(cluster)) == (status, before)


def test_a_closed_session_leaves_no_statement_that_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    with gateway_service(GatewayOptions(worker_threads_max=1)) as (service, _):
        session, other = service.open_session({}), service.open_session({})
        run(service, session, UNBOUNDED.format(rate=1))
        held = HeldPlanning(1_000, monkeypatch)
        operation = service.execute(session, LONG)
        assert held.reached.wait(TIMEOUT_S)
        assert operation.status is OperationStatus.RUNNING
        service.close_session(session)
        held.go_on.set()
        # There is but one thread for all sessions.
        assert rows(run(service, other, "SELECT 1")) == [(1,)]
        assert held.looks_after <= LAST_LOOKS_MAX


def test_a_statement_set_belongs_to_the_session_and_runs_at_its_end() -> None:
    with gateway_service() as (service, cluster):
        session, other = service.open_session({"table.dml-sync": "true"}), service.open_session({})
        table = "(n INT) WITH ('connector'='blackhole')"
        run(service, session, f"CREATE TABLE a {table}", f"CREATE TABLE b {table}")
        assert failure(run(service, session, "END")).message == "no statement set has begun"
        for text in ("BEGIN STATEMENT SET;", "INSERT INTO a SELECT 1", "INSERT INTO b SELECT 2"):
            assert rows(run(service, session, text)) == [("OK",)]
        refused = {
            "BEGIN STATEMENT SET": "a statement set has begun already",
            "SELECT 1": "a statement set holds INSERT INTO statements alone",
            "INSERT INTO a SELECT 'x'": 'column "n" of table "a" is INT, but the query gives "EXPR$0" as CHAR(1)',
        }
        for text, said in refused.items():
            assert failure(run(service, session, text)).message == said
        assert rows(run(service, other, "SELECT 3")) == [(3,)]
        assert cluster.jobs() == ()
        ended = run(service, session, "END;")
        assert ended.result().job is not None
        (job,) = cluster.jobs()
        assert {"a", "b"} == {spec.table for _, spec in written_tables(cluster.job_graph(job.job_id))}
        assert rows(run(service, session, "BEGIN STATEMENT SET")) == [("OK",)]
        assert rows(run(service, session, "END")) == [("OK",)]
        assert len(cluster.jobs()) == 1


def test_a_statement_set_whose_end_fails_is_over() -> None:
    with gateway_service() as (service, cluster):
        session, other = service.open_session({}), service.open_session({})
        run(service, other, "CREATE TABLE a (n INT) WITH ('connector'='blackhole')")
        run(service, session, "BEGIN STATEMENT SET", "INSERT INTO a SELECT 1")
        run(service, other, "DROP TABLE a")
        error = failure(run(service, session, "END"))
        assert (error.code, error.span) == ("SS2001", Span(0, 3))  # type: ignore[attr-defined]
        assert failure(run(service, session, "END")).message == "no statement set has begun"
        assert cluster.jobs() == ()
