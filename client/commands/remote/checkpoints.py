"""`sqlstream checkpoints ID`: the checkpoints and savepoints of a job of a server."""

from __future__ import annotations

import argparse
from typing import Any

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_job_argument,
    add_server_arguments,
    duration_text,
    moment_text,
    print_json,
    print_table,
    server_address,
)

EPILOG = f"""\
examples:
  sqlstream checkpoints 4f1c
  sqlstream checkpoints 4f1c --json | jq .latest.completed.external_path

ID is a job's id, or the first characters of it. The latest comes first; `state` is the size of all state, `written` what was
written for this checkpoint, and the last column says where it is, or why it failed and which subtask was the cause. --json
prints what Flink's REST says under /jobs/ID/checkpoints. In SQL the same is SHOW CHECKPOINTS FOR JOB 'ID'.
{SERVER_EPILOG}"""

_COLUMNS = ("id", "type", "status", "triggered", "duration", "state", "written", "path or cause")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_job_argument(parser)
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.cluster_rest import ClusterRest

    with ClusterRest(server_address(arguments)) as cluster:
        found = cluster.checkpoints(cluster.job_id(arguments.id))
    if arguments.json:
        print_json(found)
        return 0
    counts = found["counts"]
    print(
        f"completed {counts['completed']:,}, failed {counts['failed']:,}, in progress {counts['in_progress']:,},"
        f" restored {counts['restored']:,}"
    )
    print_table(_COLUMNS, [_row(checkpoint) for checkpoint in found["history"]])
    return 0


def _row(checkpoint: dict[str, Any]) -> tuple[str | int, ...]:
    from sqlstream.client.following.progress import size_text

    duration_ms = checkpoint["end_to_end_duration"]
    path = "removed" if checkpoint.get("discarded") else checkpoint.get("external_path")
    return (
        checkpoint["id"],
        checkpoint["checkpoint_type"],
        checkpoint["status"],
        moment_text(checkpoint["trigger_timestamp"]),
        duration_text(duration_ms) if duration_ms >= 0 else "",
        size_text(checkpoint["state_size"]),
        size_text(checkpoint["checkpointed_size"]),
        path or checkpoint.get("failure_message") or "",
    )
