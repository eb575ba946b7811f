"""`sqlstream bench WORKLOAD`: measure the engine or a server."""

from __future__ import annotations

import argparse
from types import ModuleType

from sqlstream.client.commands import (
    bench_batch,
    bench_checkpoint,
    bench_exchange,
    bench_functions,
    bench_latency,
    bench_lookup,
    bench_nexmark,
    bench_operators,
    bench_state,
)

EPILOG = """\
examples:
  sqlstream bench nexmark --queries q0,q5
  sqlstream bench latency --seconds 60
  sqlstream bench lookup
  sqlstream bench functions --family Text
  sqlstream bench operators --only join,top
  sqlstream bench state
  sqlstream bench batch --events 1000000
  sqlstream bench exchange
  sqlstream bench checkpoint

`sqlstream bench WORKLOAD --help` has the details.
"""

WORKLOADS: dict[str, tuple[ModuleType, str]] = {
    "nexmark": (bench_nexmark, "how fast the engine answers the Nexmark queries"),
    "lookup": (bench_lookup, "how many rows a lookup join answers on one core"),
    "functions": (bench_functions, "how many rows each scalar function computes on one core"),
    "operators": (bench_operators, "how many rows each family of operators takes on one core"),
    "latency": (bench_latency, "how soon results are visible to a client of a server"),
    "state": (bench_state, "how fast the keyed state of an operator is found, written and forgotten"),
    "batch": (bench_batch, "the same queries as a stream, in DuckDB and on Spark"),
    "exchange": (bench_exchange, "what it costs to hand batches from one task to another"),
    "checkpoint": (bench_checkpoint, "what checkpoints cost, and how soon a job goes on from one"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    workloads = parser.add_subparsers(dest="workload", metavar="WORKLOAD", required=True)
    for name, (module, text) in WORKLOADS.items():
        workload = workloads.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(workload)


def execute(arguments: argparse.Namespace) -> int:
    code: int = WORKLOADS[arguments.workload][0].execute(arguments)
    return code
