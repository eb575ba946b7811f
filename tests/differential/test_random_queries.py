"""Random queries over random rows, alone and in parallel with tiny batches, have DuckDB's answer; and EXPLAIN shows their plans.

A seed that fails is a query to keep: reduce it and add it to test_queries.py.
"""

from __future__ import annotations

import pytest
from differential.random_query import RandomQuery, function_statements
from oracle import Differential, Engine

from client.session import Text
from planner.dialect.parser import parse_statements

SEEDS_A_TEST = 10
SEEDS = 60
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
