"""`sqlstream cancel ID`: end jobs of a server."""

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
  sqlstream cancel 4f1c
  sqlstream jobs --running --json | jq -r '.[].jid' | xargs sqlstream cancel

ID is a job's id, or the first characters of it. The command waits for the end of the jobs. A job that has ended already is
left as it is, which is no error. What a cancelled job has not committed is lost.
{SERVER_EPILOG}"""

END_TIMEOUT_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sqlstream.client.commands.completion import running_job_ids

    parser.epilog = EPILOG
    ids = parser.add_argument(
        "ids", nargs="+", metavar="ID", help="a job's id, or the first characters of it"
    )
    ids.completer = running_job_ids  # type: ignore[attr-defined]
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when all jobs have ended, 1 when one has not within 30 seconds."""
    from sqlstream.client.connection.cluster_rest import ClusterRest

    ends: list[dict[str, str]] = []
    has_all_ended = True
    with ClusterRest(server_address(arguments)) as cluster:
        # All ids are looked up first: a wrong one cancels nothing.
        for job_id in [cluster.job_id(given) for given in arguments.ids]:
            status = cluster.status(job_id)
            was_ended = status.is_terminal
            if not was_ended:
                cluster.cancel(job_id)
                status = cluster.ended(job_id, END_TIMEOUT_S)
            has_all_ended &= status.is_terminal
            ends.append({"jid": job_id, "state": status.value})
            if not arguments.json:
                said = "was ended already" if was_ended else "is now" if status.is_terminal else "is still"
                print(f"job {job_id} {said}: {status.value}")
    if arguments.json:
        print_json(ends)
    return 0 if has_all_ended else 1
