"""`sqlstream state show CHECKPOINT [TABLE]`: what a checkpoint is of, or the rows of one table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sqlstream.client.arguments import count
from sqlstream.client.commands.state.checkpoint import (
    add_checkpoint_arguments,
    open_checkpoint,
    settings_of,
    write_rows,
)
from sqlstream.client.following.checkpoint_text import in_flight_text

if TYPE_CHECKING:
    from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint

EPILOG = """\
examples:
  sqlstream state show chk-12
  sqlstream state show --json chk-12 | jq .sources
  sqlstream state show chk-12 groups --limit 5

Without TABLE: the job, its vertices with the state of their subtasks, the positions of its sources, and what its sinks had to
commit. Rows in flight are those that an unaligned checkpoint found under way to and from a vertex. TABLE is a name that
`sqlstream state ls` lists; --json prints one object per row.
"""

_COLUMNS = ("vertex", "parallelism", "finished", "splits", "bytes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_checkpoint_arguments(parser, "checkpoint")
    parser.add_argument("table", nargs="?", metavar="TABLE", help="the table whose rows are printed")
    parser.add_argument(
        "--limit", type=count, default=20, metavar="N", help="print this many rows (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.commands.remote.listing import print_json

    saved = open_checkpoint(arguments.checkpoint, settings_of(arguments))
    if arguments.table is not None:
        rows = saved.rows(saved.find(arguments.table)).slice(0, arguments.limit)
        write_rows(rows.to_batches(), rows.schema, "json" if arguments.json else "table")
    elif arguments.json:
        print_json(describe(saved.stored))
    else:
        _print(describe(saved.stored))
    return 0


def describe(stored: StoredCheckpoint) -> dict[str, Any]:
    """All but the state itself. Settings that are secrets are not in a manifest, and options of sinks are left out here."""
    manifest = stored.manifest
    return {
        "path": stored.path,
        "kind": manifest.kind.value,
        "id": manifest.checkpoint_id,
        "job": manifest.job_id,
        "name": manifest.job_name,
        "started_ms": manifest.started_ms,
        "completed_ms": manifest.completed_ms,
        "restored_from": manifest.restored_from,
        "bytes": sum(subtask.bytes for vertex in manifest.vertices for subtask in vertex.subtasks),
        "has_in_flight": manifest.has_in_flight,
        "files": len(manifest.paths()),
        "vertices": [
            {
                "vertex": vertex.name,
                "id": vertex.vertex_id,
                "parallelism": vertex.parallelism,
                "max_parallelism": vertex.max_parallelism,
                "finished": sum(vertex.finished),
                "splits": sum(len(subtask.splits or ()) for subtask in vertex.subtasks),
                "bytes": sum(subtask.bytes for subtask in vertex.subtasks),
                "rows_in_flight": sum(subtask.in_flight_rows for subtask in vertex.subtasks),
            }
            for vertex in manifest.vertices
        ],
        "sources": {
            vertex.vertex_id: {
                "name": vertex.name,
                "splits": [list(subtask.splits) for subtask in vertex.subtasks if subtask.splits is not None],
                "enumerator": manifest.enumerators.get(vertex.vertex_id),
            }
            for vertex in manifest.vertices
            if any(subtask.splits is not None for subtask in vertex.subtasks)
        },
        "commits": [
            {"checkpoint": c.checkpoint_id, "table": c.spec.table, "connector": c.spec.connector, "parts": len(c.committables)}
            for c in manifest.commits
        ],
        "settings": manifest.config,
    }  # fmt: skip


def _print(facts: dict[str, Any]) -> None:
    from sqlstream.client.commands.remote.listing import duration_text, moment_text, print_table
    from sqlstream.client.following.progress import size_text
    from sqlstream.terminal_text import shown

    lines = {
        "path": facts["path"],
        "kind": f"{facts['kind'].lower()} {facts['id']}",
        "job": facts["job"],
        "name": facts["name"],
        "started": moment_text(facts["started_ms"]),
        "took": duration_text(facts["completed_ms"] - facts["started_ms"]),
        "state": f"{size_text(facts['bytes'])} in {facts['files']} files",
        "restored from": facts["restored_from"],
    }
    for name, value in lines.items():
        if value:
            print(f"{name:<15}{shown(value)}")
    columns: tuple[str, ...] = _COLUMNS
    if facts["has_in_flight"]:
        rows = sum(vertex["rows_in_flight"] for vertex in facts["vertices"])
        print(f"{'unaligned':<15}{in_flight_text(rows)}")
        columns = (*_COLUMNS, "rows_in_flight")
    titles = tuple(name.replace("_", " ") for name in columns)
    print_table(titles, [tuple(vertex[name] for name in columns) for vertex in facts["vertices"]])
    for commit in facts["commits"]:
        print(
            f'checkpoint {commit["checkpoint"]} commits {commit["parts"]} parts to "{shown(commit["table"])}" '
            f"({commit['connector']})"
        )
