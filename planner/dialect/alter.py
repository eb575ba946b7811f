"""The grammar of ALTER of tables, views, databases and catalogs."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.planner.dialect.alter_table import table_changes
from sqlstream.planner.dialect.catalogs import alter_catalog, alter_database
from sqlstream.planner.dialect.ddl import unsupported
from sqlstream.planner.dialect.extent import extent
from sqlstream.planner.dialect.functions_ddl import alter_function
from sqlstream.planner.dialect.options import option_keys, option_list
from sqlstream.planner.dialect.queries import QueryParser
from sqlstream.planner.dialect.statements import (
    AlterCatalog,
    AlterDatabase,
    AlterFunction,
    AlterTable,
    AlterTableOptions,
    AlterView,
    Identifier,
    RenameObject,
)


def alter(
    parser: QueryParser,
) -> RenameObject | AlterTableOptions | AlterTable | AlterView | AlterDatabase | AlterCatalog | AlterFunction:
    """Read ALTER TABLE | VIEW | DATABASE | CATALOG, or ALTER [TEMPORARY [SYSTEM]] FUNCTION."""
    first = parser.expect("ALTER")
    if parser.accept("TABLE"):
        return _alter_table(parser, first)
    if parser.accept("VIEW"):
        return _alter_view(parser, first)
    if parser.accept("DATABASE"):
        return alter_database(parser, first)
    if parser.accept("CATALOG"):
        return alter_catalog(parser, first)
    for words in (("FUNCTION",), ("TEMPORARY", "FUNCTION"), ("TEMPORARY", "SYSTEM", "FUNCTION")):
        if parser.accept(*words):
            return alter_function(parser, first, len(words) > 1, len(words) > 2)
    raise unsupported(parser, first)


def _alter_table(parser: QueryParser, first: Token) -> RenameObject | AlterTableOptions | AlterTable:
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.qualified_name("a table name")
    if parser.at("RENAME", "TO"):
        return _rename(parser, first, name, is_view=False, if_exists=if_exists)
    if parser.accept("SET"):
        options = option_list(parser)
        return AlterTableOptions(*extent(parser, first), name=name, options=options, if_exists=if_exists)
    if parser.accept("RESET"):
        keys = option_keys(parser)
        return AlterTableOptions(*extent(parser, first), name=name, reset=keys, if_exists=if_exists)
    changes = table_changes(parser)
    if changes is not None:
        return AlterTable(*extent(parser, first), name=name, changes=changes, if_exists=if_exists)
    hint = "write MODIFY column type" if parser.at_any("ALTER", "CHANGE") else ""
    raise parser.unexpected("ADD, MODIFY, DROP, RENAME, SET or RESET", hint)


def _alter_view(parser: QueryParser, first: Token) -> RenameObject | AlterView:
    name = parser.qualified_name("a view name")
    if parser.at("RENAME"):
        return _rename(parser, first, name, is_view=True, if_exists=False)
    if not parser.accept("AS"):
        raise parser.unexpected("AS and a query, or RENAME TO")
    start = parser.token.start
    query = parser.query()
    text = parser.source(start, parser.previous_end)
    return AlterView(*extent(parser, first), name=name, query=query, query_text=text)


def _rename(
    parser: QueryParser, first: Token, name: Identifier, is_view: bool, if_exists: bool
) -> RenameObject:
    parser.expect("RENAME", "TO")
    target = parser.qualified_name("the other name")
    return RenameObject(
        *extent(parser, first), name=name, is_view=is_view, target=target, if_exists=if_exists
    )
