"""What an engine computes by itself, and what the stream's evaluator does for it."""

from __future__ import annotations

import pytest
from planner_harness import TABLES, Planner

from sqlstream.errors import UserError
from sqlstream.planner.lower.duckdb import lower_duckdb
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.lower.spark import lower_spark
from sqlstream.specs.batch_query import HostedFunction

RELATIONS = {"t": "t", "u": "u", "e": "e"}
ENGINES = pytest.mark.parametrize("lower", [lower_duckdb, lower_spark])


def lowered(lower: object, query: str) -> tuple[str, tuple[HostedFunction, ...]]:
    planner = Planner()
    planner.run(TABLES)
    functions = HostedFunctions()
    return lower(planner.bind(query), RELATIONS, "UTC", functions), functions.found  # type: ignore[operator]


@ENGINES
@pytest.mark.parametrize(
    "expression",
    [
        *("a + b", "a * 2 - 1", "a / 2", "CASE WHEN a > 1 THEN s END", "COALESCE(a, 0) IN (1, 2)"),
        *(
            "s LIKE 'x%'",
            "CAST(a AS BIGINT)",
            "CAST(a AS STRING)",
            "SUBSTRING(s, 2, 3)",
            "s || 'x'",
            "a IS NULL",
        ),
    ],
)
def test_what_engines_agree_on_is_their_own(lower: object, expression: str) -> None:
    _, found = lowered(lower, f"SELECT {expression} FROM t")
    assert found == ()


@ENGINES
@pytest.mark.parametrize(
    "expression",
    [
        *("UPPER(s)", "a / b", "CAST(s AS INT)", "s LIKE 'a!%' ESCAPE '!'", "s LIKE '\\'", "NOW()"),
        *("CASE WHEN a <> 0 THEN b / a END", "UPPER(TRIM(s)) || 'x'", "CAST(b AS INT)", "SUBSTRING(s, a)"),
    ],
)
def test_anything_else_is_one_call_of_what_it_reads(lower: object, expression: str) -> None:
    sql, (function,) = lowered(lower, f"SELECT {expression} FROM t")
    assert sql.count("ours0(") == 1
    assert not function.is_volatile


@ENGINES
def test_a_condition_that_the_engine_knows_stays_its_own(lower: object) -> None:
    sql, (function,) = lowered(lower, "SELECT a FROM t WHERE b > 5 AND UPPER(s) = 'X' AND a < 3")
    assert "(i.c1 > " in sql
    assert "(i.c0 < " in sql
    # What stands before it may guard it.
    assert str(function.call) == "(($0 > 5) AND (UPPER($1) = 'X'))"


@ENGINES
def test_both_sides_of_a_join_are_computed_apart(lower: object) -> None:
    query = "SELECT x.a FROM t AS x LEFT JOIN t AS y ON UPPER(x.s) = LOWER(y.s) AND x.a = y.a"
    sql, found = lowered(lower, query)
    assert [str(function.call) for function in found] == ["UPPER($0)", "LOWER($0)"]
    assert " = CAST(ours1(r.c2)" in sql
    assert "(l.c0 = r.c0)" in sql


@ENGINES
def test_equal_calls_are_one_function(lower: object) -> None:
    _, found = lowered(lower, "SELECT UPPER(s), UPPER(s || ''), UPPER(s) FROM t")
    assert len(found) == 2


@ENGINES
@pytest.mark.parametrize("expression", ["RAND()", "RAND_INTEGER(10)", "UUID()"])
def test_what_is_another_value_each_time_is_volatile(lower: object, expression: str) -> None:
    _, (function,) = lowered(lower, f"SELECT {expression} FROM t")
    assert function.is_volatile


def test_spark_computes_a_condition_of_both_sides_of_an_outer_join_in_an_inner_one() -> None:
    query = "SELECT x.a FROM t AS x LEFT JOIN t AS y ON x.a = y.a AND POSITION(x.s IN y.s) > 0"
    text, found = lowered(lower_spark, query)
    assert (len(found), "LEFT JOIN" in text, "NOT EXISTS" in text) == (1, False, True)
    text, found = lowered(lower_duckdb, query)
    assert (len(found), "LEFT JOIN" in text) == (1, True)


@pytest.mark.parametrize("condition", ["POSITION(t.s IN e.z) > RAND()", "ELT(m[t.s], t.s, 'x') = 'x'"])
def test_a_condition_with_new_values_each_time_or_a_map_is_refused_in_spark(condition: str) -> None:
    with pytest.raises(UserError, match="in a condition of both sides of an outer join") as caught:
        lowered(
            lower_spark,
            f"SELECT t.a FROM t LEFT JOIN (SELECT s AS z, MAP[s, a] AS m FROM t) AS e ON {condition}",
        )
    assert caught.value.code == "SS3301"
