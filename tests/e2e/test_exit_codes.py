"""Exit codes: 1 for what failed when it ran, 2 for what was refused before, and the same for each command."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_harness import ROOT, SQLSTREAM, Process, environment
from server_harness import RunningServer

from sqlstream.client.main import main

REFUSED = {
    "SS1001": "SELEC 1",
    "SS2003": "SELECT b FROM (VALUES (1)) AS t(a)",
    "SS4001": "SET 'nope' = '1'",
    "SS4002": "SET 'parallelism.default' = 'x'",
    "SS5002": "SELECT * FROM '/no/such/file.csv'",
    "SS3303": "CREATE TEMPORARY TABLE n (n INT) WITH ('connector' = 'datagen'); VERIFY SELECT * FROM n",
}
"""Statements that no command runs, by the code of the error."""

FAILED = {
    "SS5101": "SELECT 1 / (a - a) FROM (VALUES (1)) AS t(a)",
    "SS5102": "SELECT CAST(s AS INT) FROM (VALUES ('x')) AS t(s)",
}
"""Statements whose jobs fail."""

GONE = (
    "CREATE TEMPORARY TABLE m (a INT) WITH ('connector' = 'filesystem', 'path' = '/no/such/file.csv', 'format' = 'csv');"
    "SELECT a FROM m"
)
LATE = """
CREATE TEMPORARY TABLE t (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem',
  'path' = '{path}', 'format' = 'csv', 'scan.watermark.emit.strategy' = 'on-event');
VERIFY SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end USING duckdb;
SELECT 'after' AS word;
"""

Code = Callable[..., int]


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> Code:
    """The exit code of a command, which runs in this process to spare a start for each test."""

    def run(*words: str, stdin: str = "") -> int:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            return main(words)
        except SystemExit as usage:
            return int(usage.code or 0)

    return run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


def codes(text: str, path: Path, code: Code) -> dict[str, int]:
    """Of each command that runs a script on a cluster of its own."""
    path.write_text(text)
    return {
        "run": code("run", "--quiet", str(path)),
        "verify": code("verify", str(path)),
        "shell": code("shell", stdin=text),
        "shell -f": code("shell", "-f", str(path)),
    }


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_it_runs_ends_each_command_with_2(
    name: str, tmp_path: Path, code: Code, capsys: pytest.CaptureFixture[str]
) -> None:
    found = codes(f"{REFUSED[name]};", tmp_path / "a.sql", code)
    assert set(found.values()) == {2}, found
    assert capsys.readouterr().err.count(f"error[{name}]") == len(found)
    assert code("explain", str(tmp_path / "a.sql")) == (0 if name == "SS3303" else 2)


@pytest.mark.parametrize("text", [*FAILED.values(), GONE], ids=[*FAILED, "SS5002"])
def test_what_fails_when_it_runs_ends_each_command_with_1(text: str, tmp_path: Path, code: Code) -> None:
    found = codes(f"{text};", tmp_path / "a.sql", code)
    assert set(found.values()) == {1}, found
    assert code("explain", str(tmp_path / "a.sql")) == 0


def test_a_server_s_answers_end_commands_with_the_same_codes(
    server: RunningServer, tmp_path: Path, code: Code, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sql"
    for expected, text in [*((2, t) for t in REFUSED.values()), *((1, t) for t in (*FAILED.values(), GONE))]:
        path.write_text(text)
        found = code("submit", "--server", server.gateway, str(path))
        assert (found, code("shell", "--connect", server.gateway, stdin=text)) == (expected, expected), text
    for command in ("job", "cancel", "logs"):
        assert code(command, "--server", server.gateway, "nobody") == 2
    assert "Traceback" not in capsys.readouterr().err
    # The log may have a job that the server has forgotten.
    assert code("logs", "--server", server.gateway, "f" * 32) == 0
    assert f'the log has nothing on job "{"f" * 32}"' in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "jobs", "tables", "submit", "shell"])
def test_a_server_that_does_not_answer_is_1_and_a_wrong_address_2(
    command: str, tmp_path: Path, code: Code
) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1")
    words = {"submit": (str(tmp_path / "a.sql"),)}.get(command, ())
    for url, expected in (("http://127.0.0.1:9", 1), ("ftp://127.0.0.1", 2)):
        assert code(command, "--server", url, *words) == expected


@pytest.mark.parametrize(
    "words",
    [
        *(("nope",), ("run",), ("run", "/no/such/file.sql"), ("run", "--format", "nope", "a.sql")),
        *(("verify", "--limit", "0", "a.sql"), ("config", "nope"), ("server", "-D", "nope=1")),
        *(("shell", "--set", "parallelism.default=x"), ("submit", "/no/such/file.sql")),
    ],
    ids=" ".join,
)
def test_wrong_words_end_a_command_with_2(words: tuple[str, ...], code: Code) -> None:
    assert code(*words) == 2


def test_a_difference_that_verify_finds_ends_each_command_with_1(
    server: RunningServer, tmp_path: Path, code: Code, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("1,2020-01-01 00:00:01\n2,2020-01-01 00:00:25\n1,2020-01-01 00:00:03\n")
    text = LATE.format(path=tmp_path / "t.csv")
    found = codes(text, tmp_path / "a.sql", code)
    found["submit"] = code("submit", "--server", server.gateway, str(tmp_path / "a.sql"))
    found["shell --connect"] = code("shell", "--connect", server.gateway, stdin=text)
    assert set(found.values()) == {1}, found
    shown = capsys.readouterr().out
    assert shown.count("reason: 1 row was late") == len(found)
    # It ends a script, but `verify` goes through the whole file.
    assert shown.count("after") == 0
    assert shown.count("SELECT at line 6: equal: 1 row") == 1


ENDLESS = """
CREATE TEMPORARY TABLE n (n INT) WITH ('connector' = 'datagen');
CREATE TEMPORARY TABLE o (n INT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT n FROM n;
SELECT 'after' AS word;
"""


def test_an_insert_that_somebody_cancels_ends_a_piped_shell_with_1(server: RunningServer) -> None:
    words = ("--set", "execution.target=remote", "--set", "table.dml-sync=true")
    shell = Process(
        [*SQLSTREAM, "shell", "-D", f"sqlstream.data-dir={server.directory}", *words],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert shell.stdin is not None
    shell.stdin.write(ENDLESS)
    shell.stdin.flush()
    deadline_s = time.monotonic() + 60
    while not (running := [job for job, status in server.statuses().items() if status == "RUNNING"]):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    server.request("PATCH", f"/jobs/{running[0]}?mode=cancel", rest=True)
    out, err = shell.communicate(timeout=60)
    assert (shell.returncode, "after" in out) == (1, False)
    assert f"error[SS6023]: job {running[0]} was cancelled" in err


NUMBERS = (
    "CREATE TEMPORARY TABLE n (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '50000',"
    " 'rows-per-second' = '1000000000'); SELECT n FROM n"
)
PRINT = f"CREATE TABLE p (n INT) WITH ('connector' = 'print'); {NUMBERS.replace('SELECT', 'INSERT INTO p SELECT')}"
LARGE_OUTPUT = {
    "table": ("run", "-c", NUMBERS),
    "vertical": ("run", "--format", "vertical", "-c", NUMBERS),
    "json": ("run", "--format", "json", "-c", NUMBERS),
    "csv": ("run", "--format", "csv", "-c", NUMBERS),
    "arrow": ("run", "--format", "arrow", "-c", NUMBERS),
    "changelog": ("run", "--changelog", "-c", NUMBERS),
    "print": ("run", "-c", PRINT),
    "shell": ("shell",),
    "verify": ("verify", "-c", "VALUES (1)"),
    "explain": ("explain", "-c", "VALUES (1)"),
    "config": ("config",),
    "version": ("version",),
}


@pytest.mark.parametrize(
    "name",
    [n if n in ("json", "version") else pytest.param(n, marks=pytest.mark.slow) for n in LARGE_OUTPUT],
)
def test_output_that_nobody_reads_ends_a_command_quietly_with_141(name: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [*SQLSTREAM, *LARGE_OUTPUT[name]],
            cwd=ROOT,
            env=environment(),
            input=f"{NUMBERS};" if name == "shell" else "",
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")
