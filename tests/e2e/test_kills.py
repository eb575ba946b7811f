"""Processes killed without warning while a job writes files: a table holds all rows of a statement or none, no process
is left, and the statement can be run again."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from command_harness import ROOT, SQLSTREAM, TIMEOUT_S, Process, environment, task_managers_of

from sqlstream import types as sql
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus

ROWS = 400_000
KILLS = 3
SCHEMA = Schema.of(("n", sql.BIGINT), ("p", sql.BIGINT))

SCRIPT = """
SET 'parallelism.default' = '2';
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}', 'rows-per-second' = '1000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}');
CREATE TABLE files (n BIGINT, p BIGINT) PARTITIONED BY (p)
  WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}', 'sink.rolling-policy.file-size' = '20 kb');
INSERT INTO files SELECT n, MOD(n, 8) AS p FROM numbers;
"""


def start(script: Path) -> subprocess.Popen[str]:
    return Process(
        [*SQLSTREAM, "run", "--task-managers", "2", str(script)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def rows_in(path: Path, format: str) -> int:
    options = {"connector": "filesystem", "path": str(path), "format": format}
    context = ConnectorContext(
        "reader", "v", 0, 1, 0, 100_000, {}, lambda: 0, lambda name, n: None, LocalFiles()
    )
    reader = Filesystem().source(SourceSpec("t", "filesystem", options, SCHEMA, SCHEMA.names), context, None)
    rows = 0
    while (batch := reader.poll()) is not SourceStatus.END:
        rows += 0 if batch is SourceStatus.NOTHING_YET else batch.num_rows
    reader.close()
    return rows


def run_and_kill(script: Path, rng: random.Random) -> tuple[bool, int, str]:
    """Run the script and kill one of its processes at a moment. Whether that was the command itself, its exit code, and
    what it said."""
    command = start(script)
    me = psutil.Process(command.pid)
    wait_until(lambda: len(task_managers_of(me.pid)) == 2 or command.poll() is not None)
    children = task_managers_of(me.pid)
    time.sleep(rng.uniform(0, 2.5))
    is_command = rng.random() < 0.5
    victim = me if is_command else rng.choice(children)
    if not is_gone(victim):
        victim.kill()
    _, stderr = command.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: all(is_gone(child) for child in children))
    return is_command, command.returncode, stderr


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.slow] if n else []) for n in range(5)], ids=str
)
def test_a_killed_statement_leaves_all_of_its_rows_or_none(tmp_path: Path, format: str, seed: int) -> None:
    rng = random.Random(f"{seed} {format}")
    table, script = tmp_path / "files", tmp_path / "script.sql"
    script.write_text(SCRIPT.format(rows=ROWS, path=table, format=format))
    expected = 0
    for _ in range(KILLS):
        staging = _staging(table)
        is_command, code, stderr = run_and_kill(script, rng)
        found = rows_in(table, format) if table.exists() else 0
        if code == 0:
            expected += ROWS
        elif is_command:
            assert code == -signal.SIGKILL
            # Killed at its last breath it may have committed, and have had time to say so or not.
            if stderr:
                assert stderr.startswith("INSERT INTO files: read")
                assert found == expected + ROWS
            assert found in (expected, expected + ROWS)
            expected = found
        else:
            assert code == 1
            assert _staging(table) <= staging
            assert "was killed by signal 9" in stderr
            assert "Traceback" not in stderr
        assert found == expected
    again = start(script)
    assert again.wait(TIMEOUT_S) == 0
    # Without a journal nothing is hidden from our reader that another one would see.
    assert not list(table.glob(".commit-*"))
    assert rows_in(table, format) == expected + ROWS


@pytest.mark.parametrize("connector", ["duckdb", pytest.param("filesystem", marks=pytest.mark.slow)])
def test_what_a_killed_batch_insert_has_staged_is_removed_by_the_next_job(
    tmp_path: Path, connector: str
) -> None:
    table = tmp_path / ("out.duckdb" if connector == "duckdb" else "out")
    named = (
        "'connector' = 'duckdb'" if connector == "duckdb" else "'connector' = 'filesystem', 'format' = 'csv'"
    )
    text = f"""SET 'execution.runtime-mode' = 'BATCH';
        CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{{rows}}', 'rows-per-second' = '1000');
        CREATE TABLE files (n BIGINT) WITH ({named}, 'path' = '{table}');
        INSERT INTO files SELECT n FROM numbers;"""
    script = tmp_path / "script.sql"
    script.write_text(text.format(rows=10_000_000))
    killed = Process([*SQLSTREAM, "run", str(script)], cwd=ROOT, env=environment())
    wait_until(lambda: len(_staged(tmp_path)) == 2)
    killed.kill()
    killed.wait(TIMEOUT_S)
    assert len(_staged(tmp_path)) == 2
    script.write_text(text.format(rows=1))
    done = subprocess.run(
        [*SQLSTREAM, "run", str(script)],
        cwd=ROOT,
        env=environment(),
        timeout=TIMEOUT_S,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert _staged(tmp_path) == []
    assert table.exists()


def _staged(directory: Path) -> list[Path]:
    """Staging directories and their claims, beside a DuckDB file or in a table's directory."""
    return [p for pattern in (".*.staging-*", "*/.staging-*") for p in directory.glob(pattern)]


def _staging(table: Path) -> set[Path]:
    """The directories of writers, without the claims of jobs that were killed, which the next job removes."""
    return {path for path in table.glob(".staging-*") if path.is_dir()}
