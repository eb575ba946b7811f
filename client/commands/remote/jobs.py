"""`sqlstream jobs`: the jobs of a server."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    duration_text,
    moment_text,
    print_json,
    print_table,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream jobs
  sqlstream jobs --running --server http://db1:8083
  sqlstream jobs --json | jq -r '.[] | select(.state == "RUNNING") | .jid'

The latest job comes first. --json prints the jobs as Flink's REST does, under /jobs/overview.
{SERVER_EPILOG}"""

_COLUMNS = ("job id", "name", "status", "started", "duration", "tasks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--running", action="store_true", help="leave out jobs that have ended")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest
    from sqlstream.messages.job_state import JobStatus

    with ClusterRest(server_address(arguments)) as cluster:
        jobs = cluster.jobs()
    if arguments.running:
        jobs = [job for job in jobs if not JobStatus(job["state"]).is_terminal]
    if arguments.json:
        print_json(jobs)
        return 0
    rows = [
        (
            job["jid"],
            job["name"],
            job["state"],
            moment_text(job["start-time"]),
            duration_text(job["duration"]),
            job["tasks"]["total"],
        )
        for job in jobs
    ]
    print_table(_COLUMNS, rows)
    return 0
