"""The measurements behind `main.py formats`: files read and written, beside DuckDB on one thread."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.client.benches.script import EVENT_TIME_SPAN_S, run_script
from sqlstream.client.sessions.target_session import local_session
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
from sqlstream.runtime.connectors.generators.nexmark_generator import BID_SCHEMA, NexmarkGenerator

if TYPE_CHECKING:
    import duckdb

    from sqlstream.client.sessions.session import Session

EPOCH_BIDS, EPOCH_EVENTS = 46, 50
SHARE = 8
"""The smaller of the two files has this share of the rows."""
BATCH_ROWS = 65_536

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING"
_NAMES = ", ".join(f"'{name}'" for name in BID_SCHEMA.names)
_READ_CSV = "read_csv('{path}', header = false, names = [" + _NAMES + "])"


@dataclass(frozen=True)
class FileForm:
    """How bids stand in a file: `copy` are DuckDB's options to write it and `reads` its relation to read it; `columns` are
    declared for the table here, and `bids` is the query of DuckDB that makes them of the columns of a bid."""

    format: str
    copy: str
    reads: str
    columns: str = BID
    bids: str = "SELECT * FROM bid"


JSON = FileForm("json", "FORMAT json", "read_json('{path}', format = 'newline_delimited')")
NESTED = replace(
    JSON,
    columns="auction BIGINT, item ROW<price BIGINT, channel STRING, seen ROW<moment TIMESTAMP(3), url STRING>>, "
    "tags ARRAY<STRING>, bids ARRAY<ROW<bidder BIGINT, price BIGINT>>",
    bids="SELECT auction, {price: price, channel: channel, seen: {moment: dateTime, url: url}} AS item, "
    "[channel, extra] AS tags, [{bidder: bidder, price: price}, {bidder: auction, price: bidder}] AS bids FROM bid",
)
ESCAPED = replace(
    JSON, bids="""SELECT * REPLACE ('a "' || url || chr(10) AS url, extra || '\\' AS extra) FROM bid"""
)
NUMBERS = replace(
    JSON,
    columns="auction BIGINT, price DECIMAL(12, 2), tax DECIMAL(10, 4), `dateTime` TIMESTAMP(3), ratio DOUBLE, share DOUBLE",
    bids="SELECT auction, CAST(price / 100 AS DECIMAL(12, 2)) AS price, CAST(price / 90000 AS DECIMAL(10, 4)) AS tax, dateTime, "
    "round(price / 1000, 1) AS ratio, round(bidder / 1000, 2) AS share FROM bid",
)
_FIELDS = [(f"field_{n}", "auction + price" if n % 2 else "channel") for n in range(50)]
WIDE = replace(
    JSON,
    columns=", ".join(f"{name} {'BIGINT' if value[0] == 'a' else 'STRING'}" for name, value in _FIELDS),
    bids="SELECT " + ", ".join(f"{value} AS {name}" for name, value in _FIELDS) + " FROM bid",
)
CSV = FileForm("csv", "FORMAT csv, HEADER false", _READ_CSV)
QUOTED = FileForm("csv", "FORMAT csv, HEADER false, FORCE_QUOTE *", _READ_CSV)
PARQUET = FileForm("parquet", "FORMAT parquet", "read_parquet('{path}')")

PASS = "SELECT * FROM {bid}"
FEW = "SELECT field_3, field_10, field_20, field_33, field_47 FROM {bid}"
GROUP = "SELECT auction, COUNT(*) AS bids, SUM(price) AS total FROM {bid} GROUP BY auction"


@dataclass(frozen=True)
class FormatCase:
    """A query over a file in one form, or that file written of rows in memory when there is no query."""

    form: FileForm
    query: str | None = None


CASES: dict[str, FormatCase] = {
    "json": FormatCase(JSON, PASS),
    "json-nested": FormatCase(NESTED, PASS),
    "json-escaped": FormatCase(ESCAPED, PASS),
    "json-numbers": FormatCase(NUMBERS, PASS),
    "json-5-of-50": FormatCase(WIDE, FEW),
    "csv": FormatCase(CSV, PASS),
    "csv-quoted": FormatCase(QUOTED, PASS),
    "parquet": FormatCase(PARQUET, PASS),
    "parquet-group": FormatCase(PARQUET, GROUP),
    "json-write": FormatCase(JSON),
    "csv-write": FormatCase(CSV),
    "parquet-write": FormatCase(PARQUET),
}


@dataclass(frozen=True)
class FormatFigure:
    """CPU time per row of a file of so many bytes a row, here and in DuckDB, without what a job costs that reads none (`start_s`,
    here)."""

    case: str
    rows: int
    row_bytes: float
    ns_per_row: float
    duckdb_ns_per_row: float
    start_s: float

    @property
    def times_duckdb(self) -> float:
        """How many times DuckDB's rate by CPU time."""
        return self.duckdb_ns_per_row / max(self.ns_per_row, 1e-9)

    def megabytes_per_s(self, ns_per_row: float) -> float:
        return 1000 * self.row_bytes / max(ns_per_row, 1e-9)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"times_duckdb": round(self.times_duckdb, 3)}


class FormatBench:
    """Measures cases at a number of rows and at an eighth of it, with files in a directory of its own.

    State: a session whose TaskManagers are warm, the rows in DuckDB's memory, and the files that were made."""

    def __init__(self, session: Session, directory: Path, rows: int, runs: int) -> None:
        small = max(EPOCH_BIDS, rows // SHARE // EPOCH_BIDS * EPOCH_BIDS)
        self._sizes = (small, max(2 * small, rows // EPOCH_BIDS * EPOCH_BIDS))
        self._runs = runs
        self._session = session
        self._directory = directory

    def figures(self, cases: list[str]) -> Iterator[FormatFigure]:
        """JobError when a job fails, AssertionError when a file that was written has not all rows."""
        with _duckdb() as connection:
            for name in cases:
                case = CASES[name]
                measure = self._written if case.query is None else self._read
                yield self._figure(name, case, connection, measure)
                for path in self._directory.iterdir():
                    path.unlink()

    def _figure(
        self,
        name: str,
        case: FormatCase,
        connection: duckdb.DuckDBPyConnection,
        measure: Callable[[FormatCase, duckdb.DuckDBPyConnection, int], tuple[float, float]],
    ) -> FormatFigure:
        """The least CPU time of each side and size; sides take turns, and so do sizes."""
        for rows in self._sizes:
            self._make(case.form, connection, rows)
        measured: dict[int, list[tuple[float, float]]] = {rows: [] for rows in self._sizes}
        measure(case, connection, self._sizes[0])
        for _ in range(self._runs):
            for rows in self._sizes:
                measured[rows].append(measure(case, connection, rows))
        here, there = ([min(run[side] for run in measured[rows]) for rows in self._sizes] for side in (0, 1))
        small, large = self._sizes
        each_s = (here[1] - here[0]) / (large - small)
        return FormatFigure(
            name,
            large,
            round(self._path(large).stat().st_size / large, 1),
            round(each_s * 1e9, 1),
            round((there[1] - there[0]) / (large - small) * 1e9, 1),
            round(here[0] - each_s * small, 3),
        )

    def _path(self, rows: int) -> Path:
        return self._directory / f"bids-{rows}"

    def _make(self, form: FileForm, connection: duckdb.DuckDBPyConnection, rows: int) -> None:
        _load_bids(connection, rows)
        connection.execute(f"COPY ({form.bids}) TO '{self._path(rows)}' ({form.copy})")

    def _read(
        self, case: FormatCase, connection: duckdb.DuckDBPyConnection, rows: int
    ) -> tuple[float, float]:
        """CPU seconds of the query over the file here, and in DuckDB, whose rows are fetched as Arrow's batches and dropped."""
        assert case.query is not None
        form, path = case.form, self._path(rows)
        here = self._cpu_seconds(
            f"CREATE TABLE bid ({form.columns}) "
            f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{form.format}');"
            f"CREATE TABLE sink WITH ('connector' = 'blackhole') AS {case.query.format(bid='bid')};"
        )
        started = time.process_time()
        for _ in connection.sql(case.query.format(bid=form.reads.format(path=path))).to_arrow_reader(
            BATCH_ROWS
        ):
            pass
        return here, time.process_time() - started

    def _written(
        self, case: FormatCase, connection: duckdb.DuckDBPyConnection, rows: int
    ) -> tuple[float, float]:
        """CPU seconds of writing the rows of a generator here, less those of generating them, and of DuckDB's COPY of a table."""
        form, directory = case.form, tempfile.mkdtemp(dir=self._directory.parent)
        source = (
            f"CREATE TABLE bid ({BID}) WITH ('connector' = 'nexmark', 'nexmark.table' = 'bid', "
            f"'nexmark.events' = '{_events(rows)}', 'nexmark.rate' = '{_rate(rows)}');"
        )
        dropped = self._cpu_seconds(
            f"{source}CREATE TABLE sink WITH ('connector' = 'blackhole') AS {PASS.format(bid='bid')};"
        )
        here = self._cpu_seconds(
            f"{source}CREATE TABLE sink WITH ('connector' = 'filesystem', 'path' = '{directory}', "
            f"'format' = '{form.format}') AS {PASS.format(bid='bid')};"
        )
        relation = form.reads.format(path=f"{directory}/part-*")
        counted = connection.execute(f"SELECT COUNT(*) FROM {relation}").fetchall()
        assert counted == [(rows,)], f"{counted} rows of {rows} are in {directory}"
        # What else is there is removed by the engine.
        for path in Path(directory).glob("part-*"):
            path.unlink()
        _load_bids(connection, rows)
        started = time.process_time()
        connection.execute(f"COPY ({form.bids}) TO '{self._path(rows)}' ({form.copy})")
        return here - dropped, time.process_time() - started

    def _cpu_seconds(self, text: str) -> float:
        """CPU seconds of all processes of the session for a script."""
        cluster = self._session.cluster.cluster()
        started = cluster.cpu_seconds()
        run_script(self._session, text, lambda table: dict(table.options))
        return cluster.cpu_seconds() - started


@contextlib.contextmanager
def format_bench(directory: str, rows: int, runs: int, settings: dict[str, str]) -> Iterator[FormatBench]:
    """A bench whose files are below a directory, where it leaves none."""
    from sqlstream.client.clusters.local_cluster import IN_PROCESS_INPUT

    made = Path(directory, "formats", "made")
    made.mkdir(parents=True)
    try:
        # Measure child processes, however few the rows are.
        with local_session({"parallelism.default": "1", IN_PROCESS_INPUT: "0"} | settings) as session:
            yield FormatBench(session, made, rows, runs)
    finally:
        shutil.rmtree(made.parent)


def _events(rows: int) -> int:
    return rows // EPOCH_BIDS * EPOCH_EVENTS


def _rate(rows: int) -> int:
    return max(1, _events(rows) // EVENT_TIME_SPAN_S)


@contextlib.contextmanager
def _duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        yield connection


def _load_bids(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    """Let `bid` be so many bids in memory, as the generator makes them."""
    generator, events = NexmarkGenerator(NexmarkConfig(rate=_rate(rows))), _events(rows)
    blocks = (generator.bids(at, min(at + BATCH_ROWS, events)) for at in range(0, events, BATCH_ROWS))
    connection.register("generated", pa.RecordBatchReader.from_batches(BID_SCHEMA, blocks))
    connection.execute(f"CREATE TABLE IF NOT EXISTS bid_{rows} AS SELECT * FROM generated")
    connection.execute(f"CREATE OR REPLACE VIEW bid AS SELECT * FROM bid_{rows}")
    connection.unregister("generated")
