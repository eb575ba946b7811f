"""`sqlstream savepoint ID`: take a savepoint of a job of a server, or remove one."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    print_json,
    savepoint_steps,
    server_address,
)
from sqlstream.errors import UserError

EPILOG = f"""\
examples:
  sqlstream savepoint 4f1c
  sqlstream savepoint 4f1c --directory s3://backups/sqlstream
  sqlstream savepoint --dispose /data/savepoints/savepoint-4f1c2b-0a1b2c3d4e5f

ID is a job's id, or the first characters of it. The job runs on, and the path of the savepoint is printed:
SET 'execution.state-recovery.path' = 'PATH' makes the next jobs go on from it. Without --directory the savepoint is below the
job's execution.checkpointing.savepoint-dir. --dispose removes a savepoint with all its files.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sqlstream.client.commands.completion import running_job_ids

    parser.epilog = EPILOG
    given = parser.add_argument(
        "id", nargs="?", metavar="ID", help="the job's id, or the first characters of it"
    )
    given.completer = running_job_ids  # type: ignore[attr-defined]
    parser.add_argument(
        "--directory", default="", metavar="DIR", help="where the savepoint gets a directory of its own"
    )
    parser.add_argument("--dispose", metavar="PATH", help="remove the savepoint at this path instead")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest

    if (arguments.id is None) == (arguments.dispose is None):
        raise UserError(
            "SS4001", "either a job or a savepoint to remove is needed", hint="give an ID, or --dispose PATH"
        )
    with ClusterRest(server_address(arguments)) as cluster:
        if arguments.dispose is not None:
            cluster.dispose(arguments.dispose)
            said, path = {"disposed": arguments.dispose}, f"removed {arguments.dispose}"
        else:
            job_id = cluster.job_id(arguments.id)
            with savepoint_steps(cluster, job_id) as on_step:
                path = cluster.savepoint(job_id, arguments.directory, on_step)
            said = {"jid": job_id, "savepoint": path}
    if arguments.json:
        print_json(said)
    else:
        print(path)
    return 0
