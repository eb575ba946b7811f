"""The shell of a server: the same keys, with the statements run elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_harness import sqlstream
from gateway_harness import until
from server_harness import RunningServer
from shell_harness import CTRL_C, CTRL_D, ENTER, PROMPT, TAB, ShellOnTerminal

TICKS = """CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '200',
  'fields.n.kind' = 'random', 'fields.n.min' = '1', 'fields.n.max' = '3');"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as server:
        yield server


def test_a_shell_on_a_server(server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(TICKS)
    with ShellOnTerminal(tmp_path, "--connect", server.gateway, "-f", str(tmp_path / "a.sql")) as shell:
        shell.wait_for_prompt()
        assert shell.run("SELECT 1 AS a;")[1] == "| a |"
        assert shell.run("SELECT nn FROM ticks;")[1:3] == ["  1 | SELECT nn FROM ticks;", "    |        ^^"]
        assert server.gateway in shell.run("\\conninfo")[0]
        shell.send("SELECT * FROM tic")
        shell.wait(lambda: shell.lines[-1].strip() == "ticks", "the menu")
        shell.send(TAB + ";" + CTRL_C)
        shell.wait_for_prompt()
        assert f"{PROMPT} SELECT * FROM ticks;" in shell.lines
        shell.send("SELECT n, COUNT(*) AS c FROM ticks GROUP BY n;" + ENTER)
        shell.wait(lambda: shell.lines[-1].startswith(" rows 1-3 of 3"), "three rows")
        shell.send("q")
        shell.wait_for_prompt()
        shell.run("SET 'sql-client.execution.result-mode' = 'tableau';")
        shell.send("SELECT n FROM ticks;" + ENTER)
        shell.wait(lambda: shell.text.count("| +I |") > 3)
        shell.send(CTRL_C)
        shell.wait_for_prompt()
        assert re.fullmatch(r"SELECT: job [0-9a-f]{32} was cancelled", shell.lines[-2])


@pytest.mark.slow
def test_ctrl_c_ends_a_statement_that_is_planned(server: RunningServer, tmp_path: Path) -> None:
    columns = ", ".join(f"{i} + n AS c{i}" for i in range(40_000))
    (tmp_path / "long.sql").write_text(f"SELECT {columns} FROM ticks;")
    with ShellOnTerminal(tmp_path, "--connect", server.gateway) as shell:
        shell.wait_for_prompt()
        shell.run(TICKS.replace("TABLE", "TEMPORARY TABLE").replace("\n", " "))
        shell.send(f"SOURCE '{tmp_path / 'long.sql'}';{ENTER}")
        # The statement is in the audit log before it is planned, which takes ten seconds or more.
        audit, before = server.directory / "audit", set(server.statuses())
        until(lambda: any("5 + n AS c5" in path.read_text() for path in audit.iterdir()))
        shell.send(CTRL_C)
        shell.wait_for_prompt()
        assert "| a |" in shell.run("SELECT 1 AS a;")
        # Had it been planned to its end, its job would have begun.
        assert set(server.statuses()) == before


@pytest.mark.slow
def test_a_job_outlives_the_shell_that_submitted_it(server: RunningServer, tmp_path: Path) -> None:
    with ShellOnTerminal(tmp_path, "--connect", server.gateway) as shell:
        shell.wait_for_prompt()
        shell.run(TICKS.replace("TABLE", "TEMPORARY TABLE").replace("\n", " "))
        shell.run("CREATE TEMPORARY TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');")
        job_id = re.findall("[0-9a-f]{32}", shell.run("INSERT INTO nowhere SELECT n FROM ticks;")[0])[0]
        shell.send(CTRL_D)
        assert shell.end() == 0
    ended = sqlstream("shell", "--connect", server.gateway, stdin=f"\\jobs\nSTOP JOB '{job_id}';")
    assert re.search(rf"{job_id}  RUNNING", ended.stdout)
    assert ended.returncode == 0


def test_a_server_that_does_not_answer_is_told_at_once() -> None:
    ended = sqlstream("shell", "--connect", "http://localhost:9", stdin="SELECT 1;")
    assert ended.returncode == 1
    assert "http://localhost:9" in ended.stderr
    assert ended.stdout == ""
