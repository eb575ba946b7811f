"""`main.py functions`: how many rows each scalar function computes on one core."""

from __future__ import annotations

import argparse
import sys

from sqlstream.client.commands.bench import add_json_argument, chosen, write_json

EPILOG = """\
examples:
  python tests/benches/main.py functions
  python tests/benches/main.py functions --family JSON
  python tests/benches/main.py functions --family Python
  python tests/benches/main.py functions --only UPPER,REGEXP_EXTRACT --json -

One call of each function alone, in this process, over a batch of 65,536 random rows without NULL: rows per second of CPU time,
after a first call that is not counted. Functions that are the same for all rows of a batch are left out. The family Python has
trivial functions of a user: by Arrow batch (UDF_ARROW), by row (UDF_ROW, UDF_TEXT) and asynchronous (UDF_ASYNC). The last lines
name those below 1,000,000 rows (UDF_ARROW: below 33,333,333, 30 ns a row), each with the reason; the exit code is 1 when one is
below without a reason.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--family", default="", help="functions of this family alone, a title of docs/sql/functions.md"
    )
    parser.add_argument("--only", default="", metavar="NAMES", help="these functions alone, comma-separated")
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="CPU time for each function (default: 0.2)"
    )
    add_json_argument(parser, "a JSON list, one object per function,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when every function reaches the bar or is known to be slower, else 1."""
    from benches.function_cases import CASES, USER_CASES
    from benches.functions import BAR, BARS, FunctionFigure, families, figures

    only = chosen(arguments.only.upper(), [*CASES, *USER_CASES], "function") if arguments.only else []
    family = "".join(chosen(arguments.family, families(), "family")) if arguments.family else ""
    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(f"{'function':<22}{'rows/CPU-s':>14}  call", file=out, flush=True)
    found: list[FunctionFigure] = []
    for figure in figures(family, only, arguments.seconds):
        found.append(figure)
        print(f"{figure.function:<22}{figure.rows_per_cpu_s:>14,}  {figure.call}", file=out, flush=True)
    slow = [figure for figure in found if not figure.is_within_bar]
    for figure in slow:
        reason = figure.reason or "no reason is known"
        bar = BARS.get(figure.function, BAR)
        print(f"below {bar:,}: {figure.function}, {figure.rows_per_cpu_s:,}: {reason}", file=out)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 1 if any(not figure.reason for figure in slow) else 0
