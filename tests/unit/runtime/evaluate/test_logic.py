"""Comparisons, three-valued logic and the functions that choose."""

from __future__ import annotations

from decimal import Decimal

import pytest
from expression_harness import accepts, call, col, evaluate, lit

from sqlstream import types as sql
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING

A, B = col(0, BOOLEAN), col(1, BOOLEAN)
THREE = (True, False, None)


def kleene_and(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def test_and_or_not_are_three_valued() -> None:
    rows = [(a, b) for a in THREE for b in THREE]
    assert evaluate(call("AND", A, B), rows) == [kleene_and(a, b) for a, b in rows]
    negated = [kleene_and(None if a is None else not a, None if b is None else not b) for a, b in rows]
    assert evaluate(call("OR", A, B), rows) == [None if v is None else not v for v in negated]
    assert evaluate(call("NOT", A), [(v,) for v in THREE]) == [False, True, None]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("IS TRUE", [True, False, False]),
        ("IS NOT TRUE", [False, True, True]),
        ("IS FALSE", [False, True, False]),
        ("IS NOT FALSE", [True, False, True]),
        ("IS UNKNOWN", [False, False, True]),
        ("IS NOT UNKNOWN", [True, True, False]),
    ],
)
def test_truth_tests_never_give_null(name: str, expected: list[bool]) -> None:
    assert evaluate(call(name, A), [(v,) for v in THREE]) == expected
    assert not call(name, A).type.nullable


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("=", [True, False, None]),
        ("<>", [False, True, None]),
        ("<", [False, True, None]),
        ("<=", [True, True, None]),
        (">", [False, False, None]),
        (">=", [True, False, None]),
        ("IS DISTINCT FROM", [False, True, True]),
        ("IS NOT DISTINCT FROM", [True, False, False]),
    ],
)
def test_comparisons_with_null_are_unknown(symbol: str, expected: list[bool | None]) -> None:
    assert evaluate(call(symbol, col(0, INT), col(1, BIGINT)), [(1, 1), (1, 2), (None, 2)]) == expected


def test_null_is_not_distinct_from_null() -> None:
    assert evaluate(call("IS NOT DISTINCT FROM", col(0, INT), col(1, INT)), [(None, None)]) == [True]


def test_text_beside_a_timestamp_is_read_as_one() -> None:
    later = call(">", col(0, sql.timestamp(3)), lit("1970-01-01 00:00:01", STRING))
    assert evaluate(later, [(999,), (1_001,)]) == [False, True]


def test_decimals_compare_with_integers_and_doubles() -> None:
    assert evaluate(call("=", col(0, sql.decimal(5, 2)), lit(2, INT)), [(Decimal("2.00"),)]) == [True]
    assert evaluate(call("<", col(0, sql.decimal(5, 2)), col(1, DOUBLE)), [(Decimal("2.00"), 2.5)]) == [True]


def test_what_does_not_compare_is_not_accepted() -> None:
    assert not accepts("=", STRING, INT)
    assert not accepts("<", sql.timestamp(3), sql.timestamp_ltz(3))
    assert not accepts("<", sql.array(INT), sql.array(INT))
    assert not accepts("=", sql.VARIANT, sql.VARIANT)


def test_arrays_and_rows_are_equal_where_their_parts_are() -> None:
    lists = sql.array(INT)
    rows = [([1, None], [1, None]), ([1], [2]), (None, [1]), ([], [])]
    pair = (col(0, lists), col(1, lists))
    assert evaluate(call("=", *pair), rows) == [True, False, None, True]
    assert evaluate(call("<>", *pair), rows) == [False, True, None, False]
    assert evaluate(call("IS NOT DISTINCT FROM", *pair), rows) == [True, False, False, True]
    assert evaluate(call("IN", *pair, col(1, lists)), rows) == [True, False, None, True]
    whole = sql.row(("x", DOUBLE), ("m", sql.map_of(STRING, INT)))
    values = [({"x": 0.0, "m": [("a", 1), ("b", 2)]}, {"x": -0.0, "m": [("b", 2), ("a", 1)]})]
    assert evaluate(call("=", col(0, whole), col(1, whole)), values) == [True]


def test_in_is_unknown_where_a_null_could_be_the_match() -> None:
    rows = [(1,), (3,), (None,)]
    assert evaluate(call("IN", col(0, INT), lit(1, INT), lit(2, INT)), rows) == [True, False, None]
    assert evaluate(call("IN", col(0, INT), lit(1, INT), lit(None, INT)), rows) == [True, None, None]
    assert evaluate(call("IN", col(0, BIGINT), lit(1, INT), lit(2, INT)), rows) == [True, False, None]
    assert evaluate(call("IN", col(0, INT), lit(9, INT), col(1, INT)), [(1, 1), (2, 1)]) == [True, False]


def test_in_finds_the_numbers_that_are_equal() -> None:
    found = call("IN", col(0, DOUBLE), lit(0.0, DOUBLE), lit(1.0, DOUBLE))
    assert evaluate(found, [(-0.0,), (1.0,), (2.0,), (None,)]) == [True, True, False, None]


def test_case_takes_the_first_true_branch() -> None:
    size = call(
        "CASE",
        call("<", col(0, INT), lit(10, INT)),
        lit("low", sql.char(3)),
        call("<", col(0, INT), lit(100, INT)),
        lit("mid", sql.char(3)),
        lit("high", sql.char(4)),
    )
    assert str(size.type) == "VARCHAR(4)"
    assert evaluate(size, [(5,), (50,), (500,), (None,)]) == ["low", "mid", "high", "high"]


def test_if_coalesce_nullif_and_extremes() -> None:
    a, b = col(0, INT), col(1, BIGINT)
    rows = [(1, 2), (None, 2), (3, None), (4, 4)]
    assert evaluate(call("IF", call("=", a, b), a, lit(0, INT)), rows) == [0, 0, 0, 4]
    assert evaluate(call("COALESCE", a, b), rows) == [1, 2, 3, 4]
    assert evaluate(call("IFNULL", b, lit(-1, INT)), rows) == [2, 2, -1, 4]
    assert evaluate(call("NULLIF", a, b), rows) == [1, None, 3, None]
    untyped = lit(None, sql.NULL)
    assert evaluate(call("NULLIF", untyped, untyped), [()]) == [None]
    assert evaluate(call("GREATEST", a, b), rows) == [2, None, None, 4]
    assert evaluate(call("LEAST", a, b, lit(2, INT)), rows) == [1, None, None, 2]


def test_coalesce_is_not_null_when_one_argument_is_not() -> None:
    assert not call("COALESCE", col(0, INT), lit(0, INT.not_null())).type.nullable
