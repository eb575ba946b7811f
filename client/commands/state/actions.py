"""`sqlstream state ACTION CHECKPOINT`: look into what a checkpoint or savepoint holds."""

from __future__ import annotations

import argparse
from types import ModuleType

from sqlstream.client.commands.state import diff, ls, show, sql

EPILOG = """\
examples:
  sqlstream state ls checkpoints/4f1c…/chk-12
  sqlstream state show savepoints/savepoint-4f1c20-0a1b2c3d4e5f
  sqlstream state show chk-12 group_aggregate_2.groups
  sqlstream state sql chk-12 "SELECT auction, bids FROM groups ORDER BY bids DESC LIMIT 10"
  sqlstream state diff chk-11 chk-12

CHECKPOINT is the directory of a checkpoint (chk-12) or of a savepoint, or the _metadata in it, on this machine or as
s3://bucket/…, for which -D gives s3.endpoint, s3.access-key and s3.secret-key. The directory of a job's checkpoints stands for
the newest. No cluster is needed, and nothing is changed.

`sqlstream state ACTION --help` has the details.
"""

ACTIONS: dict[str, tuple[ModuleType, str]] = {
    "ls": (ls, "list the tables of a checkpoint"),
    "show": (show, "show what a checkpoint is of, or the rows of one of its tables"),
    "sql": (sql, "answer a query over the tables of a checkpoint"),
    "diff": (diff, "show the rows that two checkpoints do not have in common"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (module, text) in ACTIONS.items():
        action = actions.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(action)


def execute(arguments: argparse.Namespace) -> int:
    code: int = ACTIONS[arguments.action][0].execute(arguments)
    return code
