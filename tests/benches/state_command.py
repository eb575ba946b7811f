"""`main.py state`: how fast the keyed state of an operator is found, written, saved and forgotten."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TextIO

from sqlstream.client.arguments import count
from sqlstream.client.commands.bench import add_json_argument, check_writable, write_json

KEYS = (10_000, 1_000_000, 30_000_000)
MAPPED_KEYS = 1_000_000
EPILOG = """\
examples:
  python tests/benches/main.py state
  python tests/benches/main.py state --keys 1000000 --json -
  python tests/benches/main.py state --checkpoints --keys 8000000
  python tests/benches/main.py state --mapped --keys 8000000

A table of BIGINT keys with a count and a time to live, as a GROUP BY keeps it, alone in this process: rows per second of CPU
time, in batches of 65,536 rows, and the bytes that the table holds per key afterwards. `create` enters each key once, `find`
looks up random keys, `write` adds to the counts of random entries and extends their time to live, `gather` reads random counts,
`save` and `load` are those of a snapshot, and `expire` forgets all keys at once. Without --keys a table that does not fit into
the memory that is free is left out.

With --checkpoints another thread collects snapshots of the table while it is written, on the wall clock: `stopped` is how long
the writing thread stands still when a snapshot begins, `mark` the median and the 99th percentile of what a batch of random keys
takes to be marked as changed, and `collecting` the same while the snapshot is collected. `written` are the keys that the batches
choose from; after the first a snapshot is an increment, unless so much has changed that it is whole.

With --mapped the same table is in memory and in mapped files (state.backend.type), of which at most a quarter may be mapped at
a time (taskmanager.memory.managed.size). Both count the same keys in turn, ones by Zipf's law and uniform ones; `cpu` and `wall`
are the speed of mapped state as a part of that in memory, by CPU time and by elapsed time. `cached`: pages that are not mapped
stay in the system's cache; `disk`: they are written out and read again. `mapped` is what was mapped in the mean, and `highest`
at most. Each figure takes half a minute at most, or nine batches. The default is 1,000,000 keys.
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
    parser.add_argument(
        "--checkpoints", action="store_true", help="measure snapshots of a table that is being written"
    )
    parser.add_argument(
        "--mapped", action="store_true", help="measure mapped state that is four times its memory"
    )
    add_json_argument(parser, "a JSON list, one object per figure,")


def execute(arguments: argparse.Namespace) -> int:
    """0 when the figures are there."""
    from benches.state import StateBench, StateFigure

    check_writable(arguments.json)
    out = sys.stderr if arguments.json == "-" else sys.stdout
    if arguments.checkpoints:
        return _checkpoints(arguments, out)
    if arguments.mapped:
        return _mapped(arguments, out)
    print(_line(("operation", "keys", "rows", "rows/CPU-s", "bytes/key")), file=out, flush=True)
    found: list[StateFigure] = []
    for keys in _sizes(arguments, out):
        for figure in StateBench(keys, arguments.rows).figures():
            found.append(figure)
            numbers = (figure.keys, figure.rows, figure.rows_per_cpu_s)
            cells = (figure.operation, *(f"{n:,}" for n in numbers), f"{figure.bytes_per_key:.1f}")
            print(_line(cells), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0


def _sizes(arguments: argparse.Namespace, out: TextIO) -> Iterator[int]:
    """The keys of the tables that memory holds, or that are asked for."""
    from benches.state import free_bytes, needed_bytes

    for keys in arguments.keys or KEYS:
        if not arguments.keys and needed_bytes(keys) > free_bytes():
            needed, free = (f"{n / (1 << 30):.1f} GiB" for n in (needed_bytes(keys), free_bytes()))
            print(f"{keys:,} keys are left out: they need {needed}, and {free} are free", file=out)
        else:
            yield keys


def _checkpoints(arguments: argparse.Namespace, out: TextIO) -> int:
    from benches.state_checkpoints import CheckpointBench

    names = ("keys", "written", "saved rows", "stopped ms", "mark ms", "collect s", "collecting ms")
    print(_line(("snapshot", *names)), file=out, flush=True)
    found = []
    for keys in _sizes(arguments, out):
        for figure in CheckpointBench(keys).figures():
            found.append(figure)
            counts = (figure.keys, figure.written_keys, figure.saved_rows)
            cells = (
                "increment" if figure.is_increment else "whole",
                *(f"{n:,}" for n in counts),
                f"{figure.stopped_ms:.2f}",
                f"{figure.mark_ms_p50:.2f} {figure.mark_ms_p99:.2f}",
                f"{figure.collect_s:.3f}",
                f"{figure.collecting_ms_p50:.2f} {figure.collecting_ms_p99:.2f}",
            )
            print(_line(cells), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0


def _mapped(arguments: argparse.Namespace, out: TextIO) -> int:
    from benches.state_memory import MappedBench

    names = (
        "distribution",
        "keys",
        "state",
        "limit",
        "mapped",
        "highest",
        "rows/s",
        "mapped rows/s",
        "cpu",
        "wall",
    )
    print(_line(("pages", *names)), file=out, flush=True)
    found = []
    for keys in arguments.keys or (MAPPED_KEYS,):
        for figure in MappedBench(keys, arguments.rows).figures():
            found.append(figure)
            sizes = (figure.state_bytes, figure.limit_bytes, figure.mapped_bytes, figure.highest_bytes)
            cells = (
                figure.pages,
                figure.distribution,
                f"{figure.keys:,}",
                *(f"{size >> 20:,} MiB" for size in sizes),
                *(f"{n:,}" for n in (figure.memory_rows_per_s, figure.mapped_rows_per_s)),
                f"{figure.cpu:.2f}",
                f"{figure.wall:.2f}",
            )
            print(_line(cells), file=out, flush=True)
    write_json(arguments.json, [figure.as_json() for figure in found])
    return 0


def _line(cells: tuple[str, ...]) -> str:
    return f"{cells[0]:<10}" + "".join(f"{cell:>16}" for cell in cells[1:])
