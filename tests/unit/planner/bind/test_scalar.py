"""Expressions as SQL, and what they resolve to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from planner_harness import Planner
from work_harness import calls_of

from sqlstream.errors import UserError
from sqlstream.expressions import Call, walk
from sqlstream.planner.relational.nodes import Filter, Project, RelationalNode


def resolved(planner: Planner, expression: str, table: str = "t") -> str:
    node = planner.bind(f"SELECT {expression} AS x FROM {table}")
    assert isinstance(node, Project)
    return f"{node.expressions[0]} : {node.schema.types[0]}"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("1", "1 : INT NOT NULL"),
        ("-2147483648", "-2147483648 : INT NOT NULL"),
        ("3000000000", "3000000000 : BIGINT NOT NULL"),
        ("9223372036854775808", "'9223372036854775808' : DECIMAL(19, 0) NOT NULL"),
        ("1.50", "'1.50' : DECIMAL(3, 2) NOT NULL"),
        ("0.05", "'0.05' : DECIMAL(2, 2) NOT NULL"),
        ("1e3", "1000.0 : DOUBLE NOT NULL"),
        ("'it''s'", "'it''s' : CHAR(4) NOT NULL"),
        ("X'0AFF'", "x'0aff' : BINARY(2) NOT NULL"),
        ("TRUE", "TRUE : BOOLEAN NOT NULL"),
        ("NULL", "NULL : NULL"),
        ("DATE '1970-01-11'", "10 : DATE NOT NULL"),
        ("TIMESTAMP '1970-01-01 00:00:01'", "1000000000 : TIMESTAMP(0) NOT NULL"),
        (
            "TIMESTAMP '2300-01-01 00:00:00.000001000'",
            "'10413792000000001000' : TIMESTAMP(6) NOT NULL",
        ),
        ("INTERVAL '1' MINUTE", "60000 : INTERVAL DAY TO SECOND(3) NOT NULL"),
        ("CAST(NULL AS INT)", "NULL : INT"),
    ],
)
def test_a_literal_has_flinks_type(planner: Planner, sql: str, expected: str) -> None:
    assert resolved(planner, sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a + b", "(CAST($0 AS BIGINT) + $1) : BIGINT"),
        ("a = 1", "($0 = 1) : BOOLEAN"),
        ("b = 1", "($1 = 1) : BOOLEAN NOT NULL"),
        ("a <> 1 AND b > 2 AND s < 'x'", "(($0 <> 1) AND ($1 > 2) AND ($2 < 'x')) : BOOLEAN"),
        ("a = 1 OR NOT (a = 2)", "(($0 = 1) OR NOT(($0 = 2))) : BOOLEAN"),
        ("a BETWEEN 1 AND 3", "(($0 >= 1) AND ($0 <= 3)) : BOOLEAN"),
        ("a NOT BETWEEN 1 AND 3", "NOT((($0 >= 1) AND ($0 <= 3))) : BOOLEAN"),
        (
            "a BETWEEN SYMMETRIC 3 AND 1",
            "((($0 >= 3) AND ($0 <= 1)) OR (($0 >= 1) AND ($0 <= 3))) : BOOLEAN",
        ),
        ("a IN (1, 2)", "IN($0, 1, 2) : BOOLEAN"),
        ("a NOT IN (1, 2)", "NOT(IN($0, 1, 2)) : BOOLEAN"),
        ("a IS NULL", "IS NULL($0) : BOOLEAN NOT NULL"),
        ("a IS NOT NULL", "IS NOT NULL($0) : BOOLEAN NOT NULL"),
        ("(a = 1) IS NOT TRUE", "IS NOT TRUE(($0 = 1)) : BOOLEAN NOT NULL"),
        ("(a = 1) IS UNKNOWN", "IS UNKNOWN(($0 = 1)) : BOOLEAN NOT NULL"),
        ("a IS DISTINCT FROM 1", "IS DISTINCT FROM($0, 1) : BOOLEAN NOT NULL"),
        ("s LIKE 'a%'", "($2 LIKE 'a%') : BOOLEAN"),
        ("s || 'x'", "($2 || 'x') : STRING"),
        ("CASE WHEN a = 1 THEN 'one' ELSE s END", "CASE(($0 = 1), 'one', $2) : STRING"),
        ("CASE a WHEN 1 THEN b END", "CASE(($0 = 1), $1, NULL) : BIGINT"),
        ("COALESCE(a, 0)", "COALESCE($0, 0) : INT NOT NULL"),
        ("CAST(a AS STRING)", "CAST($0 AS STRING) : STRING"),
        ("TRY_CAST(s AS INT)", "TRY_CAST($2 AS INT) : INT"),
        ("-a", "NEGATE($0) : INT"),
    ],
)
def test_an_operator_resolves(planner: Planner, sql: str, expected: str) -> None:
    assert resolved(planner, sql) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("r.x", "FIELD($1, 0) : INT"),
        ("e.r.y.z", "FIELD(FIELD($1, 1), 0) : STRING"),
        ("l[1]", "ITEM($2, 1) : INT"),
        ("m['k']", "ITEM($3, 'k') : INT"),
        ("ROW(1, 'a')", "ROW(1, 'a') : ROW<`EXPR$0` INT NOT NULL, `EXPR$1` CHAR(1) NOT NULL> NOT NULL"),
        ("ARRAY[1, 2]", "ARRAY(1, 2) : ARRAY<INT NOT NULL> NOT NULL"),
        ("EXTRACT(HOUR FROM rt)", "EXTRACT('HOUR', $7) : BIGINT"),
        ("rt > TIMESTAMP '2020-01-01 00:00:00'", "($7 > 1577836800000000000) : BOOLEAN"),
        ("rt > '2020-01-01 00:00:00'", "($7 > TRY_CAST('2020-01-01 00:00:00' AS TIMESTAMP(3))) : BOOLEAN"),
        ("rt + INTERVAL '1' SECOND", "($7 + 1000) : TIMESTAMP(3)"),
    ],
)
def test_nested_values_and_times_resolve(planner: Planner, sql: str, expected: str) -> None:
    assert resolved(planner, sql, "e") == expected


@pytest.mark.parametrize("sql", ["1 - {}", "SUM(a) - {}"])
def test_a_chain_too_long_to_nest_is_refused(planner: Planner, sql: str) -> None:
    chain = sql.format(" - ".join(["b"] * 3000))
    with pytest.raises(UserError, match="levels deep"):
        resolved(planner, chain)


def test_a_chain_that_begins_with_an_aggregate_is_read_about_as_often_as_one_without(
    planner: Planner,
) -> None:
    grouped, plain = (
        calls_of(lambda first=first: resolved(planner, first + " - 1" * 240)) for first in ("SUM(a)", "a")
    )
    assert grouped < 3 * plain


def test_a_long_sum_has_the_type_of_each_sum_on_the_way(planner: Planner) -> None:
    assert resolved(planner, " + ".join(["a"] * 40 + ["b"] * 2)) == (
        "(CAST((" + " + ".join(["$0"] * 40) + ") AS BIGINT) + $1 + $1) : BIGINT"
    )


def test_a_short_chain_is_nested_as_it_is_written(planner: Planner) -> None:
    assert resolved(planner, "b + b + b") == "(($1 + $1) + $1) : BIGINT NOT NULL"
    assert resolved(planner, "s || s || s") == "(($2 || $2) || $2) : STRING"


def test_a_chain_of_a_thousand_conditions_binds(planner: Planner) -> None:
    condition = " OR ".join(f"a = {n}" for n in range(1000))
    assert resolved(planner, condition).endswith(": BOOLEAN")


@pytest.mark.parametrize(
    ("sql", "blamed"),
    [
        ("SELECT 1 + 10 / a FROM t", "10 / a"),
        ("SELECT UPPER(s), CAST(s AS INT) FROM t", "CAST(s AS INT)"),
        ("SELECT s FROM t WHERE a > 1 AND CAST(s AS INT) > 1", "CAST(s AS INT)"),
        ("SELECT SUM(10 % a) FROM t GROUP BY s", "10 % a"),
        ("SELECT 1 + 10 / a FROM t GROUP BY a", "10 / a"),
        ("SELECT a FROM t GROUP BY a HAVING CAST('x' AS INT) > COUNT(*)", "CAST('x' AS INT)"),
        ("SELECT CAST(a AS INT) FROM (SELECT CAST(s AS INT) AS a FROM t)", "CAST(s AS INT)"),
    ],
)
def test_a_call_that_can_fail_knows_where_it_stands(planner: Planner, sql: str, blamed: str) -> None:
    spans = {e.span for e in _calls(planner.bind(sql)) if e.function in ("CAST", "/", "%")}
    assert blamed in {sql[s.start : s.end] for s in spans if s is not None}


def _calls(node: RelationalNode) -> Iterator[Call]:
    conditions = (node.condition,) if isinstance(node, Filter) else ()
    for root in (*conditions, *(node.expressions if isinstance(node, Project) else ())):
        yield from (e for e in walk(root) if isinstance(e, Call))
    for input in node.inputs:
        yield from _calls(input)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT TIMESTAMP '2262-04-12 00:00:00.123456789' FROM t",
            r"TIMESTAMP\(9\) holds the years 1678 to 2261",
        ),
        (
            "SELECT CAST(TIMESTAMP '9999-12-31 00:00:00' AS TIMESTAMP(9)) FROM t",
            "holds the years 1678 to 2261",
        ),
        ("SELECT INTERVAL '9999999999999' DAY FROM t", "is too long"),
        ("SELECT INTERVAL '999999999' YEAR FROM t", "is too long"),
    ],
)
def test_times_that_no_column_holds_are_refused(planner: Planner, sql: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        planner.bind(sql)


def test_text_beside_a_time_may_be_none(planner: Planner) -> None:
    assert (
        resolved(planner, "rt IN (UPPER('x'))", "e")
        == "IN($7, TRY_CAST(UPPER('x') AS TIMESTAMP(3))) : BOOLEAN"
    )
    assert resolved(planner, "NOT ('2024' = DATE '2024-01-01')", "e").endswith(": BOOLEAN")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("rt IN ('x')", "'x' is no TIMESTAMP(3)"),
        ("DATE '2024-01-01' < '2024-13-01'", "'2024-13-01' is no DATE"),
        ("'25:00' = TIME '10:00:00'", "'25:00' is no TIME(0)"),
        ("CAST(rt AS TIMESTAMP(9)) < '9999-12-31'", "'9999-12-31' is no TIMESTAMP(9)"),
    ],
)
def test_a_literal_beside_a_time_that_is_none_is_an_error(planner: Planner, sql: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        resolved(planner, sql, "e")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DATE '2024-01-01' + INTERVAL '1' HOUR", "TIMESTAMP(6) NOT NULL"),
        ("2 * INTERVAL '90' MINUTE + DATE '2024-01-01'", "TIMESTAMP(6) NOT NULL"),
        ("DATE '2024-01-01' - INTERVAL '2' DAY", "DATE NOT NULL"),
        ("DATE '2024-01-01' + INTERVAL '2' MONTH", "DATE NOT NULL"),
    ],
)
def test_a_date_moved_by_a_part_of_a_day_is_a_timestamp(planner: Planner, sql: str, expected: str) -> None:
    assert resolved(planner, sql, "e").endswith(f" : {expected}")


def test_a_literal_beyond_nanoseconds_is_compared_as_the_first_moment_beyond(planner: Planner) -> None:
    text = resolved(planner, "CAST(rt AS TIMESTAMP(9)) < DATE '9999-12-31'", "e")
    assert text == "(CAST($7 AS TIMESTAMP(9)) < 9214646400000000000) : BOOLEAN"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("TIMESTAMPADD(DAY, 1, DATE '2024-01-31')", "DATE NOT NULL"),
        ("TIMESTAMPADD(QUARTER, 1, DATE '2024-01-31')", "DATE NOT NULL"),
        ("TIMESTAMPADD(MINUTE, 1, DATE '2024-01-31')", "TIMESTAMP(6) NOT NULL"),
        ("TIMESTAMPADD(MINUTE, 1, rt)", "TIMESTAMP(3)"),
        ("TO_TIMESTAMP_LTZ(1, 9)", "TIMESTAMP_LTZ(9)"),
        ("CAST(421 AS VARCHAR)", "STRING NOT NULL"),
        ("CAST(x'01' AS VARBINARY)", "BYTES NOT NULL"),
    ],
)
def test_literal_arguments_decide_on_types(planner: Planner, sql: str, expected: str) -> None:
    assert resolved(planner, sql, "e").endswith(f" : {expected}")
