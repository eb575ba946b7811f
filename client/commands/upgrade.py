"""`sqlstream upgrade`: what this release takes over of a data directory."""

from __future__ import annotations

import argparse
import os

from sqlstream.client.arguments import configuration_of
from sqlstream.client.commands.backup import add_place_arguments, place_of

EPILOG = """\
examples:
  sqlstream upgrade --dry-run
  sqlstream upgrade --dry-run --savepoint /data/savepoints/savepoint-1f2e3d-0123456789ab --json
  sqlstream upgrade --backup /backups/before-upgrade

Run it with the new release. --dry-run changes nothing, and the server of the old one may run: for each job, catalog and savepoint
it says whether it is kept, recomputed or refused, and why. Without it a backup is taken first, and files of an earlier format are
written anew; no server may use the directory. Exit code 1: something is refused, and nothing was changed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--savepoint",
        action="append",
        default=[],
        metavar="PATH",
        help="look at this one too; may be repeated",
    )
    parser.add_argument(
        "--backup", metavar="PATH", help="where the backup goes (default: beside the directory)"
    )
    add_place_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    import msgspec

    from sqlstream import __version__
    from sqlstream.client.server.backup import back_up, check_data_directory
    from sqlstream.client.server.data_directory import DataDirectory
    from sqlstream.client.server.upgrade import REFUSED, check_unused, findings, take_over
    from sqlstream.errors import UserError
    from sqlstream.runtime.host.clock import now_ms

    place = place_of(arguments)
    check_data_directory(place.root)
    found = findings(place, tuple(arguments.savepoint), configuration_of(arguments).for_jobs)
    is_refused = any(each.verdict == REFUSED for each in found)
    backup = ""
    if not arguments.dry_run and not is_refused:
        backup = os.path.abspath(arguments.backup or f"{place.root.rstrip('/')}.backup-{now_ms()}")
        check_unused(place)
        with DataDirectory(place.root, is_stamped=False):
            back_up(place, backup, now_ms)
            take_over(place)
    if arguments.json:
        answer = {"release": __version__, "backup": backup, "findings": found}
        print(msgspec.json.encode(answer).decode())
    else:
        for each in found:
            print(f"{each.verdict:<10}  {each.kind} {each.name}: {each.reason}")
        if backup:
            print(f"the backup is in {backup}")
    if is_refused and not arguments.dry_run:
        raise UserError("SS6146", f'"{place.root}" has what sqlstream {__version__} cannot take over')
    return 1 if is_refused else 0
