"""`sqlstream cluster`: how other hosts become part of a cluster."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import add_configuration_arguments, configuration_of, text_of_file

if TYPE_CHECKING:
    from sqlstream.client.clusters.hosts import Host

EPILOG = """\
examples:
  (umask 077; sqlstream cluster token > join-token)
  sqlstream cluster token --new
  sqlstream cluster up --hosts hosts.txt --join head:6124
  sqlstream cluster status --hosts hosts.txt
  sqlstream cluster down --hosts hosts.txt

`token` prints the word with which a host joins, and which lets it run tasks of all jobs: keep it as a password. --new makes
another one at once, also of a running server; put it into the files of the hosts, which read them when a TaskManager is replaced.
Without the folder "cluster" of the data directory the next server is another cluster.

`up` starts a TaskManager on each host of a file by ssh, which must not ask for a password; `down` ends them, and `status` says
where one runs. A line of the file is a name, or user@name, and if need be a number of slots. sqlstream is installed on all of
them, where a shell finds it, or as --command says. The server runs on this host. Exit code 1: a host did not do it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    token = actions.add_parser("token", help="print the token with which hosts join")
    token.add_argument("--new", action="store_true", help="make another one; the one before counts no longer")
    up = actions.add_parser("up", help="start a TaskManager on each host of a file")
    up.add_argument(
        "--join", metavar="HOST:PORT", required=True, help="where the server says that hosts join"
    )
    up.add_argument(
        "--command", metavar="WORDS", default="sqlstream", help="how a shell of the hosts finds sqlstream"
    )
    down = actions.add_parser("down", help="end the TaskManagers of these hosts")
    status = actions.add_parser("status", help="say on which of these hosts a TaskManager runs")
    for action in (up, down, status):
        action.add_argument("--hosts", metavar="FILE", required=True, help="a host a line, and its slots")
    for action in (token, up):
        action.add_argument("--data-dir", metavar="DIRECTORY", help="the server's data directory")
        add_configuration_arguments(action)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.action == "token":
        print(_join_token(arguments, arguments.new))
        return 0
    from sqlstream.client.clusters import hosts

    found = _hosts(arguments.hosts)
    match arguments.action:
        case "up":
            token = _join_token(arguments)
            answers = hosts.start(found, arguments.command, arguments.join, token, arguments.settings)
        case "down":
            answers = hosts.stop(found)
        case _:
            answers = hosts.ask(found)
    for answer in answers:
        print(f"{answer.host}: {answer.text}", file=sys.stdout if answer.is_done else sys.stderr)
    return 0 if all(answer.is_done for answer in answers) else 1


def _join_token(arguments: argparse.Namespace, is_new: bool = False) -> str:
    import os

    from sqlstream.client.server.kept_file import make_private_directory
    from sqlstream.client.server.leaders.shared_secrets import shared_files
    from sqlstream.client.server.standalone import StandaloneCluster

    with shared_files(configuration_of(arguments), arguments.data_dir) as directory:
        make_private_directory(directory)
        kept = os.path.join(directory, "cluster")
        is_first = not os.path.exists(kept)
        cluster = StandaloneCluster(kept)
        # Made together: the server that starts next has the same.
        cluster.make_secrets()
        if is_first:
            print(
                f'made a new cluster\'s authority in "{kept}": a server with another directory has another token',
                file=sys.stderr,
            )
        return str(cluster.join_token(is_new))


def _hosts(path: str) -> tuple[Host, ...]:
    from sqlstream.client.clusters.hosts import parse_hosts

    return parse_hosts(text_of_file(path, "the hosts", "SS4084", 1 << 20), path)
