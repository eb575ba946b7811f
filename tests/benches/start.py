"""The figures of `main.py start`: what processes, first jobs and compiled kernels cost before anything is at work."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.process_tree import SparkWorkers, tree_cpu_seconds

from sqlstream.client.benches.script import nexmark_options, nexmark_text, run_script
from sqlstream.errors import ExternalError

EVENT_TIME_S = 10
TIMEOUT_S = 600.0

FUNCTIONS = """\
import pyarrow as pa
import pyarrow.compute as pc
from sqlstream import udf

@udf(result_type="BIGINT", input_types=["BIGINT"], func_type="arrow")
def add_all(n: pa.Array) -> pa.Array:
    return pc.add(n, 1)
"""
ON_SPARK = {"execution.runtime-mode": "batch", "execution.batch.engine": "spark"}
SPARK_TABLE = """\
CREATE TABLE generated (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '100000', 'fields.k.min' = '1',
  'fields.k.max' = '100')"""
SPARK_QUERY = "SELECT k, COUNT(*) AS c, SUM(v) AS s FROM generated GROUP BY k ORDER BY k"
GROUP_BY = "SELECT k, COUNT(*) AS c, SUM(v) AS s FROM rows_of_file GROUP BY k;"


@dataclass(frozen=True)
class StartFigure:
    """Seconds on the clock and of all processors, the least of several runs; `bar` names which of them is held to `limit_s`."""

    name: str
    wall_s: float
    cpu_s: float
    bar: str = ""
    limit_s: float = 0.0

    @property
    def is_within_bar(self) -> bool:
        return not self.bar or getattr(self, self.bar) <= self.limit_s

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"is_within_bar": self.is_within_bar}


def commands(runs: int) -> Iterator[StartFigure]:
    """Commands that need no cluster."""
    for words in (["version"], ["--help"], ["run", "-c", "SELECT 1"]):
        yield StartFigure(f"sqlstream {' '.join(words)}", *_least(lambda words=words: _command(words), runs))


def cold_queries(queries: list[str], events: int, runs: int) -> Iterator[StartFigure]:
    """`sqlstream run` of Nexmark queries, beyond what a session that is warm takes for the same."""
    with tempfile.TemporaryDirectory() as folder:
        for query in queries:
            script = Path(folder, f"{query}.sql")
            script.write_text(_script(query, events), encoding="utf-8")
            words = ["run", "--quiet", str(script)]
            cold = _least(lambda words=words: _command(words), runs)
            warm = _warm(query, events, runs)
            yield StartFigure(
                f"{query}, beyond {warm[0]:.2f} s of wall and {warm[1]:.2f} s of CPU time when warm",
                cold[0] - warm[0],
                cold[1] - warm[1],
                "wall_s",
                0.6,
            )


def first_function(runs: int) -> Iterator[StartFigure]:
    """A job that calls a function of a user for the first time, in a session that has run jobs: CREATE FUNCTION is in it."""
    from sqlstream.client.connection import connect

    with tempfile.TemporaryDirectory() as folder:
        times = []
        for run in range(runs):
            module = Path(folder, f"functions_{run}.py")
            module.write_text(FUNCTIONS, encoding="utf-8")
            with connect("embedded://") as connection:
                _all(connection, "SELECT v + 1 FROM (VALUES (1), (2)) AS t(v)")
                cpu_s, started = time.process_time(), time.perf_counter()
                _all(connection, f"SET 'python.files' = '{module}'")
                _all(connection, f"CREATE FUNCTION f AS '{module.stem}.add_all' LANGUAGE PYTHON")
                _all(connection, "SELECT f(CAST(v AS BIGINT)) FROM (VALUES (1), (2)) AS t(v)")
                times.append((time.perf_counter() - started, time.process_time() - cpu_s))
        yield StartFigure("first call of a Python function", *min(times), "wall_s", 0.5)


def compiled_kernels() -> Iterator[StartFigure]:
    """Where no object code fits the processor: a first GROUP BY, and all kernels on all processors."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.csv")
        rows.write_text("".join(f"{row % 7},{row}\n" for row in range(1000)), encoding="utf-8")
        table = (
            "CREATE TABLE rows_of_file (k INT, v BIGINT)"
            f" WITH ('connector' = 'filesystem', 'path' = '{rows}', 'format' = 'csv');\n"
        )
        cache = {"SQLSTREAM_KERNEL_CACHE": f"{folder}/first"}
        os.mkdir(f"{folder}/first")
        first = _command(["run", "--quiet", "-c", table + GROUP_BY], cache)
        warm = _command(["run", "--quiet", "-c", table + GROUP_BY], cache)
        yield StartFigure("first GROUP BY, compiled", *first, "cpu_s", 5.0)
        yield StartFigure("the same, once more", *warm)
        os.mkdir(f"{folder}/all")
        words = [sys.executable, "-P", "-m", "sqlstream.runtime.kernels.warm"]
        made = _process(words, {"SQLSTREAM_KERNEL_CACHE": f"{folder}/all"})
        yield StartFigure("all kernels, compiled", *made, "wall_s", 40.0)


def spark(runs: int) -> Iterator[StartFigure]:
    """A batch query over 100,000 rows on a Spark that must start first, and once more in a session that has it."""
    from sqlstream.client.connection import connect

    settings = "".join(f"SET '{key}' = '{value}';\n" for key, value in ON_SPARK.items())
    words = ["run", "--quiet", "-c", f"{settings}{SPARK_TABLE};\n{SPARK_QUERY};"]
    with tempfile.TemporaryDirectory() as folder:

        def first(archive: str) -> tuple[float, float]:
            command = [
                sys.executable,
                "-m",
                "sqlstream",
                *words,
                "-D",
                f"spark.sqlstream.class-archive={archive}",
            ]
            return _process(command, {"XDG_CACHE_HOME": folder}, has_spark_workers=True)

        yield StartFigure("first query on Spark, no archive of classes", *_least(lambda: first("none"), runs))
        yield StartFigure("the same, and the archive is written", *first("write"))
        cold = _least(lambda: first("read"), runs)
        yield StartFigure("the same with the archive", *cold, "wall_s", 8.0)
        yield StartFigure("the same, by CPU time", *cold, "cpu_s", 12.0)
    with connect("embedded://") as connection:
        for key, value in ON_SPARK.items():
            _all(connection, f"SET '{key}' = '{value}'")
        _all(connection, SPARK_TABLE)

        def again() -> tuple[float, float]:
            cpu_s, started = tree_cpu_seconds(), time.perf_counter()
            _all(connection, SPARK_QUERY)
            return time.perf_counter() - started, tree_cpu_seconds() - cpu_s

        again()
        yield StartFigure("the same once more in a session", *again(), "wall_s", 0.3)
        yield StartFigure("and later", *_least(again, runs))


def _script(query: str, events: int) -> str:
    """The file of a query, over so many events."""
    text = nexmark_text(query)
    for key, value in (("events", events), ("rate", max(1, events // EVENT_TIME_S))):
        text = re.sub(rf"('nexmark\.{key}' = )'\d+'", rf"\1'{value}'", text)
    return text


def _warm(query: str, events: int, runs: int) -> tuple[float, float]:
    from sqlstream.client.clusters.local_cluster import IN_PROCESS_INPUT, LocalClusterClient
    from sqlstream.client.sessions.session import Session

    settings = {IN_PROCESS_INPUT: "0"}
    rate = max(1, events // EVENT_TIME_S)
    measured = []
    with contextlib.closing(LocalClusterClient(settings)) as clusters:
        session, cluster = Session(clusters, settings), clusters.cluster()
        for _ in range(runs + 1):
            cpu_s, started = cluster.cpu_seconds(), time.perf_counter()
            run_script(session, nexmark_text(query), lambda t: nexmark_options(t, events, rate, "blackhole"))
            measured.append((time.perf_counter() - started, cluster.cpu_seconds() - cpu_s))
    walls, cpus = zip(*measured[1:], strict=True)
    return statistics.median(walls), statistics.median(cpus)


def _all(connection: Any, statement: str) -> None:
    with connection.execute(statement) as result:
        for _ in result.batches() if result.schema is not None else ():
            """Only the end is of interest."""


def _least(measure: Callable[[], tuple[float, float]], runs: int) -> tuple[float, float]:
    """The least of each, after a run that is not counted."""
    measure()
    walls, cpus = zip(*(measure() for _ in range(runs)), strict=True)
    return min(walls), min(cpus)


def _command(words: list[str], environment: dict[str, str] | None = None) -> tuple[float, float]:
    return _process([sys.executable, "-m", "sqlstream", *words], environment)


def _process(
    words: list[str], environment: dict[str, str] | None = None, has_spark_workers: bool = False
) -> tuple[float, float]:
    """Seconds on the clock and of all processors, with the processes that it starts and waits for. Bytecode is read and written,
    as users' processes do."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SQLSTREAM_", "PYTHONDONTWRITE"))}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept | (environment or {}),
    ) as process:
        workers = SparkWorkers(process.pid) if has_spark_workers else None
        _, said = process.communicate(timeout=TIMEOUT_S)
    wall_s = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise ExternalError("SS6063", f"{' '.join(words[1:])} has failed", detail=said[-2000:])
    waited_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, waited_s + (workers.stop() if workers is not None else 0.0)
