"""A disk that is full in the middle of a job, as far as its processes can see: no file may grow past a limit."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from command_harness import sqlstream

FILE_BYTES_MAX = 1 << 20

SCRIPT = """
CREATE TABLE numbers (n BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '100000',
  'rows-per-second' = '1000000000', 'fields.s.length' = '50');
CREATE TABLE files (n BIGINT, s STRING, p BIGINT) PARTITIONED BY (p)
  WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}');
INSERT INTO files SELECT n, s, MOD(n, 2) AS p FROM numbers;
"""


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_job_that_cannot_write_fails_with_the_reason_and_leaves_nothing(
    tmp_path: Path, format: str
) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.format(path=tmp_path / "files", format=format))
    done = sqlstream(
        "run",
        str(script),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f'error[SS5001]: could not write "{tmp_path}/files/p=')
    assert "file too large" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["script.sql"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tolerable", [0, 1_000])
def test_a_checkpoint_that_cannot_be_written_fails_and_the_job_only_with_one_too_many(
    tmp_path: Path, tolerable: int
) -> None:
    """Each has some megabytes, and no file may have more than one."""
    script = tmp_path / "script.sql"
    script.write_text(f"""
        SET 'execution.checkpointing.interval' = '300 ms';
        SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';
        SET 'execution.checkpointing.tolerable-failed-checkpoints' = '{tolerable}';
        SET 'restart-strategy.type' = 'none';
        CREATE TABLE numbers (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '200000',
          'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000');
        CREATE TABLE out (n BIGINT) WITH ('connector' = 'blackhole');
        INSERT INTO out SELECT n FROM (SELECT n, ROW_NUMBER() OVER (PARTITION BY n ORDER BY p) AS r FROM numbers) WHERE r = 1;
    """)
    done = sqlstream(
        "run",
        str(script),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX)),
    )
    if tolerable:
        assert done.returncode == 0, done.stderr
        assert "wrote 1,000,000" in done.stderr
    else:
        assert done.returncode == 1
        assert "error[SS6202]" in done.stderr
        assert "file too large" in done.stderr
    assert [p for p in (tmp_path / "checkpoints").rglob("*") if p.is_file()] == []
