"""`main.py batch`: the same queries as a stream, in DuckDB and on Spark: which engine when."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import (
    add_json_argument,
    bench_settings,
    cells_line,
    check_writable,
    chosen,
    write_json,
)
from sqlstream.client.rendering.live_line import LiveLine

if TYPE_CHECKING:
    from benches.batch import BatchFigure, EngineOrder, EngineStart, MeasuredEngine

EPILOG = """\
examples:
  python tests/benches/main.py batch
  python tests/benches/main.py batch --events 10000000 --runs 3 --markdown batch.md
  python tests/benches/main.py batch --queries q5,hourly --engines stream,duckdb --json -

Each engine is measured in a process of its own. For each query the engines take turns: a run on a tenth of the events to warm
up, then --runs runs into `blackhole`, then one into a sink that counts and checksums the final rows. The Nexmark queries read
the engine's own generator, those named hourly, weather and carriers the flights of queries/ (`make data` has the whole year).

start    until the engine takes queries: Spark's session, DuckDB's library, or the JobManager of a stream.
first    the first query of an engine, cold: a stream starts TaskManagers, Spark compiles.
wall s   median of the warm runs, from the statement to the end of its job; planning is in it.
CPU s    the same of all processes of the engine, its JVM and its Python workers among them.
peak     memory at the peak of the warm runs, summed over its processes; a page that two of them share counts twice.
         What an engine keeps of earlier queries is in it: --queries with one query shows that one alone.
same     whether row count and checksum are those of the first engine that answers. q18 and q19 may keep either of two equal
         rows: only row counts are compared.

A query without an exact answer in batch is named with the reason. The exit code is 1 when an engine or a query fails, or when
two answers differ.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--queries", default="", help="comma-separated, e.g. q0,hourly (default: all that there are)"
    )
    parser.add_argument(
        "--engines", default="", help="comma-separated, in this order (default: stream,duckdb,spark)"
    )
    parser.add_argument(
        "--events", type=count, default=1_000_000, help="Nexmark's events to read (default: 1,000,000)"
    )
    parser.add_argument("--rate", type=count, help="events per second of event time (default: events / 10)")
    parser.add_argument("--runs", type=count, default=3, help="measured runs of each query (default: 3)")
    parser.add_argument(
        "--parallelism", type=count, help="processors that each engine uses (default: all of this process)"
    )
    parser.add_argument(
        "--flights", metavar="FOLDER", help="where flights.csv and weather.csv are (default: queries/data)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all engines"
    )
    parser.add_argument("--markdown", metavar="FILE", help="write tables of all figures to FILE")
    add_json_argument(parser, '{"engines": […], "figures": […]}')


def execute(arguments: argparse.Namespace) -> int:
    """0 when every engine has answered or refused every query, and the answers agree."""
    import msgspec
    from benches.batch import ENGINES, batch_queries
    from benches.batch_table import markdown

    queries = chosen(arguments.queries, batch_queries(), "query")
    engines = chosen(arguments.engines, ENGINES, "engine")
    orders = _orders(arguments, engines, queries)
    check_writable(arguments.json)
    check_writable(arguments.markdown)
    starts: list[EngineStart] = []
    figures: list[BatchFigure] = []
    _measure(orders, queries, starts, figures, sys.stderr if arguments.json == "-" else sys.stdout)
    figures_json = {"engines": starts, "figures": figures}
    write_json(arguments.json, msgspec.to_builtins(figures_json))
    if arguments.markdown:
        Path(arguments.markdown).write_text(markdown(starts, figures), encoding="utf-8")
    has_failed = any(start.error is not None for start in starts)
    has_failed |= any(f.error is not None and not f.is_refused for f in figures)
    return 1 if has_failed or any(f.is_same_answer is False for f in figures) else 0


def _orders(arguments: argparse.Namespace, engines: list[str], queries: list[str]) -> list[EngineOrder]:
    """What the process of each engine is told. UserError for a wrong setting, SS5001 without flights."""
    from benches.batch import FLIGHTS, EngineOrder, flights_folder

    from sqlstream.client.benches.script import EVENT_TIME_SPAN_S

    flights = flights_folder(arguments.flights) if set(queries) & set(FLIGHTS) else ""
    given = bench_settings(arguments)
    cores = arguments.parallelism or len(os.sched_getaffinity(0))
    each = {
        "parallelism.default": str(cores),
        "execution.batch.duckdb-threads": str(cores),
        "spark.master": f"local[{cores}]",
    }
    rate = arguments.rate or max(1, arguments.events // EVENT_TIME_SPAN_S)
    return [
        EngineOrder(engine, arguments.events, rate, arguments.runs, flights, each | given)
        for engine in engines
    ]


def _measure(
    orders: list[EngineOrder],
    queries: list[str],
    starts: list[EngineStart],
    figures: list[BatchFigure],
    out: IO[str],
) -> None:
    """Add what is measured to `starts` and `figures`, and print it as it comes."""
    from benches.batch import MeasuredEngine, compared
    from benches.batch_table import COLUMNS, WIDTH, figure_line, start_line

    live = LiveLine()
    with contextlib.ExitStack() as ends:
        measured: list[MeasuredEngine] = []
        for order in orders:
            live.draw(f"starting {order.engine} …")
            engine = ends.enter_context(contextlib.closing(MeasuredEngine(order)))
            live.erase()
            starts.append(engine.start)
            print(start_line(engine.start), file=out, flush=True)
            if engine.start.error is None:
                measured.append(engine)
        print(f"\n{cells_line(COLUMNS, WIDTH)}", file=out, flush=True)
        for query in queries:
            of_query: list[BatchFigure] = []
            for engine in measured:
                live.draw(f"{query} {engine.name} …")
                of_query = compared([*of_query, engine.measure(query)])
                live.erase()
                print(figure_line(of_query[-1]), file=out, flush=True)
            figures += of_query
