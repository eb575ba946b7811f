"""`main.py exchange`: what it costs to hand batches from one task to another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import (
    add_json_argument,
    cells_line,
    check_writable,
    chosen,
    write_json,
)
from sqlstream.client.rendering.live_line import LiveLine
from sqlstream.errors import UserError

if TYPE_CHECKING:
    from benches.exchange import ExchangeFigure

EPILOG = """\
examples:
  python tests/benches/main.py exchange
  python tests/benches/main.py exchange --paths machine,tcp --rows 1000 --seconds 5
  python tests/benches/main.py exchange --json exchange.json --markdown exchange.md

One thread produces batches of four BIGINT columns, and another takes them as a task does, without any operator:

process  both in this process: batches are handed over as they are.
machine  two processes of one machine, as TaskManagers of one host.
tcp      two processes over TCP on loopback, without TLS, as TaskManagers of several hosts.
tls      the same with certificates, as TaskManagers that have joined.
near     two that have joined and find each other on one machine.

rows/s        as many batches as fit, for --seconds, in turn over all channels.
sender us     CPU microseconds per batch of all threads of the sending process; within a process of both ends.
receiver us   the same of the receiving process.
latency us    median from the producer's thread to the consumer's, for one batch each five milliseconds.
threads       Python's threads in the receiving process.
"""

WIDTH = 13
COLUMNS = ("path", "channels", "rows", "rows/s", "sender us", "receiver us", "latency us", "threads")
ROWS, CHANNELS = "1000,8000,64000", "1,64"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--paths", default="", help="of process, machine, tcp and tls (default: all)")
    parser.add_argument("--rows", default=ROWS, help=f"comma-separated rows per batch (default: {ROWS})")
    parser.add_argument(
        "--channels", default=CHANNELS, help=f"comma-separated numbers of channels (default: {CHANNELS})"
    )
    parser.add_argument("--seconds", type=count, default=1, help="how long each figure takes (default: 1)")
    parser.add_argument("--markdown", metavar="FILE", help="write a table of all figures to FILE")
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    from benches.exchange import PATHS, figures

    paths = chosen(arguments.paths, PATHS, "path")
    rows, channels = _counts(arguments.rows, "rows"), _counts(arguments.channels, "channels")
    check_writable(arguments.json)
    check_writable(arguments.markdown)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    print(cells_line(COLUMNS, WIDTH), file=out, flush=True)
    found: list[ExchangeFigure] = []
    live = LiveLine()
    live.draw("measuring …")
    for figure in figures(paths, channels, rows, arguments.seconds):
        found.append(figure)
        live.erase()
        print(cells_line(_cells(figure), WIDTH), file=out, flush=True)
        live.draw("measuring …")
    live.erase()
    write_json(arguments.json, [figure.as_json() for figure in found])
    if arguments.markdown:
        Path(arguments.markdown).write_text(_markdown(found), encoding="utf-8")
    return 0


def _counts(text: str, what: str) -> list[int]:
    """The numbers of a comma-separated list. UserError SS4005."""
    try:
        return [count(word.strip()) for word in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise UserError(
            "SS4005", f'"{text}" is no list of {what}', hint=f"give numbers like --{what} 1,64"
        ) from error


def _cells(figure: ExchangeFigure) -> tuple[str, ...]:
    f = figure
    cpu = (f"{f.sender_cpu_us:,.1f}", "" if f.path == "process" else f"{f.receiver_cpu_us:,.1f}")
    numbers = (f"{f.channels}", f"{f.rows:,}", f"{f.rows_per_s:,}")
    return (f.path, *numbers, *cpu, f"{f.latency_us:,.0f}", f"{f.threads}")


def _markdown(figures: Iterable[ExchangeFigure]) -> str:
    lines: list[Sequence[str]] = [COLUMNS, ["---"] * len(COLUMNS), *map(_cells, figures)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
