"""Commands that the tests fork are as those that a user starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from command_harness import (
    ROOT,
    SQLSTREAM,
    TIMEOUT_S,
    Process,
    WholeEnd,
    environment,
    run_to_end,
    sqlstream,
    task_managers_of,
    wait_until_ended,
)
from forked_process import FORK_SERVER
from server_harness import RunningServer

ENDLESS = "CREATE TABLE t (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1'); SELECT n FROM t"


def is_forked(process: Process) -> bool:
    """The interpreter's arguments stay those of the fork server, whose one long word is overwritten by blanks."""
    words = psutil.Process(process.pid).cmdline()
    return len(words) > 1_000 or any(word.endswith(FORK_SERVER) for word in words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("run", "--format", "csv", "-"), "SELECT 1 AS one;"),
        (("run", "-"), "SELEC 1"),
        (("run", "--nonsense"), ""),
        (("run", "-c", "SELECT 1 / (a - a) FROM (VALUES (1)) AS t(a)"), ""),
    ],
)
def test_a_forked_command_writes_and_ends_as_one_that_is_started(words: tuple[str, ...], text: str) -> None:
    started = subprocess.run(
        [*SQLSTREAM, *words],
        cwd=ROOT,
        env=environment(),
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    forked = sqlstream(*words, stdin=text)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        started.returncode,
        started.stdout,
        started.stderr,
    )


def test_it_is_a_child_with_the_directory_variables_and_umask_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\n")
    script = (
        "CREATE TABLE t (n INT) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');"
        "CREATE TABLE o (n INT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv');"
        "INSERT INTO o SELECT n FROM t"
    )
    before = os.umask(0o077)
    try:
        done = sqlstream(
            "run", "-c", script, cwd=tmp_path, env=environment(SQLSTREAM_PARALLELISM_DEFAULT="1")
        )
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    (written,) = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.suffix != ".json"]
    assert written.read_text() == "1\n"
    assert written.stat().st_mode & 0o077 == 0


def test_signals_end_it_and_no_process_is_left() -> None:
    with Process(
        [*SQLSTREAM, "run", "--changelog", "--task-managers", "1", "-c", ENDLESS],
        env=environment(),
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        while b"+I" not in process.stdout.readline():
            continue
        assert is_forked(process)
        assert psutil.Process(process.pid).ppid() == os.getpid()
        assert len(task_managers_of(process.pid)) == 1
        everything = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    wait_until_ended(everything)


@pytest.mark.parametrize(
    ("file", "is_forked_"), [("guest.py", True), ("duckdb.py", False), ("sitecustomize.py", False)]
)
def test_what_is_read_while_modules_load_makes_a_process_start(
    tmp_path: Path, file: str, is_forked_: bool
) -> None:
    (tmp_path / file).touch()
    for variables, expected in (
        ({"PYTHONPATH": str(tmp_path)}, is_forked_),
        ({"PYTHONUNBUFFERED": "1"}, False),
    ):
        around = environment(**variables)
        with Process([*SQLSTREAM, "run", "-"], env=around, stdin=subprocess.PIPE) as process:
            assert is_forked(process) == expected


def test_a_server_and_the_fork_servers_end_with_the_process_that_has_started_them(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        assert is_forked(server.process)
    text = f"""
import os, subprocess, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from command_harness import SQLSTREAM, Process, environment
process = Process([*SQLSTREAM, "run", "-"], env=environment(), stdin=subprocess.PIPE)
print(*(child.pid for child in __import__("psutil").Process().children(recursive=True)), flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
    )
    left = [psutil.Process(int(pid)) for pid in done.stdout.split() if psutil.pid_exists(int(pid))]
    wait_until_ended(left)


@pytest.mark.parametrize(
    "code",
    ["raise ValueError", "import os; os.abort()", "import tempfile; tempfile.mkstemp()"],
    ids=["a traceback", "a crash", "a file"],
)
def test_a_harness_fails_for_what_a_process_leaves(code: str) -> None:
    with pytest.raises(AssertionError):
        run_to_end([sys.executable, "-c", code])


def test_a_harness_fails_for_a_pipe_that_it_leaves_open() -> None:
    end = WholeEnd()
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        end.begin()
        assert process.wait() == 0
        with pytest.raises(AssertionError):
            end.check(0, "")
    end.check(0, "")
