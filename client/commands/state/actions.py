"""`sqlstream state ACTION CHECKPOINT`: look into what a checkpoint or savepoint holds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlstream.client.arguments import FORMATS, count
from sqlstream.client.commands.state.checkpoint import (
    add_checkpoint_arguments,
    open_checkpoint,
    settings_of,
    write_rows,
)
from sqlstream.client.exit_codes import EXIT_FAILED, EXIT_OK
from sqlstream.client.following.checkpoint_text import in_flight_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
    from sqlstream.runtime.checkpoint.saved_tables import SavedTable, SavedTables
    from sqlstream.runtime.checkpoint.state_database import StateDatabase, TableDifference


EPILOG = """\
examples:
  sqlstream state ls checkpoints/4f1c…/chk-12
  sqlstream state show savepoints/savepoint-4f1c20-0a1b2c3d4e5f
  sqlstream state show chk-12 group_aggregate_2.groups
  sqlstream state sql chk-12 "SELECT auction, bids FROM groups ORDER BY bids DESC LIMIT 10"
  sqlstream state diff chk-11 chk-12

CHECKPOINT is the directory of a checkpoint (chk-12) or of a savepoint, or the _metadata in it, on this machine or as
s3://bucket/…, for which -D gives s3.endpoint, s3.access-key and s3.secret-key. The directory of a job's checkpoints stands for
the newest. No cluster is needed, and nothing is changed.

`sqlstream state ACTION --help` has the details.
"""

AddArguments = Callable[[argparse.ArgumentParser], None]
Execute = Callable[[argparse.Namespace], int]


# `sqlstream state ls CHECKPOINT`: the tables of a checkpoint.


LS_EPILOG = """\
examples:
  sqlstream state ls chk-12
  sqlstream state ls --json chk-12 | jq '.[] | {table, bytes}'

Each operator's tables stand in a schema of SQL that is named after it. `rows` counts what is in the files: with increments,
rows that were saved again count again. in_flight_input and in_flight_output are the rows that an unaligned checkpoint found under
way to and from an operator, with the numbers of the subtask and of the channel; those of several inputs are told apart by their
columns.
"""

_TABLE_COLUMNS = ("table", "rows", "bytes", "increments", "subtasks", "operator")


def add_ls_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = LS_EPILOG
    add_checkpoint_arguments(parser, "checkpoint")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON array, with the columns of each table"
    )


def list_tables(arguments: argparse.Namespace) -> int:
    from sqlstream.client.commands.remote.server_arguments import print_json, print_table

    saved = open_checkpoint(arguments.checkpoint, settings_of(arguments))
    tables = (*saved.tables, *saved.in_flight)
    found = [describe_table(table) for table in tables]
    if arguments.json:
        print_json([{**facts, **_details(saved, t)} for facts, t in zip(found, tables, strict=True)])
    else:
        print_table(_TABLE_COLUMNS, [tuple(facts[name] for name in _TABLE_COLUMNS) for facts in found])
    return EXIT_OK


def describe_table(table: SavedTable) -> dict[str, Any]:
    return {
        "table": table.qualified_name,
        "rows": table.saved_rows,
        "bytes": table.bytes,
        "increments": sum(segment.is_increment for segment in table.segments),
        "subtasks": len({subtask for subtask, _ in table.channels} or table.parts),
        "operator": table.operator.description or table.operator.name,
    }


def _details(saved: SavedTables, table: SavedTable) -> dict[str, Any]:
    from sqlstream.runtime.formats.columnar.stored_types import sql_name

    return {
        "name": table.operator.name,
        "uid": table.operator.uid,
        "vertex": table.vertex.vertex_id,
        "is_keyed": table.is_keyed,
        "columns": {field.name: sql_name(field.type) for field in saved.columns(table)},
        "files": sorted({segment.path for segment in table.segments}),
    }


# `sqlstream state sql CHECKPOINT "SELECT …"`: a query over the tables of a checkpoint.


SQL_EPILOG = """\
examples:
  sqlstream state sql chk-12 "SELECT * FROM group_aggregate_2.groups LIMIT 5"
  sqlstream state sql chk-12 "SELECT count(*) FROM groups"
  sqlstream state sql --format csv chk-12 "SELECT auction, bids FROM groups" > groups.csv
  sqlstream state sql --json chk-12 'SELECT "$key_group" AS g, count(*) AS n FROM groups GROUP BY g' | jq .n

The query is in DuckDB's SQL, and reads the tables that `sqlstream state ls` lists: by SCHEMA.TABLE, or by TABLE alone where one
operator only has a table of that name. Rows that an unaligned checkpoint found under way are in tables in_flight_input and
in_flight_output of the operators that would read or that sent them. Columns with $ are the runtime's own: write them in double
quotes.
"""


def add_sql_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = SQL_EPILOG
    add_checkpoint_arguments(parser, "checkpoint")
    parser.add_argument("query", metavar="QUERY", help="the query")
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="how rows are printed (default: table)"
    )
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="one object per row"
    )


def answer_query(arguments: argparse.Namespace) -> int:
    from sqlstream.runtime.checkpoint.state_database import state_database

    settings = settings_of(arguments)
    saved = open_checkpoint(arguments.checkpoint, settings)
    with state_database(settings) as database:
        database.register(saved, (*saved.tables, *saved.in_flight))
        database.lock()
        with database.query(arguments.query) as rows:
            write_rows(rows, rows.schema, arguments.format)
    return EXIT_OK


# `sqlstream state show CHECKPOINT [TABLE]`: what a checkpoint is of, or the rows of one table.


SHOW_EPILOG = """\
examples:
  sqlstream state show chk-12
  sqlstream state show --json chk-12 | jq .sources
  sqlstream state show chk-12 groups --limit 5

Without TABLE: the job, its vertices with the state of their subtasks, the positions of its sources, and what its sinks had to
commit. Rows in flight are those that an unaligned checkpoint found under way to and from a vertex. TABLE is a name that
`sqlstream state ls` lists; --json prints one object per row.
"""

_VERTEX_COLUMNS = ("vertex", "parallelism", "finished", "splits", "bytes")


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = SHOW_EPILOG
    add_checkpoint_arguments(parser, "checkpoint")
    parser.add_argument("table", nargs="?", metavar="TABLE", help="the table whose rows are printed")
    parser.add_argument(
        "--limit", type=count, default=20, metavar="N", help="print this many rows (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def show_checkpoint(arguments: argparse.Namespace) -> int:
    from sqlstream.client.commands.remote.server_arguments import print_json

    saved = open_checkpoint(arguments.checkpoint, settings_of(arguments))
    if arguments.table is not None:
        rows = saved.rows(saved.find(arguments.table)).slice(0, arguments.limit)
        write_rows(rows.to_batches(), rows.schema, "json" if arguments.json else "table")
    elif arguments.json:
        print_json(describe(saved.stored))
    else:
        _print_checkpoint(describe(saved.stored))
    return EXIT_OK


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


def _print_checkpoint(facts: dict[str, Any]) -> None:
    from sqlstream.client.commands.remote.server_arguments import duration_text, moment_text, print_table
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
    columns: tuple[str, ...] = _VERTEX_COLUMNS
    if facts["has_in_flight"]:
        rows = sum(vertex["rows_in_flight"] for vertex in facts["vertices"])
        print(f"{'unaligned':<15}{in_flight_text(rows)}")
        columns = (*_VERTEX_COLUMNS, "rows_in_flight")
    titles = tuple(name.replace("_", " ") for name in columns)
    print_table(titles, [tuple(vertex[name] for name in columns) for vertex in facts["vertices"]])
    for commit in facts["commits"]:
        print(
            f'checkpoint {commit["checkpoint"]} commits {commit["parts"]} parts to "{shown(commit["table"])}" '
            f"({commit['connector']})"
        )


# `sqlstream state diff BEFORE AFTER [TABLE]`: the rows that two checkpoints do not have in common.


DIFF_EPILOG = """\
examples:
  sqlstream state diff chk-11 chk-12
  sqlstream state diff chk-11 chk-12 groups --rows 20
  sqlstream state diff --json savepoint-4f1c20-… chk-12 | jq '.[] | {table, added, removed, changed}'

Tables are those of the same operators, found by their meaning: the two may be of different jobs, at other parallelisms. Rows are
matched by their key: the first columns that identify the rows on both sides. A changed row is shown as -U and +U. Rows of a
table without a key are only added (+I) and removed (-D). Rows in flight are compared when their TABLE is given.

Exit code: 0 all rows are equal, 1 rows differ, 2 a path or table is wrong.
"""

_DIFFERENCE_COLUMNS = ("table", "before", "after", "added", "removed", "changed")


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = DIFF_EPILOG
    add_checkpoint_arguments(parser, "before", "after")
    parser.add_argument("table", nargs="?", metavar="TABLE", help="the one table to compare")
    parser.add_argument(
        "--rows",
        type=count,
        default=10,
        metavar="N",
        help="show this many differing rows per table (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def compare_checkpoints(arguments: argparse.Namespace) -> int:
    from sqlstream.runtime.checkpoint.state_database import state_database

    settings = settings_of(arguments)
    before, after = (open_checkpoint(path, settings) for path in (arguments.before, arguments.after))
    with state_database(settings) as database:
        found = list(_differences(database, before, after, arguments.table, arguments.rows))
    if arguments.json:
        _print_differences_as_json(found)
    else:
        _print_differences(found)
    return EXIT_OK if all(difference.is_equal for difference in found) else EXIT_FAILED


def _differences(
    database: StateDatabase, before: SavedTables, after: SavedTables, name: str | None, rows_max: int
) -> Iterator[TableDifference]:
    """Of every table of either checkpoint; one that only one of them has is empty in the other."""
    wanted = {_found(before, after, name)} if name is not None else None
    old, new = (
        {t.identity: t for t in (*saved.tables, *(saved.in_flight if name else ()))}
        for saved in (before, after)
    )
    for identity in old | new:
        if wanted is not None and identity not in wanted:
            continue
        table = new.get(identity) or old[identity]
        rows = before.rows(old[identity]) if identity in old else None
        now = after.rows(new[identity]) if identity in new else None
        if rows is None or now is None:
            present = now if rows is None else rows
            assert present is not None
            rows, now = (present.slice(0, 0), present) if rows is None else (present, present.slice(0, 0))
        yield database.difference(table.qualified_name, rows, now, rows_max)


def _found(before: SavedTables, after: SavedTables, name: str) -> tuple[str, str]:
    from sqlstream.errors import UserError

    try:
        return after.find(name).identity
    except UserError:
        return before.find(name).identity


def _print_differences(found: list[TableDifference]) -> None:
    from sqlstream.client.commands.remote.server_arguments import print_table

    print_table(_DIFFERENCE_COLUMNS, [tuple(getattr(d, name) for name in _DIFFERENCE_COLUMNS) for d in found])
    for difference in found:
        if not difference.is_equal:
            by = f" by {', '.join(difference.key)}" if difference.key else ""
            print(f"\n{difference.table}{by}")
            write_rows(difference.changes.to_batches(), difference.changes.schema, "table")


def _print_differences_as_json(found: list[TableDifference]) -> None:
    import json

    rows: list[dict[str, Any]] = [
        {
            **{name: getattr(d, name) for name in _DIFFERENCE_COLUMNS},
            "key": d.key,
            "changes": d.changes.to_pylist(),
        }
        for d in found
    ]
    print(json.dumps(rows, indent=2, ensure_ascii=False, default=str))


ACTIONS: dict[str, tuple[AddArguments, Execute, str]] = {
    "ls": (add_ls_arguments, list_tables, "list the tables of a checkpoint"),
    "show": (
        add_show_arguments,
        show_checkpoint,
        "show what a checkpoint is of, or the rows of one of its tables",
    ),
    "sql": (add_sql_arguments, answer_query, "answer a query over the tables of a checkpoint"),
    "diff": (
        add_diff_arguments,
        compare_checkpoints,
        "show the rows that two checkpoints do not have in common",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (add_own_arguments, _, text) in ACTIONS.items():
        action = actions.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add_own_arguments(action)


def execute(arguments: argparse.Namespace) -> int:
    return ACTIONS[arguments.action][1](arguments)
