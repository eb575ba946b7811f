"""`sqlstream stop ID`: end a job of a server with a savepoint."""

from __future__ import annotations

import argparse
import sys

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_job_argument,
    add_server_arguments,
    print_json,
    savepoint_steps,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream stop 4f1c
  sqlstream stop 4f1c --directory /data/savepoints
  sqlstream stop 4f1c --drain --json | jq -r .savepoint

ID is a job's id, or the first characters of it. All that the job has read is committed, and the path of the savepoint is
printed: SET 'execution.state-recovery.path' = 'PATH' makes the next jobs go on from it. Without --directory the savepoint is
below the job's execution.checkpointing.savepoint-dir. With --drain all windows fire first: such a job does not go on with the
same input. A savepoint that fails leaves the job as it is. `sqlstream cancel` ends a job without a savepoint.
{SERVER_EPILOG}"""

END_TIMEOUT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_job_argument(parser, is_running=True)
    parser.add_argument(
        "--directory", default="", metavar="DIR", help="where the savepoint gets a directory of its own"
    )
    parser.add_argument(
        "--drain", action="store_true", help="let time pass to its end, so that all windows fire"
    )
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when the job has ended with the savepoint, 1 when it has not within a minute of it."""
    from sqlstream.client.connection.cluster_rest import ClusterRest

    with ClusterRest(server_address(arguments)) as cluster:
        job_id = cluster.job_id(arguments.id)
        with savepoint_steps(cluster, job_id) as on_step:
            path = cluster.stop(job_id, arguments.directory, arguments.drain, on_step)
        status = cluster.ended(job_id, END_TIMEOUT_S)
    if arguments.json:
        print_json({"jid": job_id, "savepoint": path, "state": status.value})
    else:
        print(path)
        if not status.is_terminal:
            print(f"job {job_id} is still {status.value}", file=sys.stderr)
    return 0 if status.is_terminal else 1
