"""`main.py recursion`: what it costs to keep a recursive query up to date."""

from __future__ import annotations

import argparse
import sys

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, write_json

EPILOG = """\
examples:
  python tests/benches/main.py recursion
  python tests/benches/main.py recursion --edges 300000 --nodes 200000 --json -

The operators of some queries, in this process, with the result after each batch of changes. What is reached from 100 of --nodes
over --edges random edges: of a table that only grows, of one whose rows may go, and while 10 batches of its rows go. Over a fifth
of both, how near it is, and the least node that each is connected to, which CONNECTED_COMPONENTS tells of all. Then a chart
of --staff people on 15 levels, of which --moves people, one after the other, get a boss of another level: a batch is a move, and
changes the depth of all below. Rows per second of CPU time, and the CPU time of a batch. The exit code is 1 when a move takes
more than 10 ms, as the median.
"""
MOVE_MS_MAX = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--edges", type=count, default=1_500_000, help="edges (default: 1,500,000)")
    parser.add_argument("--nodes", type=count, default=1_000_000, help="nodes (default: 1,000,000)")
    parser.add_argument("--batch-rows", type=count, default=10_000, help="edges of a batch (default: 10,000)")
    parser.add_argument("--staff", type=count, default=1_000_000, help="people (default: 1,000,000)")
    parser.add_argument("--moves", type=count, default=100, help="people who move (default: 100)")
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when a move is as quick as it should be, else 1."""
    from benches.recursion import RecursionFigure, measure

    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(
        _line(("query", "rows/CPU-s", "rows in", "changes out", "median ms", "worst ms")),
        file=out,
        flush=True,
    )
    found: list[RecursionFigure] = []
    for figure in measure(
        arguments.edges, arguments.nodes, arguments.batch_rows, arguments.staff, arguments.moves
    ):
        found.append(figure)
        counts = (f"{n:,}" for n in (figure.rows_per_cpu_s, figure.rows_in, figure.rows_out))
        cells = (figure.name, *counts, f"{figure.median_ms:.1f}", f"{figure.worst_ms:.1f}")
        print(_line(cells), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0 if found[-1].median_ms <= MOVE_MS_MAX else 1


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<32}" + "".join(f"{cell:>13}" for cell in cells[1:])
