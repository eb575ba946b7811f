"""Whatever a statement answers or complains of, it shows no secret that its text, or a stored definition, holds."""

from __future__ import annotations

from pathlib import Path

from sqlstream.client.http_api.errors import error_detail
from sqlstream.client.sessions.outcomes import Job, Rows, Text
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import SqlStreamError, render_error
from sqlstream.planner.dialect.parser import parse_script

SECRET = "hunter2-hunter2"

SETUP = (
    "CREATE TABLE t (n INT) WITH ('connector'='jdbc', 'url'='jdbc:postgresql://127.0.0.1:1/d',"
    " 'table-name'='t', 'username'='u', 'password'='$')",
    "CREATE VIEW v AS SELECT * FROM t /*+ OPTIONS('password'='$') */",
    "CREATE TABLE s (n INT) WITH ('connector'='datagen', 'number-of-rows'='1')",
    "COMPILE PLAN '{0}/p.json' FOR INSERT INTO t /*+ OPTIONS('password'='$') */ SELECT n FROM s",
    "CREATE DATABASE d WITH ('password'='$')",
)
STATEMENTS = (
    *("SHOW CREATE TABLE t", "SHOW CREATE VIEW v", "DESCRIBE EXTENDED t", "DESCRIBE EXTENDED v"),
    *("DESCRIBE DATABASE EXTENDED d", "EXPLAIN PLAN FOR '{0}/p.json'", "EXPLAIN SELECT * FROM v"),
    "EXPLAIN JSON_EXECUTION_PLAN SELECT * FROM t /*+ OPTIONS('password'='$') */",
    *(
        "SET 'pasword' = '$'",
        "SET 's3.secret-kay' = '$'",
        "SET s3.secret-key = $",
        "SET 's3.secret-key' = '$'",
    ),
    *("SET 'password'=$", "SET 'pipeline.name' = 'INSERT INTO t /*+ OPTIONS(''password''=''$'') */'", "SET"),
    *(f"SELECT * FROM t /*+ OPTIONS('{key}'='$') */" for key in ("password", "pasword", "passwd", "pass")),
    *(f"INSERT INTO t /*+ OPTIONS('{key}'='$', 'no'='1') */ SELECT 1" for key in ("password", "pasword")),
    "SELECT nn FROM t /*+ OPTIONS('password'='$') */",
    "SELECT '$' + FROM t /*+ OPTIONS('password'='$') */",
    "CREATE VIEW w AS SELECT nn FROM t /*+ OPTIONS('password'='$') */",
    *(f"ALTER TABLE t SET ('{key}'='$', 'no'='1')" for key in ("password", "pasword")),
    *(
        f"CREATE TABLE x (n INT) WITH ('connector'='{name}', {pair})"
        for name in ("jdbc", "print", "nothing")
        for pair in ("'pasword'='$'", "'passwort'='$'", "password='$'", "'password'=$", "'password':'$'")
    ),
    *(
        f"CREATE TABLE x (n INT) WITH ('connector'='jdbc', 'table-name'='t', 'url'='{url}')"
        for url in ("jdbc:postgresql://u:$@h/d", "jdbc:postgresql://h/d?user=u&password=$")
    ),
    "CREATE CATALOG c WITH ('type'='generic_in_memory', 'pasword'='$')",
    "CREATE CATALOG c WITH ('type'='nothing', 'password'='$')",
    "CREATE USER u IDENTIFIED BY '$'",
    "CREATE TABLE x (n INT) WITH ('connector'='print', 'password'='$",
)


def test_no_answer_and_no_error_shows_a_secret(tmp_path: Path) -> None:
    with local_session() as session:
        for text in (*SETUP, *STATEMENTS):
            script = text.replace("$", SECRET).replace("{0}", str(tmp_path))
            try:
                (statement,) = parse_script(script)
                outcome = session.execute(statement)
            except SqlStreamError as error:
                said = f"{render_error(error, script)} {error_detail(error, script)}"
                assert text not in SETUP, said
            else:
                said = _said(outcome)
            assert SECRET not in said, text
    # It runs without the catalog, so it has the options of its tables; only its user can read it.
    assert (tmp_path / "p.json").read_text().count(SECRET) == 1


def _said(outcome: Rows | Text | Job) -> str:
    if isinstance(outcome, Text):
        return outcome.text
    if isinstance(outcome, Rows):
        return f"{[batch.to_pylist() for batch in outcome.batches]} {outcome.done} {outcome.note}"
    status, error = outcome.wait(60)
    name = outcome.cluster.job_graph(outcome.id).name
    return f"{outcome.label} {outcome.note} {name} {status} {error and render_error(error.to_error())}"
