"""`sqlstream logs ID`: what a server's log says of a job."""

from __future__ import annotations

import argparse
import json
import sys

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_job_argument,
    add_server_arguments,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream logs 4f1c
  sqlstream logs 4f1c -f
  sqlstream logs 4f1c --json | jq -r .record

ID is a job's id, or the first characters of it. --json prints one object per record, with `jid` and `record`.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_job_argument(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest
    from sqlstream.terminal_text import shown_lines

    with ClusterRest(server_address(arguments)) as cluster:
        job_id = cluster.job_id(arguments.id)
        is_empty = True
        for record in cluster.log_records(job_id, arguments.follow):
            is_empty = False
            if arguments.json:
                print(json.dumps({"jid": job_id, "record": record}, ensure_ascii=False), flush=True)
            else:
                print(shown_lines(record.rstrip("\n")), flush=True)
        if is_empty:
            print(f'the log has nothing on job "{job_id}"', file=sys.stderr)
    return 0
