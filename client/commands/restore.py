"""`sqlstream restore`: a data directory as it was when a backup was taken."""

from __future__ import annotations

import argparse
import os

from sqlstream.client.commands.backup import add_place_arguments, place_of, show

EPILOG = """\
examples:
  sqlstream restore /backups/monday
  sqlstream restore /backups/monday --data-dir /var/lib/sqlstream/data

The data directory must not exist, or be empty; the server that is started with it takes up the jobs. A job whose checkpoints lie
in a directory of its own goes on from the newest there. One whose checkpoint is in the backup goes on from that: rows that it has
written since the backup are written again, unless its tables are brought back too.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("path", metavar="PATH", help="what sqlstream backup has made")
    add_place_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.server.backup import restore

    show(restore(os.path.abspath(arguments.path), place_of(arguments)), arguments.json)
    return 0
