"""`sqlstream diagnose ID`: what holds a job of a server back."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_job_argument,
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
    parser.epilog = EPILOG
    add_job_argument(parser)
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
