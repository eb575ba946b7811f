"""`main.py checkpoint`: what checkpoints cost, and how soon a job goes on from one."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import count, size
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
    from benches.checkpoint import QueryFigure, StateFigure

EPILOG = """\
examples:
  python tests/benches/main.py checkpoint
  python tests/benches/main.py checkpoint --queries q5 --events 100000000 --runs 5
  python tests/benches/main.py checkpoint --queries q17 --state-bytes 2gb --json checkpoint.json

Each query reads the engine's own generator into `blackhole`, without checkpoints and with one each --interval-ms, in turn,
--runs times. cpu and wall are the throughput with checkpoints as a part of that without, by CPU seconds of all processes and
by elapsed seconds: the median of the pairs. stopped is how long a task took no input for a checkpoint, over all tasks and
checkpoints, in ms. flush is not in it: the time in which a task emits before a checkpoint what it would emit a little later
otherwise, with the wait for a next task that is behind. took is a whole checkpoint. On a machine that does other work too a run
takes longer, so that it has more checkpoints, and cpu is lower than on one of its own.

Then --state-bytes of rows by key are filled, each a count and twelve numbers. whole is the first checkpoint of them; increment
is the median of ten more, between which one key in a hundred changes. The last columns are seconds until all tasks run again:
local and store after a failure that ends no process, from local copies and from the store, medians of three; killed from the
kill of a TaskManager on.
"""

QUERIES = ("q5", "q17", "q18")
WIDTH = 13


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--queries", default=",".join(QUERIES), help="Nexmark queries (default: q5,q17,q18)")
    parser.add_argument(
        "--events", type=count, default=40_000_000, help="events to read (default: 40,000,000)"
    )
    parser.add_argument("--runs", type=count, default=3, help="pairs of runs of each query (default: 3)")
    parser.add_argument(
        "--interval-ms", type=count, default=1000, help="time between checkpoints (default: 1000)"
    )
    parser.add_argument(
        "--state-bytes", type=size, default=1 << 30, help="size of the large state (default: 1gb)"
    )
    parser.add_argument("--parallelism", type=count, default=2, help="parallelism of the jobs (default: 2)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all jobs"
    )
    add_json_argument(parser, "a JSON object with both tables")


def execute(arguments: argparse.Namespace) -> int:
    """0 when all figures are there, 1 when a job failed."""
    from benches.checkpoint import CheckpointBench

    from sqlstream.client.benches.script import nexmark_queries

    queries = chosen(arguments.queries, nexmark_queries(), "Nexmark query")
    settings = bench_settings(arguments)
    check_writable(arguments.json)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    live = LiveLine()
    found: list[QueryFigure] = []
    with CheckpointBench(arguments.parallelism, arguments.interval_ms, settings) as bench:
        names = (
            "query",
            "events",
            "events/s",
            "cpu",
            "wall",
            "checkpoints",
            "stopped p50",
            "p99",
            "flush p99",
            "took p50",
        )
        print(cells_line(names, WIDTH), file=out, flush=True)
        for query in queries:
            live.draw(f"{query} …")
            figure = bench.query(query, arguments.events, arguments.runs)
            live.erase()
            found.append(figure)
            print(cells_line(_query_cells(figure), WIDTH), file=out, flush=True)
        state_names = (
            "keys",
            "state MiB",
            "whole ms",
            "MiB",
            "increment ms",
            "MiB",
            "stopped p50",
            "p99",
            "local s",
            "store s",
            "killed s",
        )
        print(cells_line(state_names, WIDTH), file=out, flush=True)
        live.draw("state …")
        state = bench.state(arguments.state_bytes)
        live.erase()
        print(cells_line(_state_cells(state), WIDTH), file=out, flush=True)
    write_json(arguments.json, {"queries": [f.as_json() for f in found], "state": state.as_json()})
    return 0


def _query_cells(f: QueryFigure) -> tuple[str, ...]:
    ratios = (f"{f.cpu_ratio:.1%}", f"{f.wall_ratio:.1%}")
    times = (
        f"{f.stopped_ms_p50:g}",
        f"{f.stopped_ms_p99:g}",
        f"{f.flush_ms_p99:g}",
        f"{f.duration_ms_p50:g}",
    )
    return (f.query, f"{f.events:,}", f"{f.events_per_s:,}", *ratios, f"{f.checkpoints}", *times)


def _state_cells(f: StateFigure) -> tuple[str, ...]:
    whole = (f"{f.whole_ms}", _mib(f.whole_bytes))
    increment = (f"{f.increment_ms_p50:g}", _mib(f.increment_bytes_p50))
    stopped = (f"{f.stopped_ms_p50:g}", f"{f.stopped_ms_p99:g}")
    recovered = (f"{f.local_recovery_s:g}", f"{f.store_recovery_s:g}", f"{f.recovery_s:g}")
    return (f"{f.keys:,}", _mib(f.state_bytes), *whole, *increment, *stopped, *recovered)


def _mib(size: float) -> str:
    return f"{size / (1 << 20):,.1f}"
