"""`sqlstream diagnose ID`: what holds a job of a server back."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_arguments_of_job,
    show_job,
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
    add_arguments_of_job(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.terminal_text import shown_lines

    show_job(
        arguments,
        lambda cluster, job_id: cluster.of_job(job_id, "/diagnosis"),
        lambda found: print(shown_lines(found["text"])),
    )
    return 0
