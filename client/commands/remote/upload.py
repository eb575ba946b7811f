"""`sqlstream upload FILE`: bring a file to a server, so that it goes with jobs."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    print_json,
    server_address,
)
from sqlstream.errors import ExternalError, reason_of_error

EPILOG = f"""\
examples:
  sqlstream upload models/model.onnx --server https://head:8083

Prints sha256:…, which stands for the file in the next statements:
SET 'pipeline.cached-files' = 'name:model,path:sha256:…'. The server keeps it for an hour, and while a job needs it.
An upload that broke off goes on where it ended.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", help="a file of this machine")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest

    with ClusterRest(server_address(arguments)) as cluster:
        try:
            digest, size = cluster.upload(arguments.file)
        except OSError as error:
            raise ExternalError(
                "SS5001",
                f'could not read "{arguments.file}": {reason_of_error(error)}',
                hint="give the path of a file that this user can read",
            ) from error
    if arguments.json:
        print_json({"digest": f"sha256:{digest}", "bytes": size})
    else:
        print(f"sha256:{digest}")
    return 0
