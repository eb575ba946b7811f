"""`sqlstream state sql CHECKPOINT "SELECT …"`: a query over the tables of a checkpoint."""

from __future__ import annotations

import argparse

from sqlstream.client.commands.state.checkpoint import (
    add_checkpoint_arguments,
    open_checkpoint,
    settings_of,
    write_rows,
)
from sqlstream.client.rendering.render import FORMATS

EPILOG = """\
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_checkpoint_arguments(parser, "checkpoint")
    parser.add_argument("query", metavar="QUERY", help="the query")
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="how rows are printed (default: table)"
    )
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="one object per row"
    )


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.runtime.checkpoint.state_database import state_database

    settings = settings_of(arguments)
    saved = open_checkpoint(arguments.checkpoint, settings)
    with state_database(settings) as database:
        database.register(saved, (*saved.tables, *saved.in_flight))
        database.lock()
        with database.query(arguments.query) as rows:
            write_rows(rows, rows.schema, arguments.format)
    return 0
