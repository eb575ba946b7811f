"""A job that fails or is cancelled prints no final rows, in any format."""

from __future__ import annotations

import signal
import subprocess

import pytest
from command_harness import SQLSTREAM, TIMEOUT_S, Process, environment, sqlstream

FAILS_AT_THE_END = """
SELECT x, CAST(x AS INT) AS n FROM (VALUES ('1'), ('2'), ('3'), ('one')) AS t(x);
"""
ENDLESS = """
CREATE TABLE lines (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv',
  'csv.ignore-parse-errors' = 'true');
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000000000000',
  'rows-per-second' = '100000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000000');
SELECT n FROM lines UNION ALL SELECT n FROM ticks;
"""


@pytest.mark.parametrize("name", ["table", "vertical", "json", "csv", "arrow"])
def test_a_failed_job_prints_no_row(script, name: str) -> None:  # type: ignore[no-untyped-def]
    done = sqlstream("run", "--format", name, "--set", "execution.batch-rows=1", script(FAILS_AT_THE_END))
    assert (done.returncode, done.stdout) == (1, "")
    assert 'error[SS5102]: cannot cast "one" to INT' in done.stderr


def test_a_changelog_of_a_failed_job_has_no_end(script) -> None:  # type: ignore[no-untyped-def]
    done = sqlstream("run", "--changelog", "--set", "execution.batch-rows=1", script(FAILS_AT_THE_END))
    assert done.returncode == 1
    assert "| +I |" in done.stdout
    assert "Received a total" not in done.stdout
    assert "error[SS5102]" in done.stderr


@pytest.mark.parametrize("name", ["table", "csv"])
def test_a_cancelled_job_prints_no_row_and_tells_what_it_left_out(script, tmp_path, name: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "lines").write_text("1\nx\n2\n")
    command = [
        *SQLSTREAM,
        "run",
        "--quiet",
        "--format",
        name,
        script(ENDLESS.format(path=tmp_path / "lines")),
    ]
    pipe = subprocess.PIPE
    process = Process(command, env=environment(), text=True, stdout=pipe, stderr=pipe)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("rejected: ")  # the job runs
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[0].startswith('warning: 1 row of table "lines" was left out')
    assert stderr.splitlines()[-1] == "interrupted"
