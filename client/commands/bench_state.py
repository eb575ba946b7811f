"""`sqlstream bench state`: how fast the keyed state of an operator is found, written, saved and forgotten."""

from __future__ import annotations

import argparse
import sys

from client.arguments import count
from client.commands.bench_figures import add_json_argument, check_writable, write_json

KEYS = (10_000, 1_000_000, 30_000_000)
EPILOG = """\
examples:
  sqlstream bench state
  sqlstream bench state --keys 1000000 --json -

A table of BIGINT keys with a count and a time to live, as a GROUP BY keeps it, alone in this process: rows per second of CPU
time, in batches of 65,536 rows, and the bytes that the table holds per key afterwards. `create` enters each key once, `find`
looks up random keys, `write` adds to the counts of random entries and extends their time to live, `gather` reads random counts,
`save` and `load` are those of a snapshot, and `expire` forgets all keys at once. Without --keys a table that does not fit into
the memory that is free is left out.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    default = ", ".join(f"{keys:,}" for keys in KEYS)
    parser.add_argument(
        "--keys", type=count, nargs="+", metavar="KEYS", help=f"keys of the tables (default: {default})"
    )
    parser.add_argument(
        "--rows",
        type=count,
        default=8_000_000,
        help="rows that find, write and gather take (default: 8,000,000)",
    )
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when the figures are there."""
    from client.benches.state import StateBench, StateFigure, free_bytes, needed_bytes

    check_writable(arguments.json)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(_line(("operation", "keys", "rows", "rows/CPU-s", "bytes/key")), file=out, flush=True)
    found: list[StateFigure] = []
    for keys in arguments.keys or KEYS:
        if not arguments.keys and needed_bytes(keys) > free_bytes():
            needed, free = (f"{n / (1 << 30):.1f} GiB" for n in (needed_bytes(keys), free_bytes()))
            print(f"{keys:,} keys are left out: they need {needed}, and {free} are free", file=out)
            continue
        for figure in StateBench(keys, arguments.rows).figures():
            found.append(figure)
            numbers = (figure.keys, figure.rows, figure.rows_per_cpu_s)
            cells = (figure.operation, *(f"{n:,}" for n in numbers), f"{figure.bytes_per_key:.1f}")
            print(_line(cells), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<10}" + "".join(f"{cell:>16}" for cell in cells[1:])
