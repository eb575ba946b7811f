"""What lowering to Spark SQL refuses, and its text where names, strings and large trees must not be mistaken."""

from __future__ import annotations

import pytest
from planner_harness import TABLES, Planner
from sqlglot import exp

from sqlstream import spark_types
from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.lower.spark import SparkDialect, lower_spark, text
from sqlstream.planner.lower.spark import type_ as spark_type
from sqlstream.planner.relational.nodes import Project


def spark_sql(query: str, time_zone: str = "UTC") -> str:
    planner = Planner()
    planner.run(TABLES)
    return lower_spark(planner.bind(query), {"t": "t", "u": "u", "e": "e"}, time_zone)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT FIRST_VALUE(s) FROM t", "FIRST_VALUE"),
        ("SELECT CAST(ts AS TIMESTAMP(9)) FROM u", "type TIMESTAMP(9)"),
    ],
)
def test_what_spark_answers_otherwise_is_refused_at_its_place(query: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        spark_sql(query)
    assert caught.value.code == "SS3301"
    assert caught.value.message == f"{what} has no exact counterpart in Spark"
    assert caught.value.span is not None


def left_join_by_texts(type_: str) -> str:
    planner = Planner()
    for name in ("l", "r"):
        planner.run(f"CREATE TABLE {name} (k {type_}) WITH ('connector' = 'datagen')")
    match = "POSITION(CAST(l.k AS STRING) IN CAST(r.k AS STRING)) > 0"
    query = planner.bind(f"SELECT l.k FROM l LEFT JOIN r ON {match}")
    return lower_spark(query, {"l": "l", "r": "r"}, "UTC")


@pytest.mark.parametrize(
    "type_", ["ARRAY<DOUBLE>", "ROW<x INT, y ROW<z FLOAT>>", "ARRAY<ROW<x DOUBLE>>", "MAP<INT, INT>"]
)
def test_no_row_is_known_by_values_that_are_equal_and_have_different_texts(type_: str) -> None:
    """0.0 and -0.0 within an ARRAY or ROW: a row of the one would count as a match of the other."""
    with pytest.raises(UserError) as caught:
        left_join_by_texts(type_)
    assert caught.value.code == "SS3301"
    assert caught.value.message.endswith(
        "in a condition of both sides of an outer join has no exact counterpart in Spark"
    )


def test_rows_of_an_outer_join_are_known_by_the_values_that_its_condition_reads() -> None:
    assert "IS NOT DISTINCT FROM" in left_join_by_texts("ARRAY<INT>")
    assert "AS STRING) IS NOT DISTINCT FROM CAST(" in left_join_by_texts("DOUBLE")


def test_strings_keep_their_characters() -> None:
    assert text("it's \\ ${x}").sql(dialect="spark") == r"'it\'s \\ ${x}'"
    # '\0' and two digits would be one octal escape.
    assert text("\x0012").sql(dialect="spark") == "CAST(X'003132' AS STRING)"


def test_deep_parts_of_an_expression_are_text_already() -> None:
    nested = "a"
    for _ in range(12):
        nested = f"(1 + {nested})"
    planner = Planner()
    planner.run(TABLES)
    project = planner.bind(f"SELECT {nested} + b FROM t")
    assert isinstance(project, Project)
    lowered = lower_expression(project.expressions[0], SparkDialect(), tree.input_column)
    assert len(list(lowered.find_all(exp.Var))) == 1
    assert tree.size(lowered) < 60


def test_whole_numbers_are_divided_as_whole_numbers() -> None:
    assert "(i.c0 DIV CAST(2 AS INT))" in spark_sql("SELECT a / 2 FROM t")


def test_a_table_and_its_sql_have_the_same_types() -> None:
    nested = sql.row(("a b", sql.array(sql.timestamp(3))), ("c`d", sql.map_of(sql.STRING, sql.decimal(9, 2))))
    written = spark_types.spark_type(nested)
    assert written == "STRUCT<`a b`:ARRAY<TIMESTAMP_NTZ>,`c``d`:MAP<STRING,DECIMAL(9,2)>>"
    parsed = spark_type(nested).sql(dialect="spark")
    assert parsed.replace(": ", ":").replace(", ", ",") == written


def test_a_multiset_is_refused_in_tables_as_in_sql() -> None:
    for type_of in (spark_types.spark_type, spark_type):
        with pytest.raises(UserError, match=r"type MULTISET<INT> has no exact counterpart in Spark"):
            type_of(sql.multiset(sql.INT))
