"""`sqlstream state diff BEFORE AFTER [TABLE]`: the rows that two checkpoints do not have in common."""

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
from sqlstream.client.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlstream.runtime.checkpoint.saved_tables import SavedTables
    from sqlstream.runtime.checkpoint.state_database import StateDatabase, TableDifference

EPILOG = """\
examples:
  sqlstream state diff chk-11 chk-12
  sqlstream state diff chk-11 chk-12 groups --rows 20
  sqlstream state diff --json savepoint-4f1c20-… chk-12 | jq '.[] | {table, added, removed, changed}'

Tables are those of the same operators, found by their meaning: the two may be of different jobs, at other parallelisms. Rows are
matched by their key: the first columns that identify the rows on both sides. A changed row is shown as -U and +U. Rows of a
table without a key are only added (+I) and removed (-D). Rows in flight are compared when their TABLE is given.

Exit code: 0 all rows are equal, 1 rows differ, 2 a path or table is wrong.
"""

_COLUMNS = ("table", "before", "after", "added", "removed", "changed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
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


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.runtime.checkpoint.state_database import state_database

    settings = settings_of(arguments)
    before, after = (open_checkpoint(path, settings) for path in (arguments.before, arguments.after))
    with state_database(settings) as database:
        found = list(_differences(database, before, after, arguments.table, arguments.rows))
    if arguments.json:
        _print_json(found)
    else:
        _print(found)
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


def _print(found: list[TableDifference]) -> None:
    from sqlstream.client.commands.remote.listing import print_table

    print_table(_COLUMNS, [tuple(getattr(d, name) for name in _COLUMNS) for d in found])
    for difference in found:
        if not difference.is_equal:
            by = f" by {', '.join(difference.key)}" if difference.key else ""
            print(f"\n{difference.table}{by}")
            write_rows(difference.changes.to_batches(), difference.changes.schema, "table")


def _print_json(found: list[TableDifference]) -> None:
    import json

    rows: list[dict[str, Any]] = [
        {**{name: getattr(d, name) for name in _COLUMNS}, "key": d.key, "changes": d.changes.to_pylist()}
        for d in found
    ]
    print(json.dumps(rows, indent=2, ensure_ascii=False, default=str))
