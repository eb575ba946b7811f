"""`main.py formats`: what reading and writing a file costs in each format, beside DuckDB on one thread."""

from __future__ import annotations

import argparse
import sys
import tempfile

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import (
    add_json_argument,
    bench_settings,
    cells_line,
    check_writable,
    chosen,
    write_json,
)

EPILOG = """\
examples:
  python tests/benches/main.py formats
  python tests/benches/main.py formats --only csv,csv-quoted --rows 4000000 --runs 5
  python tests/benches/main.py formats --only json --json -

A file of Nexmark's bids, in the system's cache: read into `blackhole` at parallelism 1, and by DuckDB on one thread, which hands
its rows over as Arrow's batches; or written of generated rows (whose generation is measured apart and left out), and by DuckDB's
COPY of a table in memory. CPU time of all processes, on a session that is warm: the least of --runs runs in which the two
sides take turns, with --rows rows and with an eighth of them. Rates are those of the rows between the two sizes, so that
`start s`, what a job costs besides its rows, is in none of them.

csv-quoted has quotes round every value, those of numbers too. parquet-group is COUNT and SUM by auction, all others pass
every column of every row through.
"""
COLUMNS = ("case", "bytes a row", "ns a row", "duckdb ns", "MB/s", "duckdb MB/s", "times duckdb", "start s")
WIDTH = 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--only", default="", metavar="CASES", help="comma-separated (default: all)")
    parser.add_argument(
        "--rows", type=count, default=2_000_000, help="bids of the larger file (default: 2,000,000)"
    )
    parser.add_argument("--runs", type=count, default=3, help="runs of each side and size (default: 3)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the session"
    )
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when the figures are there."""
    from benches.formats import CASES, FormatFigure, format_bench

    def line(figure: FormatFigure) -> tuple[str, ...]:
        rates = (figure.megabytes_per_s(ns) for ns in (figure.ns_per_row, figure.duckdb_ns_per_row))
        return (
            figure.case,
            f"{figure.row_bytes:.1f}",
            f"{figure.ns_per_row:.0f}",
            f"{figure.duckdb_ns_per_row:.0f}",
            *(f"{rate:,.0f}" for rate in rates),
            f"{figure.times_duckdb:.2f}",
            f"{figure.start_s:.2f}",
        )

    check_writable(arguments.json)
    cases = chosen(arguments.only, list(CASES), "case")
    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(cells_line(COLUMNS, WIDTH), file=out, flush=True)
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="sqlstream-bench-") as directory,
        format_bench(directory, arguments.rows, arguments.runs, bench_settings(arguments)) as bench,
    ):
        for figure in bench.figures(cases):
            found.append(figure)
            print(cells_line(line(figure), WIDTH), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0
