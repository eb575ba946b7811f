"""Random queries over random rows, alone and in parallel with tiny batches, have DuckDB's answer; and EXPLAIN shows their plans.

A seed that fails is a query to keep: reduce it and add it to tests/sql.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from differential.random_query import RandomQuery, function_statements
from oracle import Differential, Engine, assert_same_rows, duckdb_answer, rows_of

from sqlstream.client.sessions.outcomes import Text
from sqlstream.planner.dialect.parser import parse_statements

SEEDS_A_TEST = 10
SEEDS = 30
STRATEGIES = ("AUTO", "ONE_PHASE", "TWO_PHASE")


def answers_alike(engine: Engine, seed: int) -> None:
    query = RandomQuery(seed)
    made = "".join(f"{statement};\n" for statement in function_statements(query.sql))
    script = f"{made}SET 'table.optimizer.agg-phase-strategy' = '{STRATEGIES[seed % 3]}';\n{query.sql}"
    try:
        for parallelism, batch_rows in ((1, 3), (3, 2)):
            Differential(engine)(
                script,
                query.tables,
                parallelism=parallelism,
                batch_rows=batch_rows,
                batch_sql=query.batch_sql,
            )
        *_, select = query.sql.split(";\n")
        (explain,) = parse_statements(f"EXPLAIN {select}")
        outcome = engine.execute(explain)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {query.sql}\n{query.tables}") from error
    assert isinstance(outcome, Text)
    assert "== Job Graph ==" in outcome.text


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_a_random_query_has_the_batch_answer(first: int, engine: Engine) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        answers_alike(engine, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", [*range(SEEDS, 120, SEEDS_A_TEST), *range(1000, 2500, SEEDS_A_TEST)])
def test_more_random_queries_have_the_batch_answer(first: int, engine: Engine) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        answers_alike(engine, seed)


PLACES = (
    "'duckdb', 'path' = '{0}.duckdb', 'table-name' = 'k'",
    "'filesystem', 'path' = '{0}', 'format' = 'parquet', 'changelog.mode' = 'compacted'",
    "'filesystem', 'path' = '{0}', 'format' = 'json', 'changelog.mode' = 'upsert', 'changelog.op-column' = 'op'",
    "'filesystem', 'path' = '{0}', 'format' = 'csv', 'changelog.mode' = 'retract', 'changelog.op-column' = 'op'",
    "'filesystem', 'path' = '{0}', 'format' = 'debezium-json'",
)
BATCH_ROWS = (1, 2, 65_536)


def keeps_the_rows(engine: Engine, directory: Path, seed: int) -> None:
    """A table with a primary key holds the rows of the query that writes it, which change before they are final."""
    query = RandomQuery(seed, is_keyed=True)
    *before, select = query.sql.split(";\n")
    place = PLACES[seed % len(PLACES)].format(f"{directory}/{seed}")
    key = f"PRIMARY KEY ({', '.join(query.keys)}) NOT ENFORCED"
    made = f"CREATE TABLE keyed ({key}) WITH ('connector' = {place}) AS {select}"
    try:
        engine.configure(1 + seed % 2, BATCH_ROWS[seed % len(BATCH_ROWS)])
        arrow = {
            name: engine.create(name, columns, rows, 2) for name, (columns, rows) in query.tables.items()
        }
        *_, found = [
            *engine.run(";\n".join([*function_statements(query.sql), *before, made])),
            *engine.run("SELECT * FROM keyed"),
        ]
        (statement,) = parse_statements(query.batch_sql)
        plan = engine.compile(statement).relational[0]
        assert_same_rows(rows_of(found.table), duckdb_answer(plan, found.schema, arrow, engine.time_zone))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {made}\n{query.sql}\n{query.tables}") from error


def test_a_table_with_a_key_keeps_the_rows_of_a_random_query(engine: Engine, tmp_path: Path) -> None:
    for seed in range(30):
        keeps_the_rows(engine, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_more_tables_with_a_key_keep_the_rows_of_random_queries(
    first: int, engine: Engine, tmp_path: Path
) -> None:
    for seed in range(first, first + 20):
        keeps_the_rows(engine, tmp_path, seed)
