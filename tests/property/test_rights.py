"""Whoever lacks a right that a statement needs changes nothing by it, in whatever it is wrapped."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from gateway_harness import gateway_service, settled, until

from sqlstream.client.gateway.asker import Asker
from sqlstream.client.gateway.operations import OperationStatus
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.server.roles import Role
from sqlstream.effects import ALL, NOT_PERMITTED, Permit, Right
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect import statements as kinds
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.runtime.embedded import EmbeddedCluster

R, W, D, C = Right.READ, Right.WRITE, Right.OBJECTS, Right.CATALOGS
J, F, H, P = Right.JOBS, Right.FILES, Right.HINTS, Right.PYTHON

ALL_WELL = UserError("", "")

_PLANNING = {F, H, P}
"""What a statement needs as soon as it is planned."""

Needs = tuple[str, set[Right]]

QUERIES: tuple[Needs, ...] = (
    ("SELECT 1", set()),
    ("SELECT * FROM t", {R}),
    ("SELECT * FROM (SELECT n FROM v UNION ALL SELECT n FROM hinted) WHERE n IN (SELECT n FROM t)", {R}),
    ("SELECT * FROM t /*+ OPTIONS('path'='{0}/in') */", {R, H}),
    ("WITH q AS (SELECT * FROM t /*+ OPTIONS('path'='{0}/in') */) SELECT n FROM q WHERE n > 0", {R, H}),
    ("SELECT n FROM '{0}/in/a.csv'", {R, F}),
    ("SELECT n FROM t WHERE EXISTS (SELECT 1 FROM '{0}/in/a.csv')", {R, F}),
)
INSERTS: tuple[Needs, ...] = (
    ("INSERT INTO o SELECT * FROM t", {R, W}),
    ("INSERT OVERWRITE o SELECT * FROM t", {R, W}),
    ("INSERT OVERWRITE o /*+ OPTIONS('path'='{0}/in') */ SELECT 7", {W, H}),
    ("INSERT INTO o SELECT n FROM '{0}/in/a.csv'", {R, W, F}),
)
CHANGES: tuple[Needs, ...] = (
    ("UPDATE d SET n = 8 WHERE n = 7", {R, W}),
    ("DELETE FROM d WHERE n = 7", {R, W}),
    ("TRUNCATE TABLE o", {W}),
)
OTHERS: tuple[Needs, ...] = (
    ("CREATE TABLE x (n INT) WITH ('connector'='filesystem', 'path'='{0}/o', 'format'='csv')", {D}),
    ("CREATE TEMPORARY TABLE x (n INT) WITH ('connector'='blackhole')", {D}),
    ("CREATE OR REPLACE TABLE t (n INT) WITH ('connector'='blackhole')", {D}),
    ("CREATE TABLE x LIKE '{0}/in/a.csv'", {D, F}),
    ("CREATE TABLE x LIKE t", {D}),
    ("CREATE VIEW x AS SELECT n FROM '{0}/in/a.csv'", {D, F}),
    ("ALTER VIEW v AS SELECT 2 AS n", {D}),
    ("ALTER TABLE t ADD m INT", {D}),
    ("ALTER TABLE t SET ('csv.ignore-parse-errors'='true')", {D}),
    ("ALTER TABLE t RENAME TO t2", {D}),
    ("DROP TABLE t", {D}),
    ("DROP VIEW v", {D}),
    ("CREATE FUNCTION g AS 'shipped.double' LANGUAGE PYTHON USING FILE '{0}/shipped.py'", {D, F, P}),
    ("ALTER FUNCTION f AS 'shipped.double' LANGUAGE PYTHON USING FILE '{0}/shipped.py'", {D, F, P}),
    ("DROP FUNCTION f", {D}),
    (
        "CREATE MODEL x INPUT (n BIGINT) OUTPUT (m BIGINT)"
        " WITH ('provider'='python', 'class'='shipped.Same', 'files'='{0}/shipped.py')",
        {D, F, P},
    ),
    (
        "CREATE MODEL x WITH ('algorithm'='k-means', 'weights.path'='{0}/o/w') AS SELECT n FROM t",
        {R, W, D, F},
    ),
    (
        "EXPLAIN CREATE MODEL x WITH ('algorithm'='k-means', 'weights.path'='{0}/o/w') AS SELECT n FROM t",
        {F},
    ),
    ("SELECT * FROM ML_PREDICT(TABLE v, MODEL trained, DESCRIPTOR(n))", {R}),
    ("SELECT * FROM trained$weights", {R}),
    ("SELECT * FROM s$expired", {R}),
    ("ALTER MODEL m RENAME TO m2", {D}),
    ("DROP MODEL m", {D}),
    ("CREATE DATABASE x", {D}),
    ("ALTER DATABASE default_database SET ('a'='b')", {D}),
    ("DROP DATABASE spare", {D}),
    ("CREATE CATALOG x WITH ('type'='generic_in_memory')", {C}),
    ("ALTER CATALOG c COMMENT 'mine'", {C}),
    ("DROP CATALOG c", {C}),
    ("USE spare", set()),
    ("USE CATALOG c", set()),
    ("SET 'parallelism.default' = '1'", set()),
    ("SET 'execution.checkpointing.dir' = '{0}/o'", {F}),
    ("SET 'execution.checkpointing.savepoint-dir' = '{0}/o'", {F}),
    ("SET 'execution.state-recovery.path' = '{0}/o'", {F}),
    ("SET 's3.endpoint' = 'http://127.0.0.1:1'", {F}),
    ("SET 'python.files' = '{0}/shipped.py'", {F}),
    ("RESET", set()),
    ("BEGIN STATEMENT SET", set()),
    ("END", set()),
    ("SHOW TABLES", set()),
    ("SHOW CREATE TABLE t", set()),
    ("SHOW JOBS", set()),
    ("SHOW CHECKPOINTS", set()),
    ("SHOW LEDGER", set()),
    ("SHOW PROCEDURES", set()),
    ("DESCRIBE t", set()),
    ("DESCRIBE CATALOG c", set()),
    ("DESCRIBE CONNECTOR filesystem", set()),
    ("DESCRIBE JOB '{1}'", set()),
    ("USE MODULES core", set()),
    ("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS", {R}),
    ("STOP JOB '{1}'", {J}),
    ("STOP JOB '{1}' WITH SAVEPOINT", {J}),
    ("CALL sys.trigger_savepoint('{1}')", {J}),
    ("CALL sys.trigger_savepoint('{1}', '{0}/saved')", {J, F}),
    ("CALL trigger_checkpoint('{1}')", {J}),
    ("CALL sys.dispose_savepoint('{0}/in')", {J, F}),
    ("CALL sys.rescale_job('{1}', 2)", {J}),
    ("EXECUTE PLAN '{0}/plan.json'", {R, W, F}),
    ("EXPLAIN PLAN FOR '{0}/plan.json'", {F}),
    ("VERIFY JOB '{1}'", set()),
    ("DIAGNOSE JOB '{1}'", set()),
    ("CANARY JOB '{1}' WITH ('duration' = '1 s') AS INSERT INTO b SELECT n FROM s", {J, R, W}),
    ("EXPLAIN STATE FOR JOB '{1}'", set()),
)


def _wrapped() -> Iterator[Needs]:
    """Every statement, by itself and in everything that may hold it."""
    yield from OTHERS
    for query, needs in QUERIES:
        yield query, needs
        yield f"VERIFY {query}", needs
        yield f"VERIFY {query} USING duckdb", needs
        yield f"EXPLAIN WHY {query}", needs
        yield f"CREATE VIEW x AS {query}", (needs & _PLANNING) | {D}
        created = "CREATE TABLE x (n) WITH ('connector'='filesystem', 'path'='{0}/o', 'format'='csv') AS "
        created = created.replace(" (n)", "")
        yield f"{created}{query}", needs | {D, W}
        yield f"EXPLAIN {created}{query}", needs & _PLANNING
        yield f"EXPLAIN ANALYZE {created}{query}", needs | {W}
    for insert, needs in INSERTS:
        yield insert, needs
        both = f"EXECUTE STATEMENT SET BEGIN {insert}; INSERT INTO o2 SELECT 1; END"
        for written, wanted in ((insert, needs), (both, needs | {W})):
            yield f"VERIFY {written}", wanted - {W}
            yield f"COMPILE PLAN '{{0}}/new.json' FOR {written}", (wanted & _PLANNING) | {F}
            yield f"COMPILE AND EXECUTE PLAN '{{0}}/new.json' FOR {written}", wanted | {F}
        yield both.replace("OVERWRITE", "INTO"), needs | {W}
    for written, needs in (*QUERIES, *INSERTS):
        yield f"EXPLAIN UPGRADE FOR JOB '{{1}}' AS {written}", needs & _PLANNING
        yield f"EXPLAIN UPGRADE FOR SAVEPOINT '{{0}}/in' AS {written}", (needs & _PLANNING) | {F}
    for change, needs in (*QUERIES, *INSERTS, *CHANGES):
        yield f"EXPLAIN {change}", needs & _PLANNING
        yield f"EXPLAIN STATE {change}", needs & _PLANNING
        yield f"EXPLAIN ANALYZE {change}", needs
        yield f"EXPLAIN CHANGELOG_MODE {change}", needs & _PLANNING
    yield from CHANGES


STATEMENTS = tuple(dict(_wrapped()).items())


@dataclasses.dataclass(frozen=True)
class World:
    """A gateway with tables, a job that runs, and files. `job` is that of the job."""

    service: GatewayService
    cluster: EmbeddedCluster
    directory: Path
    session: str
    job: str

    def opened(self) -> str:
        """Another session."""
        return self.service.open_session(
            {"execution.checkpointing.savepoint-dir": str(self.directory / "saved")}
        )

    def text(self, statement: str) -> str:
        return statement.replace("{0}", str(self.directory)).replace("{1}", self.job)

    def run(self, statement: str, permit: Permit, session: str = "") -> str:
        """Run to the end; the code of its error."""
        asker = Asker(permit=permit)
        operation = settled(self.service.execute(session or self.session, statement, asker=asker))
        try:
            result = operation.result()
        except SqlStreamError as error:
            return error.code
        if result.is_query:
            result.close()
        elif result.job is not None:
            result.job.wait(60)
        return ""

    def seen(self) -> tuple[object, ...]:
        """What others see: files, catalogs, and the jobs that are no queries."""
        files = {str(path): path.read_bytes() for path in sorted(self.directory.rglob("*")) if path.is_file()}
        session = self.service.session(self.service.open_session({})).session
        kept = session.catalog.snapshot()
        catalogs = [
            (
                c,
                kept.definition(c),
                d,
                kept.database(c, d),
                kept.list(c, d),
                kept.functions(c, d),
                kept.models(c, d),
            )
            for c in kept.catalogs()
            for d in kept.databases(c)
        ]
        jobs = [
            (job.job_id, job.status, job.name)
            for job in self.cluster.jobs()
            if not (graph := self.cluster.job_graph(job.job_id)).is_query and not graph.is_for_planning
        ]
        return files, catalogs, sorted(jobs, key=str)


@contextlib.contextmanager
def world(directory: Path) -> Iterator[World]:
    for name in ("in", "o", "o2"):
        (directory / name).mkdir(parents=True)
        (directory / name / "a.csv").write_text("n\n7\n")
    (directory / "shipped.py").write_text(
        "from sqlstream import PredictFunction, udf\n\n\n@udf\ndef double(n: int) -> int:\n    return 2 * n\n\n\n"
        "class Same(PredictFunction):\n    def predict(self, batch):\n        return {'m': batch.column('n')}\n"
    )
    with gateway_service() as (service, cluster):
        session = service.open_session({"execution.checkpointing.savepoint-dir": str(directory / "saved")})
        made = World(service, cluster, directory, session, "")
        files = "(n BIGINT) WITH ('connector'='filesystem', 'format'='csv', 'csv.header'='true', 'path'='{0}/"
        for statement in (
            f"CREATE TABLE t {files}in')",
            f"CREATE TABLE o {files}o')",
            f"CREATE TABLE o2 {files}o2')",
            "CREATE TABLE d (k INT, n INT, PRIMARY KEY (k) NOT ENFORCED)"
            " WITH ('connector'='duckdb', 'path'='{0}/d.duckdb', 'table-name'='d')",
            "CREATE VIEW v AS SELECT n FROM '{0}/in/a.csv'",
            "CREATE VIEW hinted AS SELECT n FROM t /*+ OPTIONS('path'='{0}/in') */",
            "CREATE FUNCTION f AS 'shipped.double' LANGUAGE PYTHON USING FILE '{0}/shipped.py'",
            "CREATE MODEL m INPUT (n BIGINT) OUTPUT (m BIGINT)"
            " WITH ('provider'='python', 'class'='shipped.Same', 'files'='{0}/shipped.py')",
            "CREATE MODEL trained INPUT (n BIGINT) OUTPUT (c INT)"
            " WITH ('provider'='trained', 'algorithm'='k-means', 'weights.path'='{0}/w')",
            "CREATE DATABASE spare",
            "CREATE CATALOG c WITH ('type'='generic_in_memory')",
            "CREATE TABLE s (n INT) WITH ('connector'='datagen', 'rows-per-second'='1')",
            "CREATE TABLE b (n INT) WITH ('connector'='blackhole')",
            "INSERT INTO d SELECT 1, 7",
            "COMPILE PLAN '{0}/plan.json' FOR INSERT INTO o SELECT n FROM t",
        ):
            assert made.run(made.text(statement), ALL) == "", statement
        job = settled(service.execute(session, "INSERT INTO b SELECT n FROM s")).result().job
        assert job is not None
        settings = {
            "sqlstream.state.expired-rows.retention": "1 h",
            "table.exec.state.ttl": "1 s",
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
        }
        settled(service.execute(session, "INSERT INTO b SELECT DISTINCT n FROM s", settings)).result()
        until(lambda: any(j.status is JobStatus.RUNNING for j in cluster.jobs() if j.job_id == job.id))
        yield dataclasses.replace(made, job=job.id)


def test_every_kind_of_statement_is_tried() -> None:
    texts = [text.replace("{0}", "/d").replace("{1}", "0" * 32) for text, _ in STATEMENTS]
    tried = {type(statement) for text in texts for statement in parse_script(text)}
    found = {kind for kind in vars(kinds).values() if isinstance(kind, type)}
    concrete = {kind for kind in found if issubclass(kind, kinds.Statement)} - {kinds.Statement}
    assert {kind.__name__ for kind in concrete - tried} == set()


def _refused_unchanged(found: World, text: str, permit: Permit, code: str = NOT_PERMITTED) -> None:
    before = found.seen()
    session = found.opened()
    assert found.run(found.text(text), permit, session) == code, (text, permit.rights)
    found.service.close_session(session)
    assert found.seen() == before, (text, permit.rights)


def test_without_one_of_its_rights_a_statement_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        for text, needs in STATEMENTS:
            for right in needs:
                _refused_unchanged(found, text, Permit("nobody", frozenset(Right) - {right}))


def test_the_role_read_only_changes_nothing(tmp_path: Path) -> None:
    permit = Role.READ_ONLY.permit
    with world(tmp_path) as found:
        before = found.seen()
        for text, needs in STATEMENTS:
            session = found.opened()
            code = found.run(found.text(text), permit, session)
            found.service.close_session(session)
            assert (code == NOT_PERMITTED) == (not needs <= permit.rights), (text, code)
            assert found.seen() == before, text


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_with_its_rights_alone_a_statement_is_permitted(tmp_path: Path, number: int) -> None:
    text, needs = STATEMENTS[number]
    with world(tmp_path) as found:
        assert found.run(found.text(text), Permit("somebody", frozenset(needs))) != NOT_PERMITTED


def test_settings_of_a_session_and_of_a_statement_need_rights_too(tmp_path: Path) -> None:
    asker = Asker(permit=Role.READ_ONLY.permit)
    with world(tmp_path) as found:
        before = found.seen()
        places: tuple[Mapping[str, str], ...] = (
            {"execution.checkpointing.dir": str(tmp_path / "o")},
            {"execution.state-recovery.path": str(tmp_path / "o")},
            {"python.files": str(tmp_path / "shipped.py")},
            {"s3.endpoint": "http://127.0.0.1:1"},
        )
        for settings in places:
            with pytest.raises(UserError, match="may not name files and servers"):
                found.service.open_session(settings, asker=asker)
            for run in (found.service.execute, found.service.run_script):
                with pytest.raises(UserError, match="may not name files and servers"):
                    run(found.session, "SELECT * FROM t", settings, asker)
        assert found.seen() == before


def test_scripts_and_configuration_have_the_rights_of_who_sends_them(tmp_path: Path) -> None:
    asker = Asker(permit=Role.READ_ONLY.permit)
    with world(tmp_path) as found:
        before = found.seen()
        operations = [
            found.service.run_script(found.session, "SHOW TABLES; INSERT INTO o SELECT 1", asker=asker),
            found.service.run_script(
                found.session, found.text("EXPLAIN ANALYZE INSERT OVERWRITE o SELECT 9"), asker=asker
            ),
            found.service.configure_session(found.session, "DROP TABLE t", asker),
        ]
        for operation in operations:
            assert settled(operation).status is OperationStatus.ERROR
            assert (operation.error or ALL_WELL).code == NOT_PERMITTED
        assert found.seen() == before
