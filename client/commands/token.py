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
  sqlstream token add guest --role operator --max-jobs 3 --max-sessions 10
  sqlstream token list
  sqlstream token remove dashboard

`add` prints the new token, of which the server keeps only a hash. A running server takes up the change at once. Without
--max-jobs and --max-sessions the settings hold. read-only looks at everything and runs statements that only read; operator runs
all others too and ends jobs; admin also makes and drops catalogs and stops the server.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="make a token and print it")
    add.add_argument("name", help="who uses it, as the audit log says")
    add.add_argument("--role", default="operator", help="read-only, operator or admin (default: operator)")
    for name, what in (("jobs", "jobs that wait or run"), ("sessions", "sessions that are open")):
        add.add_argument(f"--max-{name}", type=_count, metavar="N", help=f"the most {what}; 0 for any number")
    actions_of = [add, actions.add_parser("list", help="show names and roles")]
    remove = actions.add_parser("remove", help="let a token count no longer")
    remove.add_argument("name")
    for action in (*actions_of, remove):
        action.add_argument("--data-dir", metavar="DIRECTORY", help="the server's data directory")
        add_configuration_arguments(action)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.server.leaders.shared_secrets import shared_files
    from sqlstream.client.server.tokens import Tokens

    with shared_files(configuration_of(arguments), arguments.data_dir) as directory:
        lines = _done(arguments, Tokens(directory))
    # Behind it: what is printed counts.
    for line in lines:
        print(line)
    return 0


def _done(arguments: argparse.Namespace, tokens: Tokens) -> list[str]:
    from sqlstream.client.server.roles import parse_role

    match arguments.action:
        case "add":
            role = parse_role(arguments.role)
            return [tokens.add(arguments.name, role, arguments.max_jobs, arguments.max_sessions)]
        case "remove":
            tokens.remove(arguments.name)
        case _:
            lines = []
            for token in tokens.all():
                limits = {"jobs": token.jobs_max, "sessions": token.sessions_max}
                said = "".join(f"  at most {n} {what}" for what, n in limits.items() if n)
                lines.append(f"{token.name}  {token.role.value}{said}")
            if not lines:
                print("there is no token", file=sys.stderr)
            return lines
    return []


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of things")
    return int(text)
