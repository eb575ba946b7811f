"""`sqlstream token`: who may use a server, and in which role."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import add_configuration_arguments, configuration_of

if TYPE_CHECKING:
    from sqlstream.client.server.tokens import Tokens

EPILOG = """\
examples:
  sqlstream token add dashboard --role read-only
  sqlstream token list
  sqlstream token remove dashboard

`add` prints the new token, of which the server keeps only a hash. A running server takes up the change at once. read-only looks
at everything and runs statements that only read; operator runs all others too and ends jobs; admin also makes and drops catalogs
and stops the server.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="make a token and print it")
    add.add_argument("name", help="who uses it, as the audit log says")
    add.add_argument("--role", default="operator", help="read-only, operator or admin (default: operator)")
    actions_of = [add, actions.add_parser("list", help="show names and roles")]
    remove = actions.add_parser("remove", help="let a token count no longer")
    remove.add_argument("name")
    for action in (*actions_of, remove):
        action.add_argument("--data-dir", metavar="DIRECTORY", help="the server's data directory")
        add_configuration_arguments(action)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.server.roles import parse_role

    tokens = _tokens(arguments)
    match arguments.action:
        case "add":
            print(tokens.add(arguments.name, parse_role(arguments.role)))
        case "remove":
            tokens.remove(arguments.name)
        case _:
            for token in tokens.all():
                print(f"{token.name}  {token.role.value}")
            if not tokens.all():
                print("there is no token", file=sys.stderr)
    return 0


def _tokens(arguments: argparse.Namespace) -> Tokens:
    from sqlstream.client.server.server_config import shared_directory
    from sqlstream.client.server.tokens import Tokens

    return Tokens(shared_directory(configuration_of(arguments), arguments.data_dir))
