"""The Nexmark measurements behind `sqlstream bench nexmark`."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.catalog import CatalogTable
from sqlstream.client.benches.script import (
    EVENT_TIME_SPAN_S,
    Options,
    answer_of,
    checksum_text,
    is_same_answer,
    nexmark_options,
    nexmark_queries,
    nexmark_text,
    redirect_tables,
    run_script,
)
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.planner.lower.duckdb import lower_duckdb, quote, type_name
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.relational.nodes import RelationalNode, Sink, TableScan
from sqlstream.planner.rules.column_pruning import prune_columns
from sqlstream.runtime.batch.hosted_functions import HostedCalls
from sqlstream.runtime.connectors.checksum import row_checksum
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
from sqlstream.runtime.connectors.generators.nexmark_generator import NexmarkGenerator
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec

if TYPE_CHECKING:
    import duckdb


GENERATOR = "gen"
GENERATOR_BLOCK = 65_536
Result = dict[str, Any]

AGAINST_COLUMNS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("query", str),
    ("events", "{:,}".format),
    ("parallelism", str),
    ("gross_ns", "{:.1f}".format),
    ("source_ns", "{:.1f}".format),
    ("net_ns", "{:.1f}".format),
    ("duckdb_ns", "{:.1f}".format),
    ("net_by_duckdb", "{:.2f}".format),
    ("result_rows", "{:,}".format),
    ("duckdb_rows", "{:,}".format),
    ("is_same_answer", lambda same: {None: "", True: "yes", False: "NO"}.get(same, same)),
)
"""The figures beside DuckDB's."""

COLUMNS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("query", str),
    ("events", "{:,}".format),
    ("parallelism", str),
    ("wall_s", "{:.2f}".format),
    ("events_per_s", "{:,.0f}".format),
    ("cpu_s", "{:.2f}".format),
    ("events_per_cpu_s", "{:,.0f}".format),
    ("peak_rss_bytes", lambda size: f"{size / 2**20:,.0f} MiB"),
    ("result_rows", lambda rows: "" if rows is None else f"{rows:,}"),
    ("result_checksum", lambda checksum: checksum or ""),
)
"""Name of a figure to its format in the table."""


def available_queries() -> list[str]:
    """The queries that have a file, in order of their number, and the generator."""
    return [GENERATOR, *nexmark_queries()]


class NexmarkBench:
    """Measures queries one after the other, each on a cluster of its own. `rate` None makes event time span 10 s."""

    def __init__(self, events: int, parallelism: int, rate: int | None, settings: dict[str, str]) -> None:
        from sqlstream.client.clusters.local_cluster import IN_PROCESS_INPUT

        self._events = events
        self._parallelism = parallelism
        self._rate = rate or max(1, events // EVENT_TIME_SPAN_S)
        # Measure child processes, however few the events are.
        self._settings = {**settings, "parallelism.default": str(parallelism), IN_PROCESS_INPUT: "0"}

    def __enter__(self) -> NexmarkBench:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def run(self, query: str, runs: int, with_checksum: bool) -> Result:
        """The figures of one query. JobError when its job fails."""
        if query == GENERATOR:
            return self._generate(runs)
        from sqlstream.client.clusters.local_cluster import LocalClusterClient
        from sqlstream.client.sessions.session import Session

        with contextlib.closing(LocalClusterClient(self._settings)) as clusters:
            session = Session(clusters, self._settings)
            measured = self._measure(session, nexmark_text(query), runs, writes_files=True)
            peak = clusters.cluster().peak_rss_bytes()
            rows, checksum = self._check(session, query) if with_checksum else (None, None)
        wall_s = statistics.median(wall for wall, _ in measured)
        cpu_s = statistics.median(cpu for _, cpu in measured)
        return self._result(query, self._parallelism, wall_s, cpu_s, peak, rows, checksum)

    def run_against_duckdb(self, query: str, runs: int) -> Result:
        """The figures of one query beside DuckDB's, in CPU ns per event. JobError when its job fails.

        `gross_ns` is the whole job. `source_ns` is a job that only generates the columns which the query reads and drops
        them. `net_ns` is the difference: the cost of the query over existing rows, which is what DuckDB's figure is.
        """
        from sqlstream.client.sessions.target_session import local_session

        with local_session(self._settings) as session:
            sink, sources = self.bound(session, query)
            gross_s = statistics.median(cpu for _, cpu in self._measure(session, nexmark_text(query), runs))
            source_s = statistics.median(cpu for _, cpu in self._measure(session, sources, runs))
            rows, checksum = self._check(session, query)
            batch = answer_in_duckdb(sink, self._events, NexmarkConfig(rate=self._rate), runs)
            is_same: bool | str | None = batch.is_answered_by(query, rows, checksum)
            if is_same and checksum != batch.checksum:
                # Equal rows leave a choice: whether each answer is one of those that may be.
                is_same = is_equally_right(session, sink)
        net_s = max(0.0, gross_s - source_s)
        return {
            "query": query,
            "events": self._events,
            "parallelism": self._parallelism,
            "gross_ns": self._per_event(gross_s),
            "source_ns": self._per_event(source_s),
            "net_ns": self._per_event(net_s),
            "duckdb_ns": self._per_event(batch.cpu_s),
            "net_by_duckdb": round(net_s / max(batch.cpu_s, 1e-9), 2),
            "result_rows": rows,
            "duckdb_rows": batch.rows,
            "is_same_answer": is_same,
        }

    def _measure(
        self, session: Any, text: str, runs: int, *, writes_files: bool = False
    ) -> list[tuple[float, float]]:
        """(elapsed seconds, CPU seconds) of each run of a script into `blackhole`, after a warm-up on a tenth of the events. With
        `writes_files` tables of files are written, into a directory that is removed."""
        cluster = session.cluster.cluster()
        measured = []
        for number, events in enumerate((max(1, self._events // 10), *[self._events] * runs)):
            with tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as directory:
                options = self._options(events, "blackhole", directory if writes_files else "")
                cpu, started = cluster.cpu_seconds(), time.perf_counter()
                run_script(session, text, options)
                elapsed_s, cpu_s = time.perf_counter() - started, cluster.cpu_seconds() - cpu
            if number:
                measured.append((elapsed_s, cpu_s))
        return measured

    def _check(self, session: Any, query: str) -> tuple[int, str]:
        """Number and checksum of the final rows."""
        return answer_of(self._run_text(session, nexmark_text(query), self._events, "checksum"))

    def _per_event(self, cpu_s: float) -> float:
        return round(cpu_s / self._events * 1e9, 1)

    def bound(self, session: Any, query: str) -> tuple[Any, str]:
        """The bound sink for DuckDB, and a script that generates the rows which the query's job reads and drops them."""
        from sqlstream.planner.bind.sink import bind_insert
        from sqlstream.planner.dialect.parser import parse_script, parse_statements
        from sqlstream.planner.dialect.statements import Insert

        session.catalog = type(session.catalog)()
        text = nexmark_text(query)
        *tables, insert = parse_script(text)
        assert isinstance(insert, Insert)
        for table in tables:
            session.execute(table)
        redirect_tables(session, self._options(self._events, "blackhole"))
        sources = text[: insert.span.start] + _source_script(session.compile(insert).job_graph)
        if query in CLOCK_QUERIES:
            (insert,) = parse_statements(CLOCK_QUERIES[query])
            assert isinstance(insert, Insert)
        return bind_insert(insert, session.bind_context()), sources

    def _run_text(self, session: Any, text: str, events: int, sink: str) -> dict[str, Any]:
        """Run a script over `events` events into a sink connector; returns the metrics of its last job."""
        return run_script(session, text, self._options(events, sink))

    def _options(self, events: int, sink: str, files: str = "") -> Callable[[CatalogTable], Options]:
        """Point a table at this measurement: number and rate of events, and where rows go."""
        return lambda table: nexmark_options(table, events, self._rate, sink, files)

    def _generate(self, runs: int) -> Result:
        """The figures of generating and dropping all columns of all events."""
        import resource

        generator = NexmarkGenerator(NexmarkConfig(rate=self._rate))
        measured = []
        for _ in range(runs + 1):
            cpu, started = time.process_time(), time.perf_counter()
            rows = 0
            for start in range(0, self._events, GENERATOR_BLOCK):
                stop = min(start + GENERATOR_BLOCK, self._events)
                made = (
                    generator.bids(start, stop),
                    generator.auctions(start, stop),
                    generator.persons(start, stop),
                )
                rows += sum(batch.num_rows for batch in made)
            measured.append((time.perf_counter() - started, time.process_time() - cpu))
        wall_s = statistics.median(wall for wall, _ in measured[1:])
        cpu_s = statistics.median(cpu for _, cpu in measured[1:])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return self._result(GENERATOR, 1, wall_s, cpu_s, peak, rows, None)

    def _result(
        self,
        query: str,
        parallelism: int,
        wall_s: float,
        cpu_s: float,
        peak: int,
        rows: int | None,
        checksum: str | None,
    ) -> Result:
        return {
            "query": query,
            "events": self._events,
            "parallelism": parallelism,
            "wall_s": round(wall_s, 4),
            "events_per_s": round(self._events / wall_s),
            "cpu_s": round(cpu_s, 4),
            "events_per_cpu_s": round(self._events / max(cpu_s, 1e-9)),
            "peak_rss_bytes": peak,
            "result_rows": rows,
            "result_checksum": checksum,
        }


def _source_script(graph: JobGraph) -> str:
    """A script of one job that reads the same columns of the same sources as `graph`, and drops the rows."""
    sources = [o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec)]
    tables, inserts = [], []
    for number, spec in enumerate(sources):
        types = dict(zip(spec.schema.names, spec.schema.types, strict=True))
        declared = ", ".join(
            f"`{column}` {types[column].without_time_attribute().with_nullable(True)}"
            for column in spec.columns
        )
        columns = ", ".join(f"`{column}`" for column in spec.columns)
        tables.append(f"CREATE TABLE source_{number} ({declared}) WITH ('connector' = 'blackhole');")
        inserts.append(f"INSERT INTO source_{number} SELECT {columns} FROM `{spec.table}`;")
    return "\n".join([*tables, "EXECUTE STATEMENT SET BEGIN", *inserts, "END;"])


def is_equally_right(session: Any, sink: Any) -> bool | str:
    """Whether VERIFY finds the rows of a bound query equal to DuckDB's, or as right; "count only" where DuckDB has no memory left
    to compare them."""
    from sqlstream.client.verification.verify import verify_sinks

    try:
        (found,) = verify_sinks(session, (sink,), session.bind_context(), "duckdb")
    except SqlStreamError as error:
        if error.code != "SS5070":
            raise
        return "count only"
    return found.is_equal


# DuckDB's batch answers to the Nexmark queries, over the same rows in memory: what `--against duckdb` compares with.


BATCH_ROWS = 65_536
CLOCK_QUERIES = {
    "q12": "INSERT INTO nexmark_q12 (bidder, bid_count) SELECT bidder, COUNT(*) FROM bid GROUP BY bidder"
}
"""Queries with windows by processing time, rewritten for a batch: all rows are in one window."""


@dataclass(frozen=True)
class BatchAnswer:
    """DuckDB's answer to one query: CPU seconds of the median run, number and checksum of the rows."""

    cpu_s: float
    rows: int
    checksum: str

    def is_answered_by(self, query: str, rows: int, checksum: str) -> bool | None:
        """Whether the engine gave the same answer; None where the answers cannot be compared."""
        return is_same_answer(query, (self.rows, self.checksum), (rows, checksum))


def answer_in_duckdb(sink: Sink, events: int, config: NexmarkConfig, runs: int) -> BatchAnswer:
    """Load what the bound query reads into DuckDB's memory, warm up, and measure `runs` answers on one thread.

    The query text comes from `lower_duckdb`. Result rows are fetched as Arrow batches and dropped, as `blackhole` drops
    them; the rows of the warm-up are counted and checked.
    """
    import duckdb

    (pruned,) = prune_columns((sink,))
    scans = list(_scans(pruned))
    functions = HostedFunctions()
    relations = {scan.table.path.name: quote(scan.table.path.name) for scan in scans}
    text = lower_duckdb(pruned, relations, functions=functions)
    hosted = HostedCalls(functions.found, {})
    with contextlib.closing(hosted), duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        hosted.register(connection)
        for scan in {scan.table.path.name: scan for scan in scans}.values():
            columns = list(dict.fromkeys(c for s in scans if s.table == scan.table for c in s.columns))
            _load(connection, scan, columns, events, config)
        rows, checksum = _checked(connection, text, sink.schema)
        measured = []
        for _ in range(runs):
            started = time.process_time()
            for _ in connection.sql(text).to_arrow_reader(BATCH_ROWS):
                pass
            measured.append(time.process_time() - started)
    return BatchAnswer(statistics.median(measured), rows, checksum)


def _scans(node: RelationalNode) -> Iterator[TableScan]:
    if isinstance(node, TableScan):
        yield node
    for each in node.inputs:
        yield from _scans(each)


def _load(
    connection: duckdb.DuckDBPyConnection,
    scan: TableScan,
    columns: list[str],
    events: int,
    config: NexmarkConfig,
) -> None:
    """Load the columns that `scan` reads into a table with the types of the lowered text."""
    if "nexmark.table" not in scan.table.options:
        _load_side_input(connection, scan)
        return
    generator = NexmarkGenerator(config)
    make = {"person": generator.persons, "auction": generator.auctions, "bid": generator.bids}[
        scan.table.options["nexmark.table"]
    ]
    blocks = (make(at, min(at + BATCH_ROWS, events), columns) for at in range(0, events, BATCH_ROWS))
    reader = pa.RecordBatchReader.from_batches(make(0, 0, columns).schema, blocks)
    declared = scan.table.physical_schema()
    types = dict(zip(declared.names, declared.types, strict=True))
    cast = ", ".join(f"CAST({quote(c)} AS {type_name(types[c])}) AS {quote(c)}" for c in columns)
    connection.register("generated", reader)
    connection.execute(f"CREATE TABLE {quote(scan.table.path.name)} AS SELECT {cast} FROM generated")
    connection.unregister("generated")


def _load_side_input(connection: duckdb.DuckDBPyConnection, scan: TableScan) -> None:
    """Load a table that lies beside the queries as a CSV file with names in its first line."""
    types = zip(scan.columns, scan.schema.types, strict=True)
    columns = ", ".join(f"CAST({quote(c)} AS {type_name(t)}) AS {quote(c)}" for c, t in types)
    path = scan.table.options["path"]
    connection.execute(
        f"CREATE TABLE {quote(scan.table.path.name)} AS SELECT {columns} FROM read_csv(?, header = true)",
        [path],
    )


def _checked(connection: duckdb.DuckDBPyConnection, text: str, schema: Schema) -> tuple[int, str]:
    wanted = to_arrow_schema(schema)
    rows, checksum = 0, 0
    for batch in connection.sql(text).to_arrow_reader(BATCH_ROWS):
        columns: list[Any] = [c.cast(f.type) for c, f in zip(batch.columns, wanted, strict=True)]
        rows += batch.num_rows
        checksum += int(row_checksum(columns).sum())
    return rows, checksum_text(checksum)
