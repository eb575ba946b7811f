"""`sqlstream version`."""

from __future__ import annotations

import argparse

EPILOG = """\
examples:
  sqlstream version
  sqlstream version --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="print an object instead of a line")


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream import __version__

    print(f'{{"version": "{__version__}"}}' if arguments.json else f"sqlstream {__version__}")
    return 0
