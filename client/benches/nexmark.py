"""The Nexmark measurements behind `sqlstream bench nexmark`."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from sqlstream.catalog import CatalogTable
from sqlstream.client.benches.script import (
    EVENT_TIME_SPAN_S,
    Options,
    answer_of,
    nexmark_options,
    nexmark_queries,
    nexmark_text,
    redirect_tables,
    run_script,
)
from sqlstream.graph.job_graph import JobGraph
from sqlstream.specs import SourceSpec

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
    ("is_same_answer", lambda same: "" if same is None else "yes" if same else "NO"),
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
        from sqlstream.client.benches.duckdb import answer_in_duckdb
        from sqlstream.client.sessions.target_session import local_session
        from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig

        with local_session(self._settings) as session:
            sink, sources = self.bound(session, query)
            gross_s = statistics.median(cpu for _, cpu in self._measure(session, nexmark_text(query), runs))
            source_s = statistics.median(cpu for _, cpu in self._measure(session, sources, runs))
            rows, checksum = self._check(session, query)
            batch = answer_in_duckdb(sink, self._events, NexmarkConfig(rate=self._rate), runs)
            is_same = batch.is_answered_by(query, rows, checksum)
            if is_same and checksum != batch.checksum:
                # Equal rows leave a choice: whether each answer is one of those that may be.
                is_same = _is_equally_right(session, sink)
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
        from sqlstream.client.benches.duckdb import CLOCK_QUERIES
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

        from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig
        from sqlstream.runtime.connectors.generators.nexmark_generator import NexmarkGenerator

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


def _is_equally_right(session: Any, sink: Any) -> bool:
    """Whether VERIFY finds the rows of a bound query equal to DuckDB's, or as right."""
    from sqlstream.client.verification.verify import verify_sinks

    (found,) = verify_sinks(session, (sink,), session.bind_context(), "duckdb")
    return found.is_equal
