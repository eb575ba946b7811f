"""`make bench-part PART=WORKLOAD`: measure a part of the engine, or a server; `sqlstream bench nexmark` measures the whole.

    python tests/benches/main.py lookup
    python tests/benches/main.py state --checkpoints --keys 8000000

`python tests/benches/main.py WORKLOAD --help` has the details.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
# The modules beside this file are found as `benches.…`.
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from sqlstream.client.exit_codes import exit_code_of  # noqa: E402 (found by the line above)
from sqlstream.errors import SqlStreamError, render_error  # noqa: E402
from sqlstream.runtime.host.process import forgo_pandas  # noqa: E402

WORKLOADS: dict[str, str] = {
    "batch": "the same queries as a stream, in DuckDB and on Spark",
    "checkpoint": "what checkpoints cost, and how soon a job goes on from one",
    "exchange": "what it costs to hand batches from one task to another",
    "formats": "what reading and writing a file costs in each format, beside DuckDB",
    "functions": "how many rows each scalar function computes on one core",
    "latency": "how soon results are visible to a client of a server",
    "lookup": "how many rows a lookup join answers on one core",
    "operators": "how many rows each family of operators takes on one core",
    "recursion": "what it costs to keep a recursive query up to date",
    "small": "what jobs cost whose rows come in small batches, or not at all",
    "start": "what processes, first jobs and compiled kernels cost before anything is at work",
    "state": "how fast the keyed state of an operator is found, written and forgotten",
}
"""Each has a module `benches.NAME_command`, with `add_arguments(parser)` and `execute(arguments) -> exit code`."""


def parser_of(workload: str) -> argparse.ArgumentParser:
    """The parser of the command line, with the arguments of this workload only."""
    parser = argparse.ArgumentParser(
        prog="tests/benches/main.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    workloads = parser.add_subparsers(dest="workload", metavar="WORKLOAD", required=True)
    for name, text in WORKLOADS.items():
        each = workloads.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == workload:
            module = importlib.import_module(f"benches.{name}_command")
            module.add_arguments(each)
            each.set_defaults(execute=module.execute)
    return parser


def main(words: list[str]) -> int:
    """The exit code of the workload."""
    forgo_pandas()
    arguments = parser_of(next((word for word in words if word in WORKLOADS), "")).parse_args(words)
    try:
        code: int = arguments.execute(arguments)
    except SqlStreamError as error:
        print(render_error(error), file=sys.stderr)
        return exit_code_of(error)
    return code


if __name__ == "__main__":
    import sqlstream.client.start  # noqa: F401 (its settings are those of the command that users run)
    from sqlstream.client.main import EndSignals

    try:
        with EndSignals():
            sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted")
