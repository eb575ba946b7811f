"""The Nexmark measurements behind `sqlstream bench nexmark`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from sqlstream.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, CatalogTable
from sqlstream.errors import ErrorInfo, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import Metrics

QUERIES_DIR = Path(__file__).resolve().parent.parent / "queries" / "nexmark"
GENERATOR = "gen"
EVENT_TIME_SPAN_S = 10
GENERATOR_BLOCK = 65_536
Result = dict[str, Any]

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
"""Figure and how the table shows it."""


def available_queries() -> list[str]:
    """The queries that have a file, in order of their number, and the generator."""
    names = [path.stem for path in QUERIES_DIR.glob("q*.sql")]
    return [GENERATOR, *sorted(names, key=lambda name: int(name[1:]))]


class NexmarkBench:
    """Measures queries one after the other, each on a cluster of its own. `rate` None makes event time span 10 s."""

    def __init__(self, events: int, parallelism: int, rate: int | None, settings: dict[str, str]) -> None:
        self._events = events
        self._parallelism = parallelism
        self._rate = rate or max(1, events // EVENT_TIME_SPAN_S)
        self._settings = {**settings, "parallelism.default": str(parallelism)}

    def __enter__(self) -> NexmarkBench:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def run(self, query: str, runs: int, with_checksum: bool) -> Result:
        """The figures of one query. JobError when its job fails."""
        if query == GENERATOR:
            return self._generate(runs)
        from client.session import IN_PROCESS_INPUT, Session

        # Figures are those of child processes, however few the events are.
        with Session({**self._settings, IN_PROCESS_INPUT: "0"}) as session:
            cluster = session.cluster()
            self._run_once(session, query, max(1, self._events // 10), "blackhole")
            measured = []
            for _ in range(runs):
                cpu, started = cluster.cpu_seconds(), time.perf_counter()
                self._run_once(session, query, self._events, "blackhole")
                measured.append((time.perf_counter() - started, cluster.cpu_seconds() - cpu))
            peak = cluster.peak_rss_bytes()
            rows, checksum = None, None
            if with_checksum:
                total = self._run_once(session, query, self._events, "checksum")
                rows = int(total.get("resultRows", 0))
                checksum = f"{int(total.get('resultChecksum', 0)) & (2**64 - 1):016x}"
        wall_s = statistics.median(wall for wall, _ in measured)
        cpu_s = statistics.median(cpu for _, cpu in measured)
        return self._result(query, self._parallelism, wall_s, cpu_s, peak, rows, checksum)

    def _run_once(self, session: Any, query: str, events: int, sink: str) -> dict[str, Any]:
        """Run the query's file over `events` events into a sink connector; the job's metrics."""
        from planner.dialect.parser import parse_script

        text = (QUERIES_DIR / f"{query}.sql").read_text(encoding="utf-8")
        session.catalog = type(session.catalog)()
        total: dict[str, Any] = {}
        for statement in parse_script(text):
            outcome = session.execute(statement)
            self._redirect(session, events, sink)
            if hasattr(outcome, "wait"):
                status, error = outcome.wait()
                if status is not JobStatus.FINISHED:
                    raise (error or _unknown(status)).to_job_error()
                total = _added(outcome.metrics().operators.values())
        return total

    def _redirect(self, session: Any, events: int, sink: str) -> None:
        """Point the file's tables at this measurement: number and rate of events, and where rows go."""
        for entry in session.catalog.list(DEFAULT_CATALOG, DEFAULT_DATABASE):
            if not isinstance(entry, CatalogTable):
                continue
            options = dict(entry.options)
            if options["connector"] == "nexmark":
                options |= {"nexmark.events": str(events), "nexmark.rate": str(self._rate)}
            elif options["connector"] in ("blackhole", "checksum"):
                options["connector"] = sink
            else:
                raise UserError(
                    "SS4005", f'table "{entry.path.name}" of a Nexmark query reads "{options["connector"]}"'
                )
            session.catalog.put(msgspec.structs.replace(entry, options=options))

    def _generate(self, runs: int) -> Result:
        """All columns of all events, made and dropped."""
        import resource

        from runtime.connectors.nexmark_config import NexmarkConfig
        from runtime.connectors.nexmark_generator import NexmarkGenerator

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


def _added(operators: Iterable[Metrics]) -> dict[str, Any]:
    """The metrics of all operators, added by name."""
    total: dict[str, Any] = {}
    for metrics in operators:
        for name, value in metrics.items():
            total[name] = total.get(name, 0) + value
    return total


def _unknown(status: JobStatus) -> ErrorInfo:
    return ErrorInfo("SS6012", f"the job ended {status.value.lower()}")
