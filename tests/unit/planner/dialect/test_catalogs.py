"""The grammar of statements about catalogs and databases, and of ALTER."""

from __future__ import annotations

import pytest

from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.planner.dialect.statements import (
    AlterTableOptions,
    AlterView,
    CreateCatalog,
    CreateDatabase,
    DescribeNamespace,
    DropCatalog,
    DropDatabase,
    RenameObject,
    Show,
    ShowKind,
    Use,
)


def test_create_database_reads_every_clause() -> None:
    text = "CREATE DATABASE IF NOT EXISTS c.`my d` COMMENT 'x' WITH ('a' = '1', 'b' = '2')"
    statement = parse_statement(text)
    assert isinstance(statement, CreateDatabase)
    assert statement.name.parts == ("c", "my d")
    assert (statement.if_not_exists, statement.comment) == (True, "x")
    assert [(o.key, o.value) for o in statement.options] == [("a", "1"), ("b", "2")]
    assert statement.text == text


@pytest.mark.parametrize(
    ("text", "if_exists", "is_cascade"),
    [
        ("DROP DATABASE d", False, False),
        ("DROP DATABASE IF EXISTS d RESTRICT", True, False),
        ("drop database d cascade", False, True),
    ],
)
def test_drop_database_reads_its_behavior(text: str, if_exists: bool, is_cascade: bool) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, DropDatabase)
    assert (statement.if_exists, statement.is_cascade) == (if_exists, is_cascade)


def test_create_and_drop_catalog_read_their_clauses() -> None:
    made = parse_statement("CREATE CATALOG IF NOT EXISTS c COMMENT 'x' WITH ('type' = 'file', 'path' = '/p')")
    assert isinstance(made, CreateCatalog)
    assert (made.if_not_exists, made.comment, len(made.options)) == (True, "x", 2)
    dropped = parse_statement("DROP CATALOG IF EXISTS c")
    assert isinstance(dropped, DropCatalog)
    assert dropped.if_exists


@pytest.mark.parametrize(
    ("text", "parts", "is_catalog"),
    [
        ("USE d", ("d",), False),
        ("USE c.d", ("c", "d"), False),
        ("USE CATALOG c", ("c",), True),
        ("use catalog `CATALOG`", ("CATALOG",), True),
    ],
)
def test_use_tells_catalogs_from_databases(text: str, parts: tuple[str, ...], is_catalog: bool) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, Use)
    assert (statement.name.parts, statement.is_catalog) == (parts, is_catalog)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("SHOW TABLES FROM c.d LIKE 'x'", ShowKind.TABLES, ("c", "d")),
        ("SHOW VIEWS IN d", ShowKind.VIEWS, ("d",)),
        ("SHOW DATABASES IN c", ShowKind.DATABASES, ("c",)),
        ("SHOW CREATE CATALOG c", ShowKind.CREATE_CATALOG, ("c",)),
    ],
)
def test_show_reads_the_namespace(text: str, kind: ShowKind, name: tuple[str, ...]) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, Show)
    assert statement.name is not None
    assert (statement.kind, statement.name.parts) == (kind, name)


def test_describe_reads_extended_only_before_a_name() -> None:
    plain = parse_statement("DESC DATABASE EXTENDED")
    extended = parse_statement("DESCRIBE CATALOG EXTENDED c")
    assert isinstance(plain, DescribeNamespace)
    assert isinstance(extended, DescribeNamespace)
    assert (plain.name.parts, plain.is_extended, plain.is_catalog) == (("EXTENDED",), False, False)
    assert (extended.name.parts, extended.is_extended, extended.is_catalog) == (("c",), True, True)


def test_alter_reads_its_forms() -> None:
    renamed = parse_statement("ALTER TABLE IF EXISTS c.d.t RENAME TO u")
    assert isinstance(renamed, RenameObject)
    assert (renamed.name.parts, renamed.target.parts, renamed.if_exists) == (("c", "d", "t"), ("u",), True)
    view = parse_statement("ALTER VIEW v AS SELECT 1 AS x")
    assert isinstance(view, AlterView)
    assert view.query_text == "SELECT 1 AS x"
    reset = parse_statement("ALTER TABLE t RESET ('a', 'b')")
    assert isinstance(reset, AlterTableOptions)
    assert [k.parts for k in reset.reset] == [("a",), ("b",)]
    options = parse_statement("ALTER TABLE t SET ('a' = 'b')")
    assert isinstance(options, AlterTableOptions)
    assert [(o.key, o.value) for o in options.options] == [("a", "b")]
