"""CREATE and DROP of tables and views."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import Span, UserError
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.planner.dialect.statements import ColumnKind, CreateTable, CreateView, DropObject

TABLE = """CREATE TEMPORARY TABLE IF NOT EXISTS `c`.d.t (
  id BIGINT NOT NULL COMMENT 'the key',
  price DECIMAL(10, 2),
  cost AS price * 2 COMMENT 'computed',
  proc AS PROCTIME(),
  ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
  part INT METADATA,
  `watermark` STRING,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT pk PRIMARY KEY (id, part) NOT ENFORCED
) COMMENT 'a table' PARTITIONED BY (part) WITH ('connector' = 'x', 'a.b' = 'it''s',)"""


def table(text: str) -> CreateTable:
    statement = parse_statement(text)
    assert isinstance(statement, CreateTable)
    return statement


def test_a_trailing_comma_in_options_is_refused() -> None:
    with pytest.raises(UserError, match="expected an option key"):
        table(TABLE)


def test_create_table_keeps_every_part() -> None:
    found = table(TABLE.replace(",)", ")"))
    assert (found.name.parts, found.is_temporary, found.if_not_exists) == (("c", "d", "t"), True, True)
    assert (found.comment, [k.parts for k in found.partition_keys]) == ("a table", [("part",)])
    assert [(o.key, o.value) for o in found.options] == [("connector", "x"), ("a.b", "it's")]
    assert [k.parts[0] for k in found.primary_key] == ["id", "part"]
    assert [(c.name, c.kind.name, str(c.type) if c.type else "") for c in found.columns] == [
        ("id", "PHYSICAL", "BIGINT NOT NULL"),
        ("price", "PHYSICAL", "DECIMAL(10, 2)"),
        ("cost", "COMPUTED", ""),
        ("proc", "COMPUTED", ""),
        ("ts", "METADATA", "TIMESTAMP(3)"),
        ("part", "METADATA", "INT"),
        ("watermark", "PHYSICAL", "STRING"),
    ]


def test_columns_keep_comments_keys_and_expressions() -> None:
    columns = {c.name: c for c in table(TABLE.replace(",)", ")")).columns}
    assert (columns["id"].comment, columns["cost"].comment) == ("the key", "computed")
    assert isinstance(columns["cost"].expression, exp.Mul)
    assert (columns["ts"].metadata_key, columns["ts"].is_virtual) == ("timestamp", True)
    assert (columns["part"].metadata_key, columns["part"].is_virtual) == ("part", False)


def test_the_watermark_keeps_its_column_and_expression() -> None:
    text = TABLE.replace(",)", ")")
    watermark = table(text).watermark
    assert watermark is not None
    assert watermark.column.parts == ("ts",)
    assert text[watermark.span.start : watermark.span.end] == "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


def test_the_time_column_of_a_watermark_may_be_a_field_of_a_row() -> None:
    watermark = table(
        "CREATE TABLE t (r ROW<at ROW<ts TIMESTAMP(3)>>, WATERMARK FOR r.at.ts AS r.at.ts)"
    ).watermark
    assert watermark is not None
    assert watermark.column.parts == ("r", "at", "ts")


def test_an_inline_primary_key_is_the_key_of_the_table() -> None:
    found = table("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED COMMENT 'k', b INT)")
    assert [k.parts for k in found.primary_key] == [("a",)]
    assert [(c.is_primary_key, c.comment) for c in found.columns] == [(True, "k"), (False, "")]


def test_column_kinds_are_told_apart() -> None:
    (column,) = table("CREATE TABLE t (a INT METADATA)").columns
    assert column.kind is ColumnKind.METADATA


def test_create_view_keeps_query_and_text() -> None:
    text = "CREATE TEMPORARY VIEW v (a, b) COMMENT 'c' AS SELECT 1, /* x */ 2 FROM t"
    view = parse_statement(text + " ; ")
    assert isinstance(view, CreateView)
    assert view.query_text == "SELECT 1, /* x */ 2 FROM t"
    assert ([c.parts[0] for c in view.column_names], view.comment, view.is_temporary) == (
        ["a", "b"],
        "c",
        True,
    )
    assert (view.text, view.span) == (text, Span(0, len(text)))


@pytest.mark.parametrize(
    ("text", "is_view", "is_temporary", "if_exists"),
    [
        ("DROP TABLE t", False, False, False),
        ("DROP TEMPORARY VIEW IF EXISTS t", True, True, True),
    ],
)
def test_drop_keeps_its_words(text: str, is_view: bool, is_temporary: bool, if_exists: bool) -> None:
    found = parse_statement(text)
    assert isinstance(found, DropObject)
    assert (found.is_view, found.is_temporary, found.if_exists) == (is_view, is_temporary, if_exists)
    assert found.name.parts == ("t",)


def test_a_name_of_a_constraint_needs_a_constraint() -> None:
    text = "CREATE TABLE t (a INT CONSTRAINT c, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'datagen')"
    with pytest.raises(UserError) as raised:
        parse_statement(text)
    error = raised.value
    assert error.code == "SS1001"
    assert error.span is not None
    assert text[error.span.start] == ","
