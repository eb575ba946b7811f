"""`sqlstream diagnose ID`: what holds a job of a server back."""

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
  sqlstream diagnose 4f1c
  sqlstream diagnose 4f1c --json | jq '.findings[] | select(.severity == "HIGH")'

ID is a job's id, or the first characters of it. The job is looked at for a second or so, as by DIAGNOSE JOB 'id'. --json prints
what the REST says under /jobs/ID/diagnosis.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sqlstream.client.commands.completion import job_ids

    parser.epilog = EPILOG
    id_argument = parser.add_argument("id", metavar="ID", help="the job's id, or the first characters of it")
    id_argument.completer = job_ids  # type: ignore[attr-defined]
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest
    from sqlstream.terminal_text import shown_lines

    with ClusterRest(server_address(arguments)) as cluster:
        found = cluster.diagnosis(cluster.job_id(arguments.id))
    if arguments.json:
        print_json(found)
    else:
        print(shown_lines(found["text"]))
    return 0
