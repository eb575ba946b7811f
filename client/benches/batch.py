"""The measurements behind `sqlstream bench batch`: the same queries as a stream, in DuckDB and on Spark."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from client.benches.script import QUERIES_DIR, is_same_answer, nexmark_queries
from sqlstream.errors import ErrorInfo, FailureReason, JobError, UserError

ENGINES = ("stream", "duckdb", "spark")
FLIGHTS = ("hourly", "weather", "carriers")
NOT_EXACT = "SS3301"
STOP_TIMEOUT_S = 30.0


class EngineOrder(msgspec.Struct, frozen=True):
    """What the process of an engine is to measure. `flights` is the folder of flights.csv and weather.csv."""

    engine: str
    events: int
    rate: int
    runs: int
    flights: str
    settings: dict[str, str]


class EngineStart(msgspec.Struct, frozen=True):
    """How long an engine took until it could take its first query; `error` when it did not start."""

    engine: str
    start_s: float = 0.0
    error: ErrorInfo | None = None


class BatchFigure(msgspec.Struct, frozen=True):
    """One query on one engine: medians of the measured runs, the peak of all of them, and the final rows.

    `first_s` is the time of the engine's first query ever, before it was warm, else None. `error` says why there is no figure."""

    query: str
    engine: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_rss_bytes: int = 0
    rows: int = 0
    checksum: str = ""
    first_s: float | None = None
    is_same_answer: bool | None = None
    error: ErrorInfo | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the engine has no exact answer, and says so."""
        return self.error is not None and self.error.code == NOT_EXACT


def batch_queries() -> list[str]:
    """The Nexmark queries, and those over the flights."""
    return [*nexmark_queries(), *FLIGHTS]


def query_text(query: str) -> str:
    folder = "flights" if query in FLIGHTS else "nexmark"
    return (QUERIES_DIR / folder / f"{query}.sql").read_text(encoding="utf-8")


def flights_folder(given: str | None) -> str:
    """The folder of flights.csv and weather.csv. UserError SS5001 when one is missing."""
    folder = QUERIES_DIR / "data" if given is None else Path(given).resolve()
    for name in ("flights.csv", "weather.csv"):
        if not (folder / name).is_file():
            raise UserError(
                "SS5001",
                f'cannot read "{folder / name}": no such file',
                hint="give the folder of both files with --flights, or make them with queries/make_data.py",
            )
    return str(folder)


def compared(figures: list[BatchFigure]) -> list[BatchFigure]:
    """The figures of one query, each beside the first that has an answer.

    >>> one, other = BatchFigure("q0", "stream", rows=1), BatchFigure("q0", "spark", rows=2)
    >>> [figure.is_same_answer for figure in compared([one, other])]
    [None, False]
    """
    answered = [figure for figure in figures if figure.error is None]

    def beside_first(figure: BatchFigure) -> BatchFigure:
        if figure.error is not None or figure is answered[0]:
            return figure
        first = answered[0]
        same = is_same_answer(figure.query, (first.rows, first.checksum), (figure.rows, figure.checksum))
        return msgspec.structs.replace(figure, is_same_answer=same)

    return [beside_first(figure) for figure in figures]


class MeasuredEngine:
    """An engine in a process of its own, so that each has the memory and the warmth that it has alone.

    State: the process, from the first call until `close`; it ends as well when this process does."""

    def __init__(self, order: EngineOrder) -> None:
        """Start it, and wait until the engine is ready: `start` says how long that took, or why it is not. JobError SS6063."""
        self.name = order.engine
        self._process = subprocess.Popen(
            [sys.executable, "-m", "client.benches.batch_process", msgspec.json.encode(order).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            text=True,
        )
        try:
            self.start = self._answer(EngineStart)
        except BaseException:
            self.close()
            raise

    def measure(self, query: str) -> BatchFigure:
        """The figure has an error when the process has ended, too."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{query}\n")
            self._process.stdin.flush()
        try:
            figure: BatchFigure = self._answer(BatchFigure)
        except JobError as error:
            return BatchFigure(query, self.name, error=ErrorInfo.of(error))
        return figure

    def _answer(self, kind: type[Any]) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return msgspec.json.decode(line, type=kind)
        code = self._process.wait()
        raise JobError(
            "SS6063",
            f'the process that measures "{self.name}" has ended with code {code}',
            reason=FailureReason.INTERNAL,
        )

    def close(self) -> None:
        """End the process and all that it has started. Harmless when repeated."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment() -> dict[str, str]:
    """Settings of this machine's configuration are not those that are measured."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SQLSTREAM_")}
