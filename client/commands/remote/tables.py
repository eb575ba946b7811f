"""`sqlstream tables`: the tables and views in the catalogs of a server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    print_json,
    print_table,
    server_address,
)

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection

EPILOG = f"""\
examples:
  sqlstream tables
  sqlstream tables --catalog default_catalog --database sales
  sqlstream tables --json | jq -r '.[].name'

Lists all catalogs and databases unless one is named.
{SERVER_EPILOG}"""

_COLUMNS = ("catalog", "database", "name", "kind")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--catalog", metavar="NAME", help="the one catalog to list")
    parser.add_argument("--database", metavar="NAME", help="the one database to list")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream.client.connection.http_connection import HttpConnection

    with HttpConnection(server_address(arguments), {}) as connection:
        found = [
            (catalog, database, name, kind)
            for catalog in _chosen(arguments.catalog, "SHOW CATALOGS", connection)
            for database in _databases(catalog, arguments.database, connection)
            for name, kind in _objects(catalog, database, connection)
        ]
    if arguments.json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in found])
    else:
        print_table(_COLUMNS, found)
    return 0


def _chosen(name: str | None, statement: str, connection: Connection) -> list[str]:
    return [name] if name is not None else _column(statement, connection)


def _databases(catalog: str, name: str | None, connection: Connection) -> list[str]:
    return _chosen(name, f"SHOW DATABASES FROM {_quoted(catalog)}", connection)


def _objects(catalog: str, database: str, connection: Connection) -> list[tuple[str, str]]:
    path = f"{_quoted(catalog)}.{_quoted(database)}"
    views = set(_column(f"SHOW VIEWS FROM {path}", connection))
    names = _column(f"SHOW TABLES FROM {path}", connection)
    return [(name, "view" if name in views else "table") for name in names]


def _column(statement: str, connection: Connection) -> list[str]:
    with connection.execute(statement) as result:
        return [name for batch in result.batches() for name in batch.column(0).to_pylist()]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
