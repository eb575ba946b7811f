"""The figures of `main.py small`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches.latency import own_server
from benches.process_tree import cpu_seconds_of

from sqlstream.client.connection import connect
from sqlstream.errors import ExternalError

STOP_TIMEOUT_S = 20.0

COUNT = """
SET 'parallelism.default' = '1';
CREATE TEMPORARY TABLE events (n BIGINT, ts AS CURRENT_TIMESTAMP, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}');
CREATE TEMPORARY TABLE counts (w TIMESTAMP_LTZ(3), c BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT window_end, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end;
"""

TWO_SINKS = """
SET 'parallelism.default' = '2';
SET 'execution.checkpointing.interval' = '1 s';
CREATE TEMPORARY TABLE events (n BIGINT, k INT, v DOUBLE, ts AS CURRENT_TIMESTAMP, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}', 'fields.k.min' = '0', 'fields.k.max' = '99');
CREATE TEMPORARY TABLE hops (w TIMESTAMP_LTZ(3), k INT, c BIGINT, s DOUBLE)
  WITH ('connector' = 'filesystem', 'path' = '{folder}/hops', 'format' = 'parquet');
CREATE TEMPORARY TABLE totals (k INT, c BIGINT, s DOUBLE, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'duckdb', 'path' = '{folder}/totals.duckdb', 'table-name' = 'totals');
EXECUTE STATEMENT SET BEGIN
INSERT INTO hops SELECT window_end, k, COUNT(*), SUM(v)
FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k;
INSERT INTO totals SELECT k, COUNT(*), SUM(v) FROM events GROUP BY k;
END;
"""

BATCHES = """
SET 'parallelism.default' = '2';
SET 'execution.batch-rows' = '{batch}';
CREATE TEMPORARY TABLE events (n BIGINT, k BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000', 'number-of-rows' = '{rows}', 'fields.k.max' = '50',
    'fields.k.min' = '0', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '{rows}');
CREATE TEMPORARY TABLE counts (w TIMESTAMP_LTZ(3), k BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT window_end, k, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, k;
"""

IDLE = """
CREATE TEMPORARY TABLE source_{number} (k INT, v INT)
  WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv', 'source.monitor-interval' = '10 s');
CREATE TEMPORARY TABLE sink_{number} (k INT, v BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO sink_{number} SELECT k, SUM(v) FROM source_{number} GROUP BY k
"""

SLOW = """
CREATE TEMPORARY TABLE source_{number} (k INT, v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100',
    'fields.k.min' = '0', 'fields.k.max' = '99');
CREATE TEMPORARY TABLE sink_{number} (k INT, v BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO sink_{number} SELECT k, SUM(v) FROM source_{number} GROUP BY k
"""

SERVER = {
    "parallelism.default": "1",
    "taskmanager.numberOfTaskSlots": "64",
    "slotmanager.number-of-slots.max": "1024",
    "slotmanager.number-of-slots.max-per-user": "-1",
}


@dataclasses.dataclass(frozen=True)
class Figure:
    """Cores of all processes while a job runs, or the CPU time of one batch in milliseconds."""

    name: str
    unit: str
    value: float
    bar: float

    @property
    def is_within_bar(self) -> bool:
        return self.value <= self.bar

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "is_within_bar": self.is_within_bar}


@dataclasses.dataclass(frozen=True)
class Span:
    """A job runs for `warm_s` before its cost is measured for `seconds`."""

    warm_s: float
    seconds: float


def figures(names: list[str], span: Span) -> Iterator[Figure]:
    """Those whose name begins with one of `names`; all without any."""
    for name, (bar, measure) in MEASUREMENTS.items():
        if not names or any(name.startswith(each) for each in names):
            unit = "ms" if measure is _batch_ms else "cores"
            yield Figure(name, unit, measure(name, span), bar)


def _count_cores(name: str, span: Span) -> float:
    return _run_cores(COUNT.format(rate=name.split()[1]), span)


def _two_sinks_cores(name: str, span: Span) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _run_cores(TWO_SINKS.format(rate=name.split()[1], folder=folder), span)


def _batch_ms(name: str, span: Span) -> float:
    """What each batch more costs, in a job with a hash exchange between two processes."""
    rows, batch = 1_000_000, int(name.split()[1])
    few = min(_run_cpu_s(BATCHES.format(batch=batch, rows=rows // 10)) for _ in range(2))
    many = min(_run_cpu_s(BATCHES.format(batch=batch, rows=rows)) for _ in range(2))
    return 1000 * (many - few) / (0.9 * rows / batch)


def _jobs_cores(name: str, span: Span) -> float:
    jobs, kind = int(name.split()[0]), IDLE if "idle" in name else SLOW
    with (
        tempfile.TemporaryDirectory() as folder,
        own_server(SERVER) as (url, process_id),
        connect(url) as connection,
    ):
        for number in range(jobs):
            for statement in kind.format(number=number, folder=folder).split(";"):
                with connection.execute(statement):
                    """A job goes on."""
        return _cores(process_id, span)


MEASUREMENTS = {
    "count 10 rows/s": (0.005, _count_cores),
    "count 2000 rows/s": (0.02, _count_cores),
    "count 20000 rows/s": (0.04, _count_cores),
    "sinks 50000 rows/s": (0.15, _two_sinks_cores),
    "batch 100 rows": (0.25, _batch_ms),
    "500 idle jobs": (0.3, _jobs_cores),
    "200 jobs of 100 rows/s": (1.0, _jobs_cores),
}
"""The bar of each figure, and what measures it."""


@contextlib.contextmanager
def _running(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """`sqlstream run` of the script, without the settings of this machine's configuration."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        path = Path(folder) / "job.sql"
        path.write_text(script, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlstream", "run", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={k: v for k, v in os.environ.items() if not k.startswith("SQLSTREAM_")},
            cwd=folder,
        )
        try:
            yield process
            if process.poll():
                output.seek(0)
                raise ExternalError(
                    "SS6017", "the job to be measured has failed", detail=output.read().decode()
                )
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            process.kill()


def _run_cores(script: str, span: Span) -> float:
    with _running(script) as process:
        return _cores(process.pid, span)


def _run_cpu_s(script: str) -> float:
    """Until the job has ended."""
    before = os.times()
    with _running(script) as process:
        process.wait()
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _cores(process_id: int, span: Span) -> float:
    time.sleep(span.warm_s)
    before_s, began_s = cpu_seconds_of(process_id), time.monotonic()
    time.sleep(span.seconds)
    return (cpu_seconds_of(process_id) - before_s) / (time.monotonic() - began_s)
