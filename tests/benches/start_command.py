"""`main.py start`: what processes, first jobs and compiled kernels cost before anything is at work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, chosen, write_json

if TYPE_CHECKING:
    from benches.start import StartFigure

EPILOG = """\
examples:
  python tests/benches/main.py start
  python tests/benches/main.py start --parts cold --queries q0,q5 --events 10000000
  python tests/benches/main.py start --parts kernels

commands    `sqlstream version`, `--help` and `run -c "SELECT 1"`
cold        `sqlstream run` of Nexmark queries in a new process, less what a session that is warm takes for the same
function    CREATE FUNCTION and the first job that calls a function in Python by Arrow batch
spark       a batch query over 100,000 rows on a Spark that must start first, and once more in a session that has it
kernels     where no object code fits the processor: a first GROUP BY, and all kernels on all processors

Seconds on the clock and of all processors, each the least of --runs (kernels: of one). Bytecode is written before. Other programs
on the machine lengthen the wall times. The exit code is 1 when a figure is above its bar.
"""
PARTS = ("commands", "cold", "function", "spark", "kernels")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: all)")
    parser.add_argument("--queries", default="q0,q5,q8", help="Nexmark queries (default: q0,q5,q8)")
    parser.add_argument("--events", type=count, default=10_000_000, help="of a query (default: 10,000,000)")
    parser.add_argument("--runs", type=count, default=5, help="runs of each (default: 5)")
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when every figure reaches its bar, else 1."""

    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(f"{'wall s':>8}{'CPU s':>8}{'bar':>14}  what", file=out, flush=True)
    found: list[StartFigure] = []
    for figure in _figures(arguments):
        found.append(figure)
        bar = f"{figure.bar} {figure.limit_s:g}" if figure.bar else ""
        print(f"{figure.wall_s:>8.3f}{figure.cpu_s:>8.3f}{bar:>14}  {figure.name}", file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0 if all(figure.is_within_bar for figure in found) else 1


def _figures(arguments: argparse.Namespace) -> Iterator[StartFigure]:
    from benches import start

    from sqlstream.client.benches.script import nexmark_queries

    parts = chosen(arguments.parts, list(PARTS), "part")
    queries = chosen(arguments.queries, nexmark_queries(), "query")
    if "commands" in parts:
        yield from start.commands(arguments.runs)
    if "cold" in parts:
        yield from start.cold_queries(queries, arguments.events, arguments.runs)
    if "function" in parts:
        yield from start.first_function(arguments.runs)
    if "spark" in parts:
        yield from start.spark(arguments.runs)
    if "kernels" in parts:
        yield from start.compiled_kernels()
