"""The commands that talk to a server, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_harness import ROOT, SQLSTREAM, TIMEOUT_S, Process, environment, sqlstream
from server_harness import RunningServer

TICKS = """CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000');
CREATE TEMPORARY TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nothing SELECT n FROM ticks;
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as server:
        yield server.gateway


@pytest.fixture
def command(url: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command against the server to its end."""

    def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
        state = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        return sqlstream(*words, env=environment(SQLSTREAM_URL=url, **state), **options)

    return run


Command = Callable[..., subprocess.CompletedProcess[str]]


def submitted(command: Command, text: str, *words: str) -> str:
    """Submit a script with one INSERT, detached; the id of its job."""
    done = command("submit", "--detached", "--json", *words, "-", stdin=text)
    assert done.returncode == 0, done.stderr
    (job,) = [said["jid"] for said in map(json.loads, done.stdout.splitlines()) if said["kind"] == "JOB"]
    return str(job)


def test_the_statements_of_a_file_run_in_one_session(
    command: Command, script: Callable[[str], str], tmp_path: Path
) -> None:
    path = script(
        f"""SET 'parallelism.default' = '1';
CREATE TEMPORARY TABLE t (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv');
INSERT INTO t VALUES (1), (2), (3);
SELECT n, COUNT(*) AS c FROM t WHERE n > 1 GROUP BY n;
EXPLAIN SELECT 1;
"""
    )
    done = command("submit", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:6] == [
        "+---+---+",
        "| n | c |",
        "+---+---+",
        "| 2 | 1 |",
        "| 3 | 1 |",
        "+---+---+",
    ]
    assert "== Abstract Syntax Tree ==" in done.stdout
    assert "INSERT INTO t: read 3 rows, wrote 3, late 0, rejected 0 in" in done.stderr


def test_json_is_one_object_per_statement(command: Command) -> None:
    done = command(
        "submit",
        "--json",
        "-",
        stdin="SHOW VIEWS;\n\nSELECT 1 AS a, 'x' AS b;\nSET 'parallelism.default' = '2';",
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"line": 1, "kind": "ROWS", "rows": []},
        {"line": 3, "kind": "QUERY", "rows": [{"a": 1, "b": "x"}]},
        {"line": 4, "kind": "CONFIRMATION", "text": "'parallelism.default' is '2'"},
    ]


def test_json_keeps_every_digit(command: Command) -> None:
    query = (
        "SELECT CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)) AS d, U&'x\\2028y' AS s"
    )
    done = command("submit", "--json", "-", stdin=f"{query};\n{query} FROM (VALUES (1), (2)) AS t (a);")
    row = '{"d":12345678901234567890.123456789012345678,"s":"x\u2028y"}'
    assert done.stdout.rstrip("\n").split("\n") == [
        f'{{"line": 1, "kind": "QUERY", "rows": [{row}]}}',
        f'{{"line": 2, "kind": "QUERY", "rows": [{row}, {row}]}}',
    ]


def test_errors_underline_the_file(command: Command) -> None:
    done = command("submit", "-", stdin="SET 'parallelism.default' = '1';\nSELECT nope;\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1:3] == ["  2 | SELECT nope;", "    |        ^^^^"]
    done = command("submit", "-", stdin="CREATE VIEW never AS SELECT 1;\nSELEC 1;")
    assert done.returncode == 2
    assert "never" not in command("tables", "--json").stdout
    done = command("submit", "-", stdin=TICKS.partition("INSERT")[0] + "SELECT n FROM ticks;")
    assert (done.returncode, "SS4045" in done.stderr) == (2, True)


def test_a_job_that_fails_is_exit_code_1(command: Command, tmp_path: Path) -> None:
    text = f"""CREATE TEMPORARY TABLE t (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv');
INSERT INTO t SELECT 1 / v FROM (VALUES (0)) AS s(v);"""
    done = command("submit", "-", stdin=text)
    assert (done.returncode, "error[SS5101]: division by zero" in done.stderr) == (1, True)
    job_id = done.stderr.split()[1].removesuffix(":")
    shown = command("job", job_id)
    assert (shown.returncode, "error[SS5101]: division by zero" in shown.stdout) == (0, True)
    cancelled = command("cancel", job_id)
    assert (cancelled.returncode, cancelled.stdout) == (0, f"job {job_id} was ended already: FAILED\n")


def test_a_detached_job_is_listed_shown_and_cancelled(command: Command) -> None:
    job_id = submitted(command, TICKS, "--name", "my ticks")
    (job,) = json.loads(command("jobs", "--running", "--json").stdout)
    assert (job["jid"], job["name"], job["state"]) == (job_id, "my ticks", "RUNNING")
    lines = command("jobs").stdout.splitlines()
    assert any(job_id in line and "my ticks" in line and "RUNNING" in line for line in lines)
    shown = json.loads(command("job", job_id[:12], "--json").stdout)
    assert (shown["job"]["jid"], shown["totals"]["status"]) == (job_id, "RUNNING")
    text = command("job", job_id).stdout
    assert [line.split()[0] for line in text.splitlines()[:4]] == ["job", "name", "status", "started"]
    assert json.loads(command("status", "--json").stdout)["jobs-running"] == 1
    done = command("cancel", job_id[:12])
    assert (done.returncode, done.stdout) == (0, f"job {job_id} is now: CANCELED\n")
    assert json.loads(command("jobs", "--running", "--json").stdout) == []
    assert "1 running" not in command("status").stdout


def test_ctrl_c_leaves_the_job_alone(command: Command, url: str) -> None:
    process = Process(
        [*SQLSTREAM, "submit", "-"],
        cwd=ROOT,
        env=environment(SQLSTREAM_URL=url),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(TICKS)
    process.stdin.close()
    job_id = process.stderr.readline().split()[1].removesuffix(":")
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130
    assert f"job {job_id} runs on; end it with: sqlstream cancel {job_id}" in process.stderr.read()
    assert json.loads(command("job", job_id, "--json").stdout)["job"]["state"] == "RUNNING"
    assert command("cancel", job_id).returncode == 0


def test_unknown_jobs_are_named(command: Command) -> None:
    for words in (("job", "0" * 32), ("cancel", "zzz"), ("job", "")):
        done = command(*words)
        assert (done.returncode, "is not known" in done.stderr, "Traceback" in done.stderr) == (
            2,
            True,
            False,
        )


def test_tables_of_all_catalogs_are_listed(command: Command) -> None:
    text = (
        "CREATE VIEW a_view AS SELECT 1 AS a; CREATE TABLE a_table (a INT) WITH ('connector' = 'blackhole');"
    )
    assert command("submit", "-", stdin=text).returncode == 0
    found = json.loads(command("tables", "--json").stdout)
    assert {
        "catalog": "default_catalog",
        "database": "default_database",
        "name": "a_table",
        "kind": "table",
    } in found
    assert {
        "catalog": "default_catalog",
        "database": "default_database",
        "name": "a_view",
        "kind": "view",
    } in found
    assert "| a_table " in command("tables", "--database", "default_database").stdout
    assert command("tables", "--database", "no_such").returncode == 2


def test_no_server_is_said_with_its_url_and_what_to_do(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for words in (("jobs",), ("status",), ("tables",), ("job", "1"), ("submit", "-")):
        done = sqlstream(
            *words, "--server", "http://127.0.0.1:9", env=environment(**state), stdin="SELECT 1;"
        )
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            "error[SS5040]: cannot connect to http://127.0.0.1:9: connection refused",
            "hint: start a server with: sqlstream server",
        ]


def test_the_local_server_and_its_token_are_found(url: str, tmp_path: Path) -> None:
    directory = tmp_path / "sqlstream"
    directory.mkdir()
    (directory / "server.json").write_text(json.dumps({"gateway": url, "rest": url}))
    (directory / "token").write_text("the-token\n")
    env = {
        key: value
        for key, value in environment(XDG_STATE_HOME=str(tmp_path)).items()
        if key != "SQLSTREAM_URL"
    }
    done = sqlstream("status", "--json", env=env)
    assert json.loads(done.stdout)["url"] == url


def test_commands_complete_in_a_shell(command: Command, url: str) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = command("completion", shell)
        assert (done.returncode, "sqlstream" in done.stdout) == (0, True)
    job_id = submitted(command, TICKS)
    assert completed(url, "sqlstream ca") == ["cancel "]
    assert "--detached" in completed(url, "sqlstream submit --d")[0]
    assert [word.strip() for word in completed(url, f"sqlstream cancel {job_id[:6]}")] == [job_id]
    assert command("cancel", job_id).returncode == 0


def completed(url: str, line: str) -> list[str]:
    """The words with which the command answers a shell's script."""
    reading, writing = os.pipe()
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\v"}
    with os.fdopen(reading) as answer:
        script = f'exec "$@" 8>&{writing} 9>/dev/null'
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", *SQLSTREAM],
            cwd=ROOT,
            env=environment(SQLSTREAM_URL=url, **asked),
            pass_fds=[writing],
        )
        os.close(writing)
        words = answer.read()
        process.wait(TIMEOUT_S)
    return words.split("\v")
