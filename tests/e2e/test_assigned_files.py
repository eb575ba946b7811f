"""Files between processes: each is read once, by whichever subtask asks; a watched directory feeds all subtasks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from command_harness import ROOT, SQLSTREAM, TIMEOUT_S, Process, environment, run_to_end

FILES = 60
TABLES = """
SET 'parallelism.default' = '2';
SET 'sqlstream.in-process.max-input-size' = '0 b';
CREATE TABLE f (n BIGINT, `file.name` STRING METADATA) WITH (
  'connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}'{more});
"""


def put(path: Path, number: int) -> None:
    rows = 20_000 if number == 7 else 10
    hidden = path / f"_{number}"
    hidden.write_text("".join(f"{number * 100_000 + i}\n" for i in range(rows)))
    os.utime(hidden, (0, 0))
    hidden.rename(path / f"{number:03}.csv")


@pytest.mark.timeout(300)
def test_each_file_is_read_once_however_large_others_are(tmp_path: Path) -> None:
    for number in range(FILES):
        put(tmp_path, number)
    script = TABLES.format(path=tmp_path, more="") + (
        "SELECT COUNT(*) AS c, COUNT(DISTINCT n) AS d, COUNT(DISTINCT `file.name`) AS f FROM f;"
    )
    done = run_to_end([*SQLSTREAM, "run", "--quiet", "-"], stdin=script)
    assert done.returncode == 0, done.stderr
    rows = (FILES - 1) * 10 + 20_000
    assert done.stdout.splitlines()[3].split() == ["|", str(rows), "|", str(rows), "|", str(FILES), "|"]


@pytest.mark.timeout(300)
def test_files_that_are_added_to_a_watched_directory_are_read_by_running_subtasks(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", 1)
    watch = ", 'source.monitor-interval' = '50 ms'"
    script = TABLES.format(path=tmp_path / "in", more=watch) + (
        "CREATE TABLE p (n BIGINT, f STRING) WITH ('connector' = 'print'); INSERT INTO p SELECT * FROM f;"
    )
    (tmp_path / "s.sql").write_text(script)
    running = Process(
        [*SQLSTREAM, "run", str(tmp_path / "s.sql")],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(10)]
        for number in (2, 3, 4, 5):
            put(tmp_path / "in", number)
        lines += [running.stdout.readline() for _ in range(40)]
    finally:
        running.terminate()
        running.wait(TIMEOUT_S)
    read = sorted(int(line.partition("[")[2].partition(",")[0]) for line in lines)
    assert read == [number * 100_000 + i for number in range(1, 6) for i in range(10)]
    assert {line.partition(">")[0] for line in lines} == {"1", "2"}, "both subtasks have read"
