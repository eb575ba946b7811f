"""A job that is held back, with what may wait between its tasks bounded by how fast it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sqlstream.client.connection.embedded import embedded_connection

ROWS_PER_S = 5_000
"""What a task reads when nothing else holds it up; its process may be slower."""

FUNCTIONS = f"""
import time
from sqlstream import udf

@udf(func_type="arrow", result_type="BIGINT")
def slowly(values):
    time.sleep(len(values) / {ROWS_PER_S})
    return values
"""

TEXTS = ", ".join(f"s{n} STRING" for n in range(8))
STATEMENTS = (
    "CREATE FUNCTION slowly AS 'held_back.slowly' LANGUAGE PYTHON",
    f"CREATE TABLE wide (k BIGINT, {TEXTS}, at AS PROCTIME()) WITH ('connector' = 'datagen',"
    " 'rows-per-second' = '1000000')",
    f"CREATE TABLE nowhere (v BIGINT, {TEXTS}) WITH ('connector' = 'blackhole')",
    """INSERT INTO nowhere SELECT
    slowly(COUNT(k) OVER (PARTITION BY MOD(k, 16) ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)),
    s0, s1, s2, s3, s4, s5, s6, s7 FROM wide""",
)
ENABLED = {"taskmanager.network.memory.buffer-debloat.enabled": "true"}


def rows_under_way(directory: Path, task_managers: int, config: dict[str, str]) -> int:
    """How many rows the sources had read and the held back tasks had not when the second checkpoint was completed."""
    (directory / "held_back.py").write_text(FUNCTIONS)
    settings = {
        "python.files": str(directory / "held_back.py"),
        "parallelism.default": "2",
        "execution.batch-rows": "1000",
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        **config,
    }
    with embedded_connection(settings, task_managers) as connection:
        for statement in STATEMENTS:
            result = connection.execute(statement)
        job_id = result.facts.job_id
        assert job_id is not None
        cluster = connection.session.cluster
        while True:
            metrics = cluster.metrics(job_id)
            assert metrics.last_failure is None
            if metrics.total.get("numberOfCompletedCheckpoints", 0) >= 2:
                return metrics.total["numRecordsRead"] - metrics.total["numRecordsWritten"]
            time.sleep(0.1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("task_managers", [1, 2])
def test_no_more_waits_between_tasks_than_a_second_of_what_they_read(
    tmp_path: Path, task_managers: int
) -> None:
    waiting = rows_under_way(tmp_path, task_managers, ENABLED)
    # A second of each of two tasks, as much again where senders go beyond the bound, a batch in each of four channels on both
    # sides, and what the figures, which come later, do not count yet. Without the bound it is 87,000.
    assert waiting <= 8 * ROWS_PER_S
