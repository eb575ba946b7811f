"""`sqlstream backup`: a copy of all that a server keeps."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from sqlstream.client.arguments import add_configuration_arguments, configuration_of

if TYPE_CHECKING:
    from sqlstream.client.server.backup import BackupRecord, KeptPlace

EPILOG = """\
examples:
  sqlstream backup /backups/monday
  sqlstream backup /backups/monday --data-dir /var/lib/sqlstream/data
  sqlstream restore /backups/monday --data-dir /var/lib/sqlstream/data

The server may run meanwhile: nothing is asked of it. Copied are jobs, catalogs, sessions, tokens, the cluster's authority, and of
each job the newest checkpoint where it lies in the data directory; one in another directory stays there and is named. The backup
has passwords and keys, and only this user can read it. Tables and savepoints are not in it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("path", metavar="PATH", help="the directory to make")
    add_place_arguments(parser)


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", metavar="DIRECTORY", help="the server's data directory")
    parser.add_argument("--json", action="store_true", help="print an object instead of lines")
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.server.backup import back_up
    from sqlstream.runtime.host.clock import now_ms

    record = back_up(place_of(arguments), os.path.abspath(arguments.path), now_ms)
    show(record, arguments.json)
    return 0


def place_of(arguments: argparse.Namespace) -> KeptPlace:
    from sqlstream.client.server.backup import KeptPlace
    from sqlstream.client.server.leaders.copied_records import LeaderStores
    from sqlstream.client.server.leaders.stores import leaders
    from sqlstream.client.server.server_config import shared_directory

    configuration = configuration_of(arguments)
    root = os.path.abspath(shared_directory(configuration, arguments.data_dir))
    found = leaders(configuration)
    return KeptPlace(root, LeaderStores(found, configuration) if found is not None else None)


def show(record: BackupRecord, as_json: bool) -> None:
    if as_json:
        import msgspec

        print(msgspec.json.encode(record).decode())
        return
    for job in record.jobs:
        where = job.checkpoint and (job.checkpoint + (", copied" if job.is_copied else ", which stays there"))
        print(f"{job.id}  {job.name}: {where or 'without a checkpoint: it runs from its beginning'}")
    files = sum(not path.endswith("/") for path in record.files)
    print(f"{files} files of {record.source}, by sqlstream {record.release}")
