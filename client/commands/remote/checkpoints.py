"""`sqlstream checkpoints ID`: the checkpoints and savepoints of a job of a server."""

from __future__ import annotations

import argparse
from typing import Any

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_arguments_of_job,
    duration_text,
    moment_text,
    print_table,
    show_job,
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
    add_arguments_of_job(parser)


def execute(arguments: argparse.Namespace) -> int:
    show_job(arguments, lambda cluster, job_id: cluster.of_job(job_id, "/checkpoints"), _print_checkpoints)
    return 0


def _print_checkpoints(found: dict[str, Any]) -> None:
    counts = found["counts"]
    print(
        f"completed {counts['completed']:,}, failed {counts['failed']:,}, in progress {counts['in_progress']:,},"
        f" restored {counts['restored']:,}"
    )
    print_table(_COLUMNS, [_row(checkpoint) for checkpoint in found["history"]])


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
