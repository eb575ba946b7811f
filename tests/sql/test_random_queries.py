"""Random queries over random rows have DuckDB's answer however they run, and EXPLAIN shows their plans.

A seed that fails is a query to keep: reduce it and add it to a file beside this one.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from differential.random_query import RandomQuery, function_statements
from differential.random_recursion import RandomRecursiveQuery
from oracle import ChangedRows, LookedUpRows, Row
from sql_cases import Case
from sql_oracles import check_generated, generated
from sql_runs import draws, physical_rows

from sqlstream.planner.compile import explain

SEEDS_A_TEST = 10
SEEDS = 30
NEW_SEEDS_CPU_S = 8.0
NEW_SEEDS_FROM, NEW_SEEDS_TO = 1_000_000, 1_000_000_000
KEYED_SINKS = ("duckdb", "compacted", "upsert", "retract", "debezium", "jdbc")


def case_of(query: RandomQuery, name: str, directory: Path) -> Case:
    """The query as a case. Tables of changes have the rows that are left, of which a draw makes changes."""
    *before, select = query.sql.split(";\n")
    # The runner deals the rows of a table to its scans, so that each table is scanned once.
    settings = [
        found
        for text in before
        if (found := re.fullmatch(r"SET '(.*)' = '(.*)'", text)) and "reuse-sub-plan" not in text
    ]
    made = [text for text in (*function_statements(query.sql), *before) if not text.startswith("SET ")]
    tables = {
        table: (columns.replace(", PRIMARY KEY (id) NOT ENFORCED", ""), _left(rows))
        for table, (columns, rows) in query.tables.items()
    }
    case = generated(
        name,
        select,
        tables,
        *(f"set.{key}={value}" for key, value in map(re.Match.groups, settings)),
        given=made,
    )
    for table, (_, rows) in query.tables.items():
        if isinstance(rows, LookedUpRows):
            file = directory / f"{name}.parquet"
            pq.write_table(physical_rows(case.tables[table]), file)
            options = f"'connector' = 'duckdb', 'path' = '{file}', 'lookup.cache' = '{rows.cache}'"
            looked_up = dataclasses.replace(case.tables[table], kind=options)
            case = dataclasses.replace(case, tables={**case.tables, table: looked_up})
    return dataclasses.replace(case, batch_sql=query.batch_sql)


def _left(rows: list[Row]) -> list[Row]:
    if not isinstance(rows, ChangedRows):
        return rows
    left: list[Row] = []
    for op, *row in rows:
        if op in ("+I", "+U"):
            left.append(tuple(row))
        elif tuple(row) in left:
            left.remove(tuple(row))
    return left


def answers_alike(seed: int, directory: Path, kind: type[RandomQuery] = RandomQuery) -> None:
    case = case_of(kind(seed), f"random_{seed}", directory)
    found = draws(str(case))
    try:
        result = check_generated(case, directory, found[seed % len(found)])
        assert "== Job Graph ==" in explain(result.plan)
    except Exception as error:
        raise AssertionError(f"{kind.__name__}, seed {seed}: {case.tables}") from error


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_a_random_query_has_the_batch_answer(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        answers_alike(seed, tmp_path)


def test_a_random_query_that_no_run_has_had_has_the_batch_answer(tmp_path: Path) -> None:
    end_s = time.process_time() + NEW_SEEDS_CPU_S
    kinds = itertools.cycle((RandomQuery, RandomQuery, RandomQuery, RandomRecursiveQuery))
    while time.process_time() < end_s:
        answers_alike(random.SystemRandom().randrange(NEW_SEEDS_FROM, NEW_SEEDS_TO), tmp_path, next(kinds))


def test_a_random_recursive_query_has_the_batch_answer(tmp_path: Path) -> None:
    for seed in range(10):
        answers_alike(seed, tmp_path, RandomRecursiveQuery)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10, 210, 20))
def test_more_random_recursive_queries_have_the_batch_answer(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        answers_alike(seed, tmp_path, RandomRecursiveQuery)


@pytest.mark.slow
@pytest.mark.parametrize("first", [*range(SEEDS, 120, SEEDS_A_TEST), *range(1000, 2500, SEEDS_A_TEST)])
def test_more_random_queries_have_the_batch_answer(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        answers_alike(seed, tmp_path)


def keeps_the_rows(seed: int, directory: Path) -> None:
    """A table with a primary key holds the rows of the query that writes it, which change before they are final."""
    case = case_of(RandomQuery(seed, is_keyed=True), f"keyed_{seed}", directory)
    case = dataclasses.replace(case, words={**case.words, "key": ""})
    sink = KEYED_SINKS[seed % len(KEYED_SINKS)]
    draw = draws(str(case))[seed % len(KEYED_SINKS)]
    try:
        result = check_generated(case, directory, dataclasses.replace(draw, sink=sink))
        assert result.draw.sink == sink
    except Exception as error:
        raise AssertionError(f"seed {seed}: {case.tables}") from error


def test_a_table_with_a_key_keeps_the_rows_of_a_random_query(tmp_path: Path) -> None:
    for seed in range(30):
        keeps_the_rows(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_more_tables_with_a_key_keep_the_rows_of_random_queries(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        keeps_the_rows(seed, tmp_path)
