"""`main.py small`: what jobs cost whose rows come in small batches, or not at all."""

from __future__ import annotations

import argparse
import sys

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, write_json

EPILOG = """\
examples:
  python tests/benches/main.py small
  python tests/benches/main.py small count --seconds 60
  python tests/benches/main.py small "500 idle jobs" --json -

The CPU time of all processes, in cores, while a job goes on:

count RATE      a tumbling count of one second over a generator, at parallelism 1 by `sqlstream run`
sinks RATE      a sliding window of 10 s into Parquet files, and totals by key into DuckDB, with a checkpoint each second,
                at parallelism 2
N idle jobs     jobs of one server that watch an empty directory
N jobs          jobs of one server with totals by key of 100 rows per second each

and `batch ROWS`: the CPU time, in milliseconds, of one batch more through source, projection, watermark, local window, hash
exchange, window and sink, batch after batch, at parallelism 2.

The exit code is 1 when a figure is above its bar.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help="what their names begin with (default: all)"
    )
    parser.add_argument("--seconds", type=count, default=20, help="how long each is measured (default: 20)")
    parser.add_argument("--warm-up", type=count, default=10, help="seconds before that (default: 10)")
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when every figure is within its bar, else 1."""
    from benches.small import Figure, Span, figures

    out = sys.stderr if arguments.json == "-" else sys.stdout
    found: list[Figure] = []
    for figure in figures(arguments.figures, Span(arguments.warm_up, arguments.seconds)):
        found.append(figure)
        print(f"{figure.name:<26}{figure.value:>10.4f}{figure.bar:>10g} {figure.unit}", file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0 if all(figure.is_within_bar for figure in found) else 1
