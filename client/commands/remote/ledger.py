"""`sqlstream ledger ID`: what became of the rows of a job of a server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_arguments_of_job,
    print_table,
    show_job,
)
from sqlstream.client.exit_codes import EXIT_FAILED, EXIT_OK
from sqlstream.messages.ledger import LEDGER_PARTS

EPILOG = f"""\
examples:
  sqlstream ledger 4f1c
  sqlstream ledger 4f1c --json | jq .balanced

ID is a job's id, or the first characters of it. The rows of each operator since the job began, up to its last checkpoint or its
end, and what they became; the last column says which of them add up, or what is missing. The exit code is 1 when rows are
missing. --json prints what the REST says under /jobs/ID/ledger. In SQL the same is SHOW LEDGER FOR JOB 'ID'.
{SERVER_EPILOG}"""

_COLUMNS = ("operator", "rows in", "rows out", *LEDGER_PARTS, "in flight", "remark")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_arguments_of_job(parser)


def execute(arguments: argparse.Namespace) -> int:
    found = show_job(arguments, lambda cluster, job_id: cluster.of_job(job_id, "/ledger"), _print_ledger)
    return EXIT_OK if found["balanced"] else EXIT_FAILED


def _print_ledger(found: dict[str, Any]) -> None:
    if not found["operators"]:
        print("the job has had no checkpoint yet, and has not ended")
    else:
        print(_when(found))
        print_table(_COLUMNS, [row for operator in found["operators"] for row in _rows(operator)])


def _when(found: dict[str, Any]) -> str:
    when = (
        f"at checkpoint {found['checkpoint']}" if found["checkpoint"] is not None else "at the end of the job"
    )
    return f"the rows {'add' if found['balanced'] else 'do NOT add'} up {when}"


def _rows(operator: dict[str, Any]) -> Iterator[tuple[str | int | None, ...]]:
    yield _row(operator, operator["name"], operator["rows-out"], operator["in-flight"])
    for side in operator["sides"]:
        yield _row(side, f"{operator['name']} {side['name']}", None, None)


def _row(
    found: dict[str, Any], name: str, rows_out: int | None, in_flight: int | None
) -> tuple[str | int | None, ...]:
    parts = (found["parts"].get(part, 0) for part in LEDGER_PARTS)
    return (name, found["rows-in"], rows_out, *parts, in_flight, found["text"] or found["balance"])
