"""`main.py operators`: how many rows each family of operators takes on one core."""

from __future__ import annotations

import argparse
import sys

from benches.operator_families import FAMILIES

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, check_writable, chosen, write_json

EPILOG = f"""\
examples:
  python tests/benches/main.py operators
  python tests/benches/main.py operators --only join,top-retract --keys 1000000
  python tests/benches/main.py operators --only max-retract --skewed --batch-rows 1000 32000
  python tests/benches/main.py operators --seconds 0.2 --json -

Each family alone in this process, planned from a statement and fed from memory: rows of its input per second of CPU time, with so
many keys, in batches of so many rows. Two phases are measured together where the planner makes two. Before a figure every key has
its rows, and batches have been fed for a quarter of --seconds. Inputs of inserts have random keys; `-retract` families read
updates of random rows (-U, then +U) of a table with twice as many rows as keys, and at least 200,000. `rows out` and
`state MiB` are what the operators emitted in the measured time, and hold at its end. With --skewed keys are drawn by Zipf's law
(exponent 1.1); interval joins are left out then, because one frequent key has as many results as the square of its rows. The
`seconds-` families have no keys: one row a second, in windows that end every second, so that each row has a result. The
cost of a family whose results are lists (listagg, array-agg) grows with the length of the lists, which it emits whole.
The matches of `match-open` stay open for hundreds of rows and more.
The lookup join has a measurement of its own: `python tests/benches/main.py lookup`.

families: {", ".join(FAMILIES)}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--only", default="", metavar="FAMILIES", help="comma-separated (default: all)")
    parser.add_argument(
        "--keys",
        type=count,
        nargs="+",
        default=(100, 10_000, 1_000_000),
        metavar="KEYS",
        help="numbers of keys (default: 100, 10,000, 1,000,000)",
    )
    parser.add_argument(
        "--batch-rows",
        type=count,
        nargs="+",
        default=(1_000, 32_000),
        metavar="ROWS",
        help="rows of a batch (default: 1,000, 32,000)",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=1.0, help="CPU seconds of each figure (default: 1)"
    )
    parser.add_argument("--skewed", action="store_true", help="draw keys by Zipf's law")
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when the figures are there."""
    from benches.operators import OperatorBench

    check_writable(arguments.json)
    names = chosen(arguments.only, list(FAMILIES), "family of operators")
    out = sys.stderr if arguments.json == "-" else sys.stdout
    if arguments.skewed:
        for name in [name for name in names if not FAMILIES[name].is_skewable]:
            print(f"{name} is left out: frequent keys have too many results", file=out)
            names.remove(name)
    print(_line(("family", "keys", "batch", "rows/CPU-s", "rows out", "state MiB")), file=out, flush=True)
    found = []
    bench = OperatorBench(arguments.seconds, is_skewed=arguments.skewed)
    for figure in bench.figures(names, tuple(arguments.keys), tuple(arguments.batch_rows)):
        found.append(figure)
        numbers = (figure.keys, figure.batch_rows, figure.rows_per_cpu_s, figure.rows_out)
        cells = (figure.family, *(f"{n:,}" for n in numbers), f"{figure.state_bytes / (1 << 20):,.1f}")
        print(_line(cells), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 3_600:
        raise argparse.ArgumentTypeError("a number of seconds above 0, at most 3600")
    return seconds


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<20}" + "".join(f"{cell:>14}" for cell in cells[1:])
