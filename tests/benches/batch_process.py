"""The process that `main.py batch` starts for each engine: measures the queries that its standard input names.

Its argument is an EngineOrder; it writes an EngineStart and then a BatchFigure for each line of its input, as lines of JSON."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import IO

import msgspec
from benches.batch import FLIGHTS, BatchFigure, EngineOrder, EngineStart, query_text
from benches.process_tree import forget_tree_peak, tree_cpu_seconds, tree_peak_rss_bytes

from sqlstream.batch_plan import BatchPlan
from sqlstream.catalog import CatalogTable
from sqlstream.client.benches.script import Options, answer_of, nexmark_options, run_script
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session
from sqlstream.errors import ErrorInfo, UserError
from sqlstream.runtime.batch.engine import batch_engine
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.logs import QUIET_LEVEL, configure_logging

WARM_UP_SHARE = 10


class EngineBench:
    """Measures queries on one engine, one after the other. State: the engine, and whether it has answered a query."""

    def __init__(self, order: EngineOrder) -> None:
        self._order = order
        self._settings = order.settings | _mode(order.engine)
        self._clusters = LocalClusterClient(self._settings)
        self._session = Session(self._clusters, self._settings)
        self._has_answered = False

    def start(self) -> EngineStart:
        """Start the engine: its cluster, DuckDB's library or Spark's JVM."""
        engine = self._order.engine
        started = time.perf_counter()
        try:
            if engine == "stream":
                self._clusters.cluster()
            else:
                # A plan without an output asks for nothing but the engine.
                plan = BatchPlan("start", "start", engine, (), (), self._settings)
                batch_engine(engine).explain(plan, LocalFiles())
        except Exception as error:
            return EngineStart(engine, error=ErrorInfo.of(error))
        return EngineStart(engine, round(time.perf_counter() - started, 3))

    def measure(self, query: str) -> BatchFigure:
        engine = self._order.engine
        try:
            return self._measured(query, query_text(query))
        except Exception as error:
            return BatchFigure(query, engine, error=ErrorInfo.of(error))

    def _measured(self, query: str, text: str) -> BatchFigure:
        order = self._order
        first_s = None
        if not self._has_answered:
            first_s, _ = self._timed(query, text)
            self._has_answered = True
        self._run(query, text, max(1, order.events // WARM_UP_SHARE), "blackhole")
        forget_tree_peak()
        runs = [self._timed(query, text) for _ in range(order.runs)]
        peak = tree_peak_rss_bytes()
        rows, checksum = answer_of(self._run(query, text, order.events, "checksum"))
        return BatchFigure(
            query,
            order.engine,
            round(statistics.median(wall_s for wall_s, _ in runs), 4),
            round(statistics.median(cpu_s for _, cpu_s in runs), 4),
            peak,
            rows,
            checksum,
            None if first_s is None else round(first_s, 4),
        )

    def _timed(self, query: str, text: str) -> tuple[float, float]:
        """Seconds on the clock and of all processors of one run."""
        cpu_s, started = tree_cpu_seconds(), time.perf_counter()
        self._run(query, text, self._order.events, "blackhole")
        return time.perf_counter() - started, tree_cpu_seconds() - cpu_s

    def _run(self, query: str, text: str, events: int, sink: str) -> dict[str, int]:
        def options_of(table: CatalogTable) -> Options:
            if query in FLIGHTS and table.options["connector"] == "filesystem":
                name = Path(table.options["path"]).name
                return dict(table.options) | {"path": str(Path(self._order.flights, name))}
            return nexmark_options(table, events, self._order.rate, sink)

        return run_script(self._session, text, options_of)

    def close(self) -> None:
        self._clusters.close()
        if self._order.engine != "stream":
            batch_engine(self._order.engine).close()


def _mode(engine: str) -> dict[str, str]:
    if engine == "stream":
        return {"execution.runtime-mode": "STREAMING"}
    return {"execution.runtime-mode": "BATCH", "execution.batch.engine": engine}


def main() -> int:
    # A shell has the processes that it starts in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    order = msgspec.json.decode(sys.argv[1], type=EngineOrder)
    # Only answers reach the parent, whatever a library prints.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    configure_logging("bench", QUIET_LEVEL, "TEXT")
    try:
        bench = EngineBench(order)
    except UserError as error:
        _tell(answers, EngineStart(order.engine, error=ErrorInfo.of(error)))
        return 0
    with contextlib.closing(bench), contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        try:
            _answer(bench, answers)
        finally:
            # What follows frees everything, and nothing is left to interrupt.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    return 0


def _answer(bench: EngineBench, answers: IO[str]) -> None:
    queries: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_queries, args=(queries,), name="queries", daemon=True).start()
    _tell(answers, bench.start())
    while query := queries.get():
        _tell(answers, bench.measure(query))


def _read_queries(queries: queue.Queue[str]) -> None:
    """One query a line. The end of the input interrupts what runs: the parent has ended or given up."""
    for line in sys.stdin:
        queries.put(line.strip())
    queries.put("")
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _tell(answers: IO[str], answer: EngineStart | BatchFigure) -> None:
    print(msgspec.json.encode(answer).decode(), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
