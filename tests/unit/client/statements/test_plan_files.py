"""A compiled plan is the job that was planned: it keeps uids and state, needs no catalog, and is refused when it is not whole."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sqlstream.client.sessions.outcomes import Job, Text
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.client.statements.plan_files import decode_plan, encode_plan
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.planner.dialect.parser import parse_script, parse_statement
from sqlstream.planner.dialect.statements import Insert, StatementSet

QUERIES = Path(__file__).parents[4] / "queries" / "nexmark"


def operators(graph: JobGraph) -> list[object]:
    return [
        (o.uid, o.state, o.output_schema, o.output_mode, o.input) for v in graph.vertices for o in v.operators
    ]


def run(session: Session, text: str) -> str:
    outcome = session.execute(parse_statement(text))
    if isinstance(outcome, Job):
        status, error = outcome.wait()
        assert error is None, error
        return status.value
    return outcome.text if isinstance(outcome, Text) else outcome.done


def test_plans_of_nexmark_are_read_back_as_they_were_written() -> None:
    count = 0
    for path in sorted(QUERIES.glob("q*.sql")):
        with local_session() as session:
            for statement in parse_script(path.read_text()):
                if isinstance(statement, Insert | StatementSet):
                    graph = session.compile(statement).job_graph
                    again, text = decode_plan(encode_plan(graph, statement.text), "p")
                    assert operators(again) == operators(graph), path
                    assert (again.edges, again.scaling, text) == (graph.edges, graph.scaling, statement.text)
                    count += 1
                else:
                    session.execute(statement)
    assert count > 10


def test_a_plan_runs_without_the_tables_that_it_was_made_with(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    words = f"CREATE TABLE words (w STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/w', 'format' = 'csv')"
    out = f"CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/o', 'format' = 'csv')"
    with local_session() as session:
        for text in (words, out, "INSERT INTO words VALUES ('a'), ('b')"):
            run(session, text)
        insert = "INSERT INTO o SELECT CAST(CHAR_LENGTH(w) AS BIGINT) FROM words"
        assert run(session, f"COMPILE PLAN '{plan}' FOR {insert}") == f'plan "{plan}" compiled'
        written = plan.read_bytes()
        assert plan.stat().st_mode & 0o077 == 0
        with pytest.raises(UserError, match="exists already"):
            run(session, f"COMPILE PLAN '{plan}' FOR {insert}")
        for text in ("DROP TABLE words", "DROP TABLE o"):
            run(session, text)
        # What is there is kept, so nothing is planned.
        assert "nothing compiled" in run(session, f"COMPILE PLAN '{plan}' IF NOT EXISTS FOR {insert}")
        assert plan.read_bytes() == written
        assert run(session, f"EXECUTE PLAN '{plan}'") == "FINISHED"
        assert run(session, f"COMPILE AND EXECUTE PLAN '{plan}' FOR {insert}") == "FINISHED"
        session.config["parallelism.default"] = "2"
        assert run(session, f"EXECUTE PLAN '{plan}'") == "FINISHED"
        assert insert in run(session, f"EXPLAIN PLAN FOR '{plan}'")
        session.config["table.plan.force-recompile"] = "true"
        with pytest.raises(UserError, match='"o" does not exist'):
            run(session, f"COMPILE PLAN '{plan}' FOR {insert}")
        assert plan.read_bytes() == written
    rows = [line for file in (tmp_path / "o").glob("part-*") for line in file.read_text().split()]
    assert rows == ["1"] * 6


def signed(plan: dict[str, Any]) -> dict[str, Any]:
    """The job of a plan whose digest will be right."""
    plan["signs"] = True
    job: dict[str, Any] = plan["job"]
    return job


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda plan: plan["job"]["config"].update({"table.local-time-zone": "Asia/Tokyo"}),
            "was changed since",
        ),
        (lambda plan: plan.update(version="0.0.9"), "compiled by another version"),
        (lambda plan: plan.update(format=2), "compiled by another version"),
        (lambda plan: plan.pop("job"), "is JSON, but no compiled plan"),
        (lambda plan: plan.pop("digest"), "was changed since"),
        (lambda plan: signed(plan)["vertices"][0].update(operators=[]), "is damaged"),
        (lambda plan: signed(plan).update(version=2**40), "is damaged"),
    ],
)
def test_a_plan_that_is_not_as_it_was_compiled_is_refused_at_its_path(
    tmp_path: Path, change: object, message: str
) -> None:
    path = tmp_path / "plan.json"
    with local_session() as session:
        run(session, "CREATE TABLE o (n INT) WITH ('connector' = 'blackhole')")
        run(session, f"COMPILE PLAN '{path}' FOR INSERT INTO o VALUES (1)")
        plan = json.loads(path.read_text())
        change(plan)  # type: ignore[operator]
        if plan.pop("signs", False):
            plan["digest"] = hashlib.sha256(msgspec.json.encode(plan["job"], order="sorted")).hexdigest()
        path.write_text(json.dumps(plan))
        text = f"EXECUTE PLAN '{path}'"
        with pytest.raises(UserError, match=message) as raised:
            run(session, text)
        path.write_bytes(b"\x80\x04K")
        with pytest.raises(UserError, match="is no compiled plan"):
            run(session, text)
    span = raised.value.span
    assert span is not None
    assert text[span.start : span.end] == f"'{path}'"


def test_a_plan_that_was_written_to_read_what_jobs_keep_is_refused() -> None:
    """A file could name any checkpoint."""
    with local_session() as session:
        session.execute(parse_statement("CREATE TABLE s (n INT) WITH ('connector' = 'datagen')"))
        session.execute(parse_statement("CREATE TABLE b (n INT) WITH ('connector' = 'blackhole')"))
        statement = parse_statement("INSERT INTO b SELECT n FROM s")
        written = json.loads(encode_plan(session.compile(statement).job_graph, statement.text))
    job = json.loads(json.dumps(written["job"]).replace('"datagen"', '"expired-rows"'))
    digest = hashlib.sha256(msgspec.json.encode(job, order="sorted")).hexdigest()
    with pytest.raises(UserError, match="SS3572"):
        decode_plan(json.dumps({**written, "job": job, "digest": digest}).encode(), "p")
