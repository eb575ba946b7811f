"""The figures of `main.py latency`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from sqlstream.client.connection import Connection, connect
from sqlstream.errors import ExternalError, InternalError

WINDOW_BAR_MS = 50
VALUES_BAR_MS = 100
AGGREGATE_BAR_MS = 300

WARM_UP_WINDOWS = 3
WARM_UP_RUNS = 5
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0

VALUES = "SELECT a, b FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, b)"
AGGREGATE = "SELECT k, SUM(v) AS s FROM latency_file GROUP BY k"
COUNTS = (
    "SELECT window_end, COUNT(*) AS c"
    " FROM TABLE(TUMBLE(TABLE latency_events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
)


@dataclasses.dataclass(frozen=True)
class Figure:
    """Times of one kind in milliseconds, sorted; its 99th percentile is held to the bar."""

    name: str
    times_ms: tuple[float, ...]
    bar_ms: int

    @staticmethod
    def of(name: str, times_ms: Sequence[float], bar_ms: int) -> Figure:
        return Figure(name, tuple(sorted(times_ms)), bar_ms)

    def percentile(self, share: float) -> float:
        """The least time that at least that share of the times does not exceed.

        >>> Figure.of("f", [3, 1, 2], 9).percentile(0.5)
        2
        """
        return self.times_ms[max(0, math.ceil(share * len(self.times_ms)) - 1)]

    @property
    def p50_ms(self) -> float:
        return self.percentile(0.5)

    @property
    def p99_ms(self) -> float:
        return self.percentile(0.99)

    @property
    def max_ms(self) -> float:
        return self.times_ms[-1]

    @property
    def count(self) -> int:
        return len(self.times_ms)

    @property
    def is_within_bar(self) -> bool:
        return self.p99_ms <= self.bar_ms

    def as_json(self) -> dict[str, Any]:
        names = ("name", "count", "p50_ms", "p99_ms", "max_ms", "bar_ms", "is_within_bar")
        return {name: getattr(self, name) for name in names}


def figures(url: str, rate: int, seconds: int, runs: int) -> Iterator[Figure]:
    """Measure the server at the URL; each figure as soon as it is there."""
    with connect(url) as connection, tempfile.TemporaryDirectory() as folder:
        times = [first_row_ms(connection, VALUES) for _ in range(WARM_UP_RUNS + runs)]
        yield Figure.of("VALUES query", times[WARM_UP_RUNS:], VALUES_BAR_MS)
        path = Path(folder) / "rows.csv"
        path.write_text("".join(f"{row % 10},{row}\n" for row in range(1_000)), encoding="utf-8")
        _run(
            connection,
            "CREATE TEMPORARY TABLE latency_file (k INT, v INT)"
            f" WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')",
        )
        times = [first_row_ms(connection, AGGREGATE) for _ in range(WARM_UP_RUNS + runs)]
        yield Figure.of("aggregate", times[WARM_UP_RUNS:], AGGREGATE_BAR_MS)
        times = window_lags_ms(connection, rate, WARM_UP_WINDOWS + seconds)
        yield Figure.of("window result", times[WARM_UP_WINDOWS:], WINDOW_BAR_MS)


def first_row_ms(connection: Connection, statement: str) -> float:
    """From the call to the first batch. The rest is read, too: a job that is cancelled would hold its slot for a moment."""
    started = time.perf_counter()
    with connection.execute(statement) as result:
        batches = result.batches()
        first = next(batches, None)
        time_ms = (time.perf_counter() - started) * 1000
        if first is None:
            raise InternalError(f"no row came for: {statement}")
        for _ in batches:
            """Only the end is of interest."""
        return time_ms


def window_lags_ms(connection: Connection, rate: int, windows: int) -> list[float]:
    """For each window, from its end on the clock to its row at this client."""
    _run(
        connection,
        "CREATE TEMPORARY TABLE latency_events (n BIGINT, ts AS CURRENT_TIMESTAMP, WATERMARK FOR ts AS ts)"
        f" WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}', 'fields.n.kind' = 'sequence',"
        f" 'fields.n.start' = '0', 'fields.n.end' = '{2**62}')",
    )
    lags: list[float] = []
    with connection.execute(COUNTS) as result:
        for batch in result.batches():
            now_ms = time.time() * 1000
            ends = batch.column(0).cast("timestamp[ms]").cast("int64").to_pylist()
            lags += [now_ms - end_ms for end_ms in ends]
            if len(lags) >= windows:
                break
    return lags[:windows]


def _run(connection: Connection, statement: str) -> None:
    with connection.execute(statement):
        """The statement has taken effect."""


@contextlib.contextmanager
def own_server(settings: Mapping[str, str] | None = None) -> Iterator[tuple[str, int]]:
    """A server with default settings but for these, and a data directory of its own; its URL and its process."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        words = ["server", "--port", "0", "--data-dir", folder]
        words += [word for key, value in (settings or {}).items() for word in ("-D", f"{key}={value}")]
        # Settings of this machine's configuration are not those that are measured.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SQLSTREAM_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlstream", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # Its log is in the folder too; a pipe that nobody reads would be full after some hundred jobs.
            stderr=errors,
            env=environment,
            cwd=folder,
            text=True,
        )
        try:
            yield _url_of(process, Path(folder) / "server.json", errors), process.pid
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            process.kill()


def _url_of(process: subprocess.Popen[str], file: Path, errors: IO[str]) -> str:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if file.exists():
            return str(json.loads(file.read_text(encoding="utf-8"))["gateway"])
        if process.poll() is not None:
            errors.seek(0)
            raise ExternalError("SS6017", "the server to be measured did not start", detail=errors.read())
        time.sleep(0.05)
    raise ExternalError("SS6017", f"the server to be measured did not start within {START_TIMEOUT_S:g} s")
