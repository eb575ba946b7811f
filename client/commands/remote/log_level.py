"""`sqlstream log-level`: the levels of loggers of a server and its TaskManagers, while they run."""

from __future__ import annotations

import argparse
from typing import Any

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    print_json,
    print_table,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream log-level
  sqlstream log-level sqlstream.runtime.jobmanager=DEBUG
  sqlstream log-level root=WARNING sqlstream.client.server=INFO
  sqlstream log-level sqlstream.runtime.jobmanager=

A logger without a level of its own has that of the one above it, and the first of all is `root`. Without a level behind = what
was set is taken away. Levels are set in the server and all TaskManagers, also in those that come later, until the server ends;
sqlstream.log.level is that from the start. Without words, the levels that are set are listed.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("levels", metavar="LOGGER=LEVEL", nargs="*", help="the new level of a logger")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest

    levels = dict(_parse(word) for word in arguments.levels)
    with ClusterRest(server_address(arguments)) as cluster:
        found = cluster.log_levels(levels)
    if arguments.json:
        print_json(found)
    else:
        _print(found)
    return 0


def _parse(word: str) -> tuple[str, str | None]:
    """UserError SS6120 for a word that is not LOGGER=LEVEL."""
    from sqlstream.errors import UserError

    logger, separator, level = word.partition("=")
    if not separator or not logger:
        raise UserError(
            "SS6120", f'"{word}" sets no level of a logger', hint="write LOGGER=LEVEL, as in root=DEBUG"
        )
    return logger, level or None


def _print(found: dict[str, Any]) -> None:
    rows = []
    for process in found["processes"]:
        levels = process["levels"] or {"": process.get("error", "")}
        rows += [(process["process"], logger, level) for logger, level in levels.items()]
    print_table(("process", "logger", "level"), rows)
