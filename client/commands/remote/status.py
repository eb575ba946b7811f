"""`sqlstream status`: whether a server answers, and what it does."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    print_json,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream status
  sqlstream status --server http://db1:8083 --token-file ~/.db1-token
  sqlstream status --json | jq '."jobs-running"'

--json prints the server's URL and what Flink's REST says under /overview. The exit code is 1 when no server answers.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest

    with ClusterRest(server_address(arguments)) as cluster:
        overview = {"url": cluster.url, **cluster.overview()}
    if arguments.json:
        print_json(overview)
        return 0
    states = ("running", "finished", "cancelled", "failed")
    jobs = ", ".join(f"{overview[f'jobs-{state}']:,} {state}" for state in states)
    print(f"{'server':<14}{overview['url']}")
    print(f"{'protocol':<14}Flink {overview['flink-version']}, commit {overview['flink-commit']}")
    print(f"{'jobs':<14}{jobs}")
    print(f"{'TaskManagers':<14}{overview['taskmanagers']}")
    print(f"{'slots':<14}{overview['slots-total']}, {overview['slots-available']} free")
    return 0
