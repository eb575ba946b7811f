"""MATCH_RECOGNIZE against a matcher by recursion, on random patterns and rows, however these are cut and restored."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
from match_reference import SkipFailed, Statement, Value, random_long_statement, random_statement
from moved_jobs import plan_job
from operator_harness import Collected, feed, finish, operator_context, restored

from sqlstream.elements import Watermark
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.runtime.kernels.match import WAITS_AT
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.match import open_runs
from sqlstream.runtime.operators.operator import Operator
from sqlstream.specs.match_recognize import MatchRecognizeSpec

TABLE = """
CREATE TABLE line (k STRING, v INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '1' SECOND)
  WITH ('connector' = 'scripted');
"""
Rows = list[tuple[str, Value, int]]


def match_operator(statement: Statement) -> ChainedOperator:
    job = plan_job(TABLE + statement.sql() + ";")
    found = [o for v in job.vertices for o in v.operators if isinstance(o.spec, MatchRecognizeSpec)]
    return found[0]


def random_rows(fate: random.Random) -> Rows:
    rows, time_ms = [], 0
    for _ in range(fate.randint(0, 14)):
        time_ms += fate.choice([1, 500, 1_000, 2_500])
        rows.append((fate.choice("ab"), fate.choice([None, 0, 1, 2, 3, 4, 5, 6, 7]), time_ms))
    return rows


def run(operator: ChainedOperator, rows: Rows, fate: random.Random) -> list[tuple[Any, ...]]:
    """The output for the rows in batches, whose rows are out of order as far as the watermark allows, restored now and then."""
    make = functools.partial(operator_context, operator.input_schemas, operator.output_schema)
    running: Operator[Any] = make_operator(operator.spec, make())
    output, place = Collected(), 0
    while place < len(rows):
        count = fate.randint(1, 5)
        part = rows[place : place + count]
        place += count
        fate.shuffle(part)
        items: list[Any] = [part]
        if fate.random() < 0.8:
            items.append(Watermark(max(r[2] for r in part)))
        feed(running, items, output)
        if fate.random() < 0.2:
            running = restored(operator.spec, make(), [running.context.state.snapshot()], 0, 1)
    finish(running, output)
    return output.rows


def rising_rows(fate: random.Random) -> Rows:
    """Rows whose values seldom fall, of a key that seldom changes."""
    rows, time_ms, value, key = [], 0, 0, "a"
    for _ in range(fate.randint(6, 24)):
        time_ms += fate.choice([1, 1, 200, 1_000])
        value = 0 if fate.random() < 0.1 else min(value + fate.choice([0, 1, 1]), 7)
        key = fate.choice("ab") if fate.random() < 0.3 else key
        rows.append((key, None if fate.random() < 0.05 else value, time_ms))
    return rows


def check(
    seed: int,
    statement_of: Callable[[random.Random], Statement] = random_statement,
    rows_of: Callable[[random.Random], Rows] = random_rows,
) -> bool:
    """Whether the statement of the seed has a result; it is compared by key, as keys have no order among each other."""
    fate = random.Random(seed)
    statement = statement_of(fate)
    operator = match_operator(statement)
    is_found = False
    for _ in range(4):
        rows = rows_of(fate)
        partitions = {k: [(v, t) for key, v, t in rows if key == k] for k in "ab"}
        try:
            expected = {k: statement.expected(k, part) for k, part in partitions.items()}
        except SkipFailed:
            with pytest.raises(UserError, match="AFTER MATCH SKIP TO"):
                run(operator, rows, fate)
            continue
        found = run(operator, rows, fate)
        for key, wanted in expected.items():
            assert [r for r in found if r[0] == key] == wanted, (seed, statement.sql(), rows)
        is_found = is_found or bool(found)
    return is_found


@pytest.mark.timeout(300)
def test_matches_are_those_of_the_definition() -> None:
    assert sum(check(seed) for seed in range(25)) > 8


def test_keys_that_are_matched_one_after_the_other_have_the_same_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sqlstream.runtime.operators.match.matcher.PLACES_MAX", 4)
    assert sum(check(seed) for seed in range(60, 80)) > 6


def follow_all_matches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Matches are followed however few rows they have; the list gets the number of keys with each time that some go on."""
    went_on: list[int] = []
    monkeypatch.setattr(open_runs, "_ROWS_MIN", 0)
    ordinary = open_runs.follow_runs

    def counted(runs: Any, *others: Any) -> None:
        ordinary(runs, *others)
        went_on.append(int((runs[:, WAITS_AT] >= 0).sum()))

    monkeypatch.setattr(open_runs, "follow_runs", counted)
    return went_on


@pytest.mark.timeout(300)
def test_matches_that_are_followed_without_their_earlier_rows_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    went_on = follow_all_matches(monkeypatch)
    assert sum(check(seed, random_long_statement, rising_rows) for seed in range(25)) > 10
    assert sum(went_on) > 10
    assert went_on.count(0) > 3


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_matches_that_are_followed_are_the_same_with_many_seeds(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_all_matches(monkeypatch)
    seeds = range(3_000 + part * 400, 3_400 + part * 400)
    assert sum(check(seed, random_long_statement, rising_rows) for seed in seeds) > 150


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_matches_are_those_of_the_definition_with_many_seeds(part: int) -> None:
    seeds = range(1_000 + part * 400, 1_400 + part * 400)
    assert sum(check(seed) for seed in seeds) > 150
