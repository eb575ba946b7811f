"""Queries in Spark have the batch answer, which is that of DuckDB over the same rows and of the finished stream.

Spark gets the optimised plan, as it does in batch mode; DuckDB gets the bound one."""

from __future__ import annotations

from typing import Any

import pytest
from differential.random_query import RandomQuery
from oracle import ChangedRows, Engine, Row, Tables, assert_same_rows, duckdb_answer
from plan_harness import CONNECTORS
from spark_harness.sql import create_view, spark_answer
from sql_cases import cases_of, today

from sqlstream.batch_plan import CHANGE_COLUMNS
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Query
from sqlstream.planner.relational.nodes import Sink, Sort
from sqlstream.planner.rules import optimise
from sqlstream.schema import Schema


def answers_alike(engine: Engine, spark: Any, script: str, tables: Tables) -> list[Row]:
    """Spark's rows of a script's SELECT, which must be DuckDB's."""
    engine.configure(1, 100)
    arrow = {name: engine.create(name, columns, rows, 1) for name, (columns, rows) in tables.items()}
    for name, table in arrow.items():
        schema = engine.table(name).physical_schema()
        changes = CHANGE_COLUMNS if isinstance(tables[name][1], ChangedRows) else ()
        create_view(spark, name, table, Schema((*schema.fields, *changes)))
    *before, query = parse_statements(script)
    for statement in before:
        engine.execute(statement)
    assert isinstance(query, Query)
    (node,) = engine.compile(query).relational
    expected = duckdb_answer(node, node.schema, arrow)
    (optimised,) = optimise((node,), CONNECTORS, has_watermarks=False)
    found = spark_answer(spark, optimised)
    is_ordered = isinstance(node, Sink) and isinstance(node.input, Sort) and bool(node.input.order)
    assert_same_rows(found, expected, is_ordered=is_ordered)
    return found


QUERIES = cases_of("queries")
QUICK = list(QUERIES)[today() % 4 :: 4]
"""Others each day; the rest is slow only because there are so many."""


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in QUERIES]
)
def test_a_query_has_the_batch_answer(name: str, engine: Engine, spark: Any) -> None:
    answers_alike(engine, spark, QUERIES[name].script, QUERIES[name].rows_of_tables)


def check_seed(engine: Engine, spark: Any, seed: int) -> None:
    query = RandomQuery(seed, is_plain=True)
    try:
        *before, _ = query.sql.split(";\n")
        answers_alike(engine, spark, ";\n".join((*before, query.batch_sql)), query.tables)
    except UserError as error:
        if error.code != "SS3301":
            raise AssertionError(f"seed {seed}: {query.sql}\n{query.tables}") from error
    except Exception as error:
        raise AssertionError(f"seed {seed}: {query.sql}\n{query.tables}") from error


def test_random_queries_have_the_batch_answer(engine: Engine, spark: Any) -> None:
    for seed in range(4):
        check_seed(engine, spark, seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_more_random_queries_have_the_batch_answer(first: int, engine: Engine, spark: Any) -> None:
    for seed in range(first, first + 20):
        check_seed(engine, spark, seed)
