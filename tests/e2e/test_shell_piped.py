"""The shell off a terminal: statements from a pipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_harness import sqlstream


def test_statements_of_a_pipe_are_run_without_a_prompt() -> None:
    ended = sqlstream("shell", stdin="SELECT 1 AS a;\nSELECT\n  2 AS b\\G\nSHOW CURRENT DATABASE")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (
        "+---+\n| a |\n+---+\n| 1 |\n+---+\n1 row in set\n"
        "-[ row 1 ]-\nb | 2\n1 row in set\n"
        "+-----------------------+\n| current database name |\n+-----------------------+\n"
        "| default_database      |\n+-----------------------+\n1 row in set\n"
    )


def test_no_words_open_the_shell() -> None:
    ended = sqlstream(stdin="SELECT 7 AS n;")
    assert (ended.returncode, ended.stdout.splitlines()[3]) == (0, "| 7 |")


def test_the_first_error_ends_the_shell() -> None:
    ended = sqlstream("shell", stdin="SELECT 1 AS a;\nSELECT b;\nSELECT 3 AS c;\n")
    assert ended.returncode == 2
    assert "| 1 |" in ended.stdout
    assert "| 3 |" not in ended.stdout
    assert 'error[SS2003]: column "b" does not exist' in ended.stderr


def test_an_insert_of_a_pipe_is_over_before_the_next_statement(tmp_path: Path) -> None:
    ended = sqlstream(
        "shell",
        stdin=f"CREATE TABLE t (n INT) WITH ('connector'='filesystem','format'='csv','path'='{tmp_path}/t');"
        "INSERT INTO t VALUES (1), (2); SELECT COUNT(*) AS n FROM t;",
    )
    assert (ended.returncode, ended.stdout.splitlines()[3]) == (0, "| 2 |")


@pytest.mark.slow
def test_a_failed_job_is_exit_code_1() -> None:
    ended = sqlstream("shell", stdin="SELECT CAST(s AS INT) AS n FROM (VALUES ('x')) AS t (s);")
    assert ended.returncode == 1
    assert "error[" in ended.stderr


def test_settings_of_the_command_line_hold_and_files_run_first(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE VIEW v AS SELECT 5 AS n;")
    ended = sqlstream(
        *("shell", "-D", "parallelism.default=3", "-f", str(tmp_path / "a.sql")),
        stdin="SET; SELECT n FROM v; QUIT; SELECT 1;",
    )
    assert ended.returncode == 0
    assert "| parallelism.default | 3     |" in ended.stdout
    assert "| 5 |" in ended.stdout
    assert "EXPR$0" not in ended.stdout


@pytest.mark.slow
def test_a_script_that_runs_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sql"
    path.write_text(f"SOURCE '{path}';")
    ended = sqlstream("shell", stdin=f"SOURCE '{path}';")
    assert ended.returncode == 2
    assert "look for a circle of SOURCE" in ended.stderr


@pytest.mark.slow
def test_wrong_words_of_the_command_line() -> None:
    assert sqlstream("shell", "--embedded", "--connect", "http://localhost", stdin="").returncode == 2
    ended = sqlstream("shell", "-f", "/no/such/file.sql", stdin="")
    assert ended.returncode == 2
    assert 'cannot read "/no/such/file.sql"' in ended.stderr
