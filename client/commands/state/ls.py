"""`sqlstream state ls CHECKPOINT`: the tables of a checkpoint."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sqlstream.client.commands.state.checkpoint import add_checkpoint_arguments, open_checkpoint, settings_of

if TYPE_CHECKING:
    from sqlstream.runtime.checkpoint.saved_tables import SavedTable, SavedTables

EPILOG = """\
examples:
  sqlstream state ls chk-12
  sqlstream state ls --json chk-12 | jq '.[] | {table, bytes}'

Each operator's tables stand in a schema of SQL that is named after it. `rows` counts what is in the files: with increments,
rows that were saved again count again. in_flight_input and in_flight_output are the rows that an unaligned checkpoint found under
way to and from an operator, with the numbers of the subtask and of the channel; those of several inputs are told apart by their
columns.
"""

_COLUMNS = ("table", "rows", "bytes", "increments", "subtasks", "operator")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_checkpoint_arguments(parser, "checkpoint")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON array, with the columns of each table"
    )


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.commands.remote.listing import print_json, print_table

    saved = open_checkpoint(arguments.checkpoint, settings_of(arguments))
    tables = (*saved.tables, *saved.in_flight)
    found = [describe(table) for table in tables]
    if arguments.json:
        print_json([{**facts, **_details(saved, t)} for facts, t in zip(found, tables, strict=True)])
    else:
        print_table(_COLUMNS, [tuple(facts[name] for name in _COLUMNS) for facts in found])
    return 0


def describe(table: SavedTable) -> dict[str, Any]:
    return {
        "table": table.qualified_name,
        "rows": table.saved_rows,
        "bytes": table.bytes,
        "increments": sum(segment.is_increment for segment in table.segments),
        "subtasks": len({subtask for subtask, _ in table.channels} or table.parts),
        "operator": table.operator.description or table.operator.name,
    }


def _details(saved: SavedTables, table: SavedTable) -> dict[str, Any]:
    from sqlstream.runtime.formats.parquet_types import sql_name

    return {
        "name": table.operator.name,
        "uid": table.operator.uid,
        "vertex": table.vertex.vertex_id,
        "is_keyed": table.is_keyed,
        "columns": {field.name: sql_name(field.type) for field in saved.columns(table)},
        "files": sorted({segment.path for segment in table.segments}),
    }
