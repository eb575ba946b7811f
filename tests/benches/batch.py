"""The measurements behind `main.py batch`: the same queries as a stream, in DuckDB and on Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
from benches.bench_process import BenchProcess

from sqlstream.client.benches.script import QUERIES_DIR, is_same_answer, nexmark_queries
from sqlstream.errors import ErrorInfo, JobError, UserError

ENGINES = ("stream", "duckdb", "spark")
FLIGHTS = ("hourly", "weather", "carriers")
NOT_EXACT = "SS3301"


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


class MeasuredEngine(BenchProcess):
    """An engine in a process of its own, so that each has the memory and the warmth that it has alone.

    State: that of the process, until `close`."""

    def __init__(self, order: EngineOrder) -> None:
        """Start it, and wait until the engine is ready: `start` says how long that took, or why it is not. JobError SS6063."""
        super().__init__(
            "benches.batch_process",
            f'the process that measures "{order.engine}"',
            (msgspec.json.encode(order).decode(),),
        )
        self.name = order.engine
        try:
            self.start = self.answer(EngineStart)
        except BaseException:
            self.close()
            raise

    def measure(self, query: str) -> BatchFigure:
        """The figure has an error when the process has ended, too."""
        self.tell(query)
        try:
            figure: BatchFigure = self.answer(BatchFigure)
        except JobError as error:
            return BatchFigure(query, self.name, error=ErrorInfo.of(error))
        return figure
