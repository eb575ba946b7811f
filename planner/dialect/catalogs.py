"""The grammar of catalogs and databases: CREATE, ALTER, DROP and USE of them."""

from __future__ import annotations

from sqlglot import Token

from sqlstream.errors import UserError
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.queries import QueryParser, extent, read_comment
from sqlstream.planner.dialect.reading import option_keys, option_list


def database_name(parser: QueryParser) -> statements.Identifier:
    """Read `[catalog.]database`."""
    name = parser.qualified_name("a database name")
    if len(name.parts) > 2:
        hint = "a database is named database or catalog.database"
        raise UserError("SS1001", "the name has too many parts", span=name.span, hint=hint)
    return name


def create_database(parser: QueryParser, first: Token) -> statements.CreateDatabase:
    """Read from behind CREATE DATABASE."""
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = database_name(parser)
    comment = read_comment(parser)
    options = option_list(parser) if parser.accept("WITH") else ()
    return statements.CreateDatabase(
        *extent(parser, first), name=name, options=options, if_not_exists=if_not_exists, comment=comment
    )


def alter_database(parser: QueryParser, first: Token) -> statements.AlterDatabase:
    """Read from behind ALTER DATABASE."""
    name = database_name(parser)
    parser.expect("SET", hint="write ALTER DATABASE name SET ('key' = 'value')")
    options = option_list(parser)
    return statements.AlterDatabase(*extent(parser, first), name=name, options=options)


def drop_database(parser: QueryParser, first: Token) -> statements.DropDatabase:
    """Read from behind DROP DATABASE."""
    if_exists = parser.accept("IF", "EXISTS")
    name = database_name(parser)
    behavior = parser.accept_any("RESTRICT", "CASCADE")
    return statements.DropDatabase(
        *extent(parser, first), name=name, if_exists=if_exists, is_cascade=behavior == "CASCADE"
    )


def create_catalog(parser: QueryParser, first: Token) -> statements.CreateCatalog:
    """Read from behind CREATE CATALOG."""
    if_not_exists = parser.accept("IF", "NOT", "EXISTS")
    name = parser.simple_name("a catalog name")
    comment = read_comment(parser)
    options = option_list(parser) if parser.accept("WITH") else ()
    return statements.CreateCatalog(
        *extent(parser, first), name=name, options=options, if_not_exists=if_not_exists, comment=comment
    )


def alter_catalog(parser: QueryParser, first: Token) -> statements.AlterCatalog:
    """Read from behind ALTER CATALOG."""
    name = parser.simple_name("a catalog name")
    if parser.at("COMMENT"):
        comment = read_comment(parser)
        return statements.AlterCatalog(*extent(parser, first), name=name, comment=comment)
    if parser.accept("RESET"):
        keys = option_keys(parser)
        return statements.AlterCatalog(*extent(parser, first), name=name, reset=keys)
    hint = "write ALTER CATALOG name SET ('key' = 'value'), RESET ('key') or COMMENT 'text'"
    if not parser.accept("SET"):
        raise parser.unexpected("SET, RESET or COMMENT", hint)
    if parser.at("(", ")"):
        parser.expect("(")
        raise parser.unexpected("an option key in single quotes")
    options = option_list(parser)
    return statements.AlterCatalog(*extent(parser, first), name=name, options=options)


def drop_catalog(parser: QueryParser, first: Token) -> statements.DropCatalog:
    """Read from behind DROP CATALOG."""
    if_exists = parser.accept("IF", "EXISTS")
    name = parser.simple_name("a catalog name")
    return statements.DropCatalog(*extent(parser, first), name=name, if_exists=if_exists)


def use(parser: QueryParser) -> statements.Use:
    """Read USE [catalog.]database, or USE CATALOG name."""
    first = parser.expect("USE")
    # A database may be named catalog: then nothing follows it.
    is_catalog = parser.at("CATALOG") and bool(parser.peek(1)) and not parser.at("CATALOG", ".")
    if is_catalog:
        parser.advance()
    name = parser.simple_name("a catalog name") if is_catalog else database_name(parser)
    return statements.Use(*extent(parser, first), name=name, is_catalog=is_catalog)
