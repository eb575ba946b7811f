"""A job that runs in processes of its own, of which one is killed when the first rows are visible."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROWS_PER_SECOND = 1000
TIMEOUT_S = 240.0
PAUSE_S = 0.05


def numbers_text(count: int, rows_per_second: int = ROWS_PER_SECOND) -> str:
    """CREATE TABLE numbers, of the BIGINT `n` from 0 on."""
    return (
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen',"
        f" 'number-of-rows' = '{count}', 'rows-per-second' = '{rows_per_second}',"
        f" 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{count - 1}')"
    )


def run_and_kill(
    table: str, insert: str, count: int, directory: Path, is_visible: Callable[[], bool]
) -> None:
    """Run the INSERT, which reads `numbers`, with a checkpoint every 200 ms; kill a TaskManager once `is_visible` says that rows
    are committed, and wait for the job's end. AssertionError when it fails, or ends before the kill."""
    import psutil

    script = directory / "killed.sql"
    settings = "SET 'execution.checkpointing.interval' = '200 ms';\nSET 'parallelism.default' = '2';\n"
    script.write_text(f"{settings}{numbers_text(count)};\n{table};\n{insert};\n", encoding="utf-8")
    command = subprocess.Popen(
        [sys.executable, "-m", "sqlstream", "run", "--task-managers", "2", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not is_visible():
            assert command.poll() is None, (
                f"the job ended before rows were visible: {command.communicate()[0]}"
            )
            assert time.monotonic() < deadline_s, "no row became visible"
            time.sleep(PAUSE_S)
        victim = psutil.Process(command.pid).children(recursive=True)[0]
        victim.kill()
        said, _ = command.communicate(timeout=TIMEOUT_S)
    finally:
        if command.poll() is None:
            command.kill()
            command.wait()
    assert command.returncode == 0, f"the job did not survive the kill: {said}"
