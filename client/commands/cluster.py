"""`sqlstream cluster`: how other hosts become part of a cluster."""

from __future__ import annotations

import argparse

from sqlstream.client.arguments import add_configuration_arguments, configuration_of

EPILOG = """\
examples:
  sqlstream cluster token
  sqlstream cluster token --new
  sqlstream cluster token --data-dir /srv/sqlstream | ssh worker1 'cat > join-token'

`token` prints the word with which a host joins, and which lets it run tasks of all jobs: keep it as a password. --new makes
another one at once, also of a running server; hosts that have joined stay until they start again. Without the folder "cluster" of
the data directory the next server is another cluster.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    token = actions.add_parser("token", help="print the token with which hosts join")
    token.add_argument("--new", action="store_true", help="make another one; the one before counts no longer")
    token.add_argument("--data-dir", metavar="DIRECTORY", help="the server's data directory")
    add_configuration_arguments(token)


def execute(arguments: argparse.Namespace) -> int:
    import os

    from sqlstream.client.clusters.server_file import data_directory
    from sqlstream.client.server.kept_file import make_private_directory
    from sqlstream.client.server.standalone import StandaloneCluster

    directory = data_directory(arguments.data_dir or configuration_of(arguments).get("sqlstream.data-dir"))
    make_private_directory(directory)
    print(StandaloneCluster(os.path.join(directory, "cluster")).join_token(arguments.new))
    return 0
