"""`main.py lookup`: how many rows a lookup join answers on one core."""

from __future__ import annotations

import argparse
import sys

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, write_json

EPILOG = """\
examples:
  python tests/benches/main.py lookup
  python tests/benches/main.py lookup --table-rows 1000000 --json -
  python tests/benches/main.py lookup --connector jdbc

The operator of the lookup join alone, in this process, over a table of --table-rows rows in a DuckDB file, with --connector jdbc
in a SQLite file, by an integer key: rows of its input per second of CPU time, the database's included, for every cache, in
batches of 65,536 rows. Nine in ten of the random keys have a row. The first batch is not counted: it loads a FULL cache. PARTIAL
begins with the keys of that batch, and ends with all. The exit code is 1 when a figure is below its bar.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--table-rows", type=count, default=100_000, help="rows of the table (default: 100,000)"
    )
    parser.add_argument(
        "--rows", type=count, default=4_000_000, help="rows that are answered (default: 4,000,000)"
    )
    parser.add_argument(
        "--connector",
        choices=("duckdb", "jdbc"),
        default="duckdb",
        help="what reads the table (default: duckdb)",
    )
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when every figure reaches its bar, else 1."""
    from benches.lookup import LookupFigure, figures

    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(_line(("cache", "join", "rows/CPU-s", "bar", "rows out")), file=out, flush=True)
    found: list[LookupFigure] = []
    for figure in figures(arguments.table_rows, arguments.rows, arguments.connector):
        found.append(figure)
        cells = (figure.rows_per_cpu_s, figure.bar, figure.rows_out)
        print(_line((figure.cache, figure.kind, *(f"{n:,}" for n in cells))), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0 if all(figure.is_within_bar for figure in found) else 1


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<10}{cells[1]:<8}" + "".join(f"{cell:>14}" for cell in cells[2:])
