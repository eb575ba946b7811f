"""Constant folding."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.planner.relational.nodes import Project
from sqlstream.planner.rules.constant_folding import fold, fold_constants
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TINYINT, LogicalType


def folded(planner: Planner, expression: str) -> Expression:
    node = planner.bind(f"SELECT {expression} FROM t")
    folded_node = fold_constants(node)
    assert isinstance(folded_node, Project)
    return folded_node.expressions[0]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("1 + 2 * 3", "7"),
        ("-5", "-5"),
        ("3 > 2", "TRUE"),
        ("'a' = 'b'", "FALSE"),
        ("TIMESTAMP '2024-01-01 00:00:00' < TIMESTAMP '9999-12-31 00:00:00'", "TRUE"),
        ("1 = 2 AND a > 1", "FALSE"),
        ("1 = 1 AND a > 1", "($0 > 1)"),
        ("1 = 1 OR a > 1", "TRUE"),
        ("a > 1 AND (a > 1 AND b > 2)", "(($0 > 1) AND ($1 > 2))"),
        ("RAND() < 0.5 AND RAND() < 0.5", "((RAND() < 0.5) AND (RAND() < 0.5))"),
        ("NOT (a > 1)", "($0 <= 1)"),
        ("NOT (d > 1.5)", "NOT(($3 > '1.50'))"),
        ("CASE WHEN 1 = 2 THEN 'a' WHEN a = 1 THEN 'b' ELSE 'c' END", "CASE(($0 = 1), 'b', 'c')"),
        ("CASE WHEN 1 = 1 THEN a ELSE 7 END", "$0"),
        ("COALESCE(NULL, a, 3)", "COALESCE($0, 3)"),
        ("NULL IS NULL", "TRUE"),
        ("CAST(7 AS BIGINT)", "7"),
        ("CAST('x' AS STRING)", "'x'"),
    ],
)
def test_what_is_known_is_computed(planner: Planner, sql: str, text: str) -> None:
    assert str(folded(planner, sql)) == text


@pytest.mark.parametrize(
    "sql",
    [
        "2147483647 + 1",
        "1 / 0",
        "CAST('x' AS INT)",
        "CAST(300 AS TINYINT)",
        "RAND() < 2",
        "a + 1",
        "0.1 + 0.2",
    ],
)
def test_what_could_fail_or_round_is_left_to_the_runtime(planner: Planner, sql: str) -> None:
    assert not isinstance(folded(planner, sql), Literal)


@pytest.mark.parametrize(
    "sql", ["1 + 1", "CAST(1 AS BIGINT)", "CASE WHEN 1 = 1 THEN 'ab' ELSE 'c' END", "1 < 2"]
)
def test_the_type_of_a_folded_expression_is_kept(planner: Planner, sql: str) -> None:
    before = planner.bind(f"SELECT {sql} FROM t")
    assert isinstance(before, Project)
    assert folded(planner, sql).type == before.expressions[0].type


def test_an_interval_is_added_to_a_timestamp(planner: Planner) -> None:
    result = folded(planner, "TIMESTAMP '1970-01-01 00:00:00' + INTERVAL '2' SECOND")
    assert isinstance(result, Literal)
    assert result.value == 2_000_000_000


def lit(value: object, t: LogicalType) -> Literal:
    return Literal(value, t.not_null())  # type: ignore[arg-type]


A, P, Q, X = InputRef(0, INT), InputRef(1, BOOLEAN), InputRef(2, BOOLEAN), InputRef(3, DOUBLE)
TIME_3, TIME_9 = sql.timestamp(3), sql.timestamp(9)
SECOND = 1_000_000_000
LAST_NS = 253_402_300_799_999_999_999
"""9999-12-31 23:59:59.999999999"""


def binary(function: str, left: Expression, right: Expression, t: LogicalType) -> Call:
    return Call(function, (left, right), t.not_null())


@pytest.mark.parametrize(
    ("function", "left", "right", "t", "value"),
    [
        ("+", 127, 0, TINYINT, 127),
        ("+", 127, 1, TINYINT, None),
        ("-", -127, 1, TINYINT, -128),
        ("-", -128, 1, TINYINT, None),
        ("+", 32_766, 1, sql.SMALLINT, 32_767),
        ("+", 32_767, 1, sql.SMALLINT, None),
        ("*", 2**30, -2, INT, -(2**31)),
        ("*", 2**30, 2, INT, None),
        ("+", 2**62, 2**62 - 1, BIGINT, 2**63 - 1),
        ("+", 2**62, 2**62, BIGINT, None),
        ("-", 2**62, 2**62 - 1, sql.INTERVAL_DAY_TIME, 1),
        ("+", 2**62, 2**62 - 1, sql.INTERVAL_DAY_TIME, 2**63 - 1),
        ("+", 2**62, 2**62, sql.INTERVAL_DAY_TIME, None),
        ("+", 2**30, 2**30 - 1, sql.INTERVAL_YEAR_MONTH, 2**31 - 1),
        ("+", 2**30, 2**30, sql.INTERVAL_YEAR_MONTH, None),
        ("-", -(2**30), 2**30, sql.INTERVAL_YEAR_MONTH, -(2**31)),
        ("*", 2, 3, sql.INTERVAL_DAY_TIME, None),
        ("/", 6, 3, INT, None),
    ],
)
def test_whole_numbers_and_intervals_are_computed_where_they_do_not_overflow(
    function: str, left: int, right: int, t: LogicalType, value: int | None
) -> None:
    call = binary(function, lit(left, t), lit(right, t), t)
    assert fold(call) == (call if value is None else lit(value, t))


@pytest.mark.parametrize(
    ("function", "moment", "milliseconds", "t", "value"),
    [
        ("+", 5 * SECOND, 1_500, TIME_3, 6_500_000_000),
        ("-", 5 * SECOND, 1_500, TIME_3, 3_500_000_000),
        ("+", 2**63 - 1 - 1_000_000, 1, TIME_3, 2**63 - 1),
        ("+", 2**63 - 1_000_000, 1, TIME_3, None),
        ("-", -(2**63) + 1_000_000, 1, TIME_3, -(2**63)),
        ("-", -(2**63) + 999_999, 1, TIME_3, None),
        ("+", 9_214_646_399_999_999_999 - 1_000_000, 1, TIME_9, 9_214_646_399_999_999_999),
        ("+", 9_214_646_399_999_999_999, 1, TIME_9, None),
        ("-", -9_214_560_000_000_000_000, 1, TIME_9, None),
        ("*", 5, 5, TIME_3, None),
    ],
)
def test_a_timestamp_moves_within_its_range(
    function: str, moment: int, milliseconds: int, t: LogicalType, value: int | None
) -> None:
    call = binary(function, lit(moment, t), lit(milliseconds, sql.INTERVAL_DAY_TIME), t)
    assert fold(call) == (call if value is None else lit(value, t))


@pytest.mark.parametrize(
    ("function", "values"),
    [("=", "FTF"), ("<>", "TFT"), ("<", "TFF"), ("<=", "TTF"), (">", "FFT"), (">=", "FTT")],
)
@pytest.mark.parametrize(
    ("left", "right", "t"),
    [
        ((1, 2, 3), 2, INT),
        ((0.5, 1.5, 2.5), 1.5, DOUBLE),
        (("a", "b", "c"), "b", STRING),
        ((1, 2, 3), 2, sql.DATE),
        ((1, 2, 3), 2, sql.time(3)),
        ((2**63 - 1, str(2**63), str(LAST_NS)), str(2**63), TIME_3),
        ((1, 2, 3), 2, sql.INTERVAL_DAY_TIME),
    ],
)
def test_constants_are_compared(
    function: str, values: str, left: tuple[object, ...], right: object, t: LogicalType
) -> None:
    for one, truth in zip(left, values, strict=True):
        assert fold(binary(function, lit(one, t), lit(right, t), BOOLEAN)) == lit(truth == "T", BOOLEAN)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lit("a", STRING), lit(1, INT)),
        (lit("1.5", sql.decimal(2, 1)), lit("1.50", sql.decimal(3, 2))),
        (lit("\U0001f600", STRING), lit("\uffff", STRING)),
        (lit("ab", sql.BYTES), lit("cd", sql.BYTES)),
    ],
)
def test_what_engines_may_order_otherwise_is_left_to_the_runtime(left: Literal, right: Literal) -> None:
    call = binary("<", left, right, BOOLEAN)
    assert fold(call) is call


def test_numbers_and_texts_of_two_types_are_compared() -> None:
    assert fold(binary("<", lit(1, INT), lit(2, BIGINT), BOOLEAN)) == lit(True, BOOLEAN)
    assert fold(binary("=", lit("a", sql.char(1)), lit("a", STRING), BOOLEAN)) == lit(True, BOOLEAN)
    assert fold(binary("<", lit("\uffff", STRING), lit("a", STRING), BOOLEAN)) == lit(False, BOOLEAN)


@pytest.mark.parametrize("function", ["=", "<", "+", "*"])
def test_null_makes_null(function: str) -> None:
    null = Literal(None, INT)
    for args in ((null, lit(1, INT)), (lit(1, INT), null), (null, null)):
        assert fold(Call(function, args, INT.not_null())) == Literal(None, INT)
    kept = Call("/", (null, lit(1, INT)), INT)
    assert fold(kept) is kept


NULL, TRUE, FALSE = Literal(None, BOOLEAN), lit(True, BOOLEAN), lit(False, BOOLEAN)


@pytest.mark.parametrize(
    ("function", "args", "folded"),
    [
        ("AND", (P, TRUE), P),
        ("AND", (P, FALSE), Literal(False, BOOLEAN)),
        ("AND", (TRUE, TRUE), Literal(True, BOOLEAN)),
        ("AND", (P, P), P),
        ("AND", (P, TRUE, Q), Call("AND", (P, Q), BOOLEAN)),
        ("AND", (Call("AND", (P, Q), BOOLEAN), P), Call("AND", (P, Q), BOOLEAN)),
        ("AND", (P, NULL), Call("AND", (P, NULL), BOOLEAN)),
        ("OR", (P, FALSE), P),
        ("OR", (P, TRUE), Literal(True, BOOLEAN)),
        ("OR", (FALSE, FALSE), Literal(False, BOOLEAN)),
        ("OR", (P, FALSE, Q), Call("OR", (P, Q), BOOLEAN)),
        ("OR", (Call("AND", (P, Q), BOOLEAN), P), Call("OR", (Call("AND", (P, Q), BOOLEAN), P), BOOLEAN)),
        ("NOT", (TRUE,), Literal(False, BOOLEAN)),
        ("NOT", (FALSE,), Literal(True, BOOLEAN)),
        ("NOT", (NULL,), NULL),
        ("NOT", (P,), Call("NOT", (P,), BOOLEAN)),
        ("NOT", (Call("NOT", (P,), BOOLEAN),), P),
        ("NOT", (Call("=", (A, A), BOOLEAN),), Call("<>", (A, A), BOOLEAN)),
        ("NOT", (Call("<", (A, A), BOOLEAN),), Call(">=", (A, A), BOOLEAN)),
        ("NOT", (Call(">=", (A, A), BOOLEAN),), Call("<", (A, A), BOOLEAN)),
        # NaN is neither less nor greater.
        ("NOT", (Call("<", (X, X), BOOLEAN),), Call("NOT", (Call("<", (X, X), BOOLEAN),), BOOLEAN)),
        ("NOT", (Call("<", (A, X), BOOLEAN),), Call("NOT", (Call("<", (A, X), BOOLEAN),), BOOLEAN)),
        ("IS NULL", (NULL,), Literal(True, BOOLEAN)),
        ("IS NULL", (FALSE,), Literal(False, BOOLEAN)),
        ("IS NULL", (P,), Call("IS NULL", (P,), BOOLEAN)),
        ("IS NOT NULL", (NULL,), Literal(False, BOOLEAN)),
        ("IS NOT NULL", (FALSE,), Literal(True, BOOLEAN)),
        *(
            (f"IS {negation}{word}", (literal,), Literal((literal.value is (word == "TRUE")) != bool(negation), BOOLEAN))
            for negation in ("", "NOT ")
            for word in ("TRUE", "FALSE")
            for literal in (TRUE, FALSE, NULL)
        ),
        ("IS TRUE", (P,), Call("IS TRUE", (P,), BOOLEAN)),
    ],
)  # fmt: skip
def test_conditions_are_simplified(function: str, args: tuple[Expression, ...], folded: Expression) -> None:
    assert fold(Call(function, args, BOOLEAN)) == folded


ONE, TWO = lit(1, INT), lit(2, INT)


@pytest.mark.parametrize(
    ("function", "args", "folded"),
    [
        ("CASE", (FALSE, ONE, A), A),
        ("CASE", (NULL, ONE, A), A),
        ("CASE", (TRUE, ONE, A), Literal(1, INT)),
        ("CASE", (P, ONE, TRUE, TWO, A), Call("CASE", (P, ONE, TWO), INT)),
        ("CASE", (FALSE, ONE, P, TWO, A), Call("CASE", (P, TWO, A), INT)),
        ("CASE", (P, ONE, Q, TWO, A), Call("CASE", (P, ONE, Q, TWO, A), INT)),
        ("CASE", (TRUE, Literal(None, INT), A), Literal(None, INT)),
        ("CASE", (TRUE, InputRef(9, BIGINT), A), Call("CASE", (TRUE, InputRef(9, BIGINT), A), INT)),
        ("COALESCE", (Literal(None, INT), A), A),
        ("COALESCE", (Literal(None, INT), Literal(None, INT)), Literal(None, INT)),
        ("COALESCE", (A, ONE, TWO), Call("COALESCE", (A, ONE), INT)),
        ("COALESCE", (A, InputRef(9, INT)), Call("COALESCE", (A, InputRef(9, INT)), INT)),
        ("COALESCE", (ONE, A), Literal(1, INT)),
    ],
)
def test_choices_between_values_are_simplified(
    function: str, args: tuple[Expression, ...], folded: Expression
) -> None:
    assert fold(Call(function, args, INT)) == folded


@pytest.mark.parametrize(
    ("value", "source", "target", "folded"),
    [
        (127, INT, TINYINT, 127),
        (128, INT, TINYINT, None),
        (-128, INT, TINYINT, -128),
        (-129, INT, TINYINT, None),
        (2**53, BIGINT, DOUBLE, float(2**53)),
        (-(2**53), BIGINT, DOUBLE, float(-(2**53))),
        (2**53 + 1, BIGINT, DOUBLE, None),
        (123, INT, sql.varchar(3), "123"),
        (1234, INT, sql.varchar(3), None),
        (123, INT, sql.char(3), None),
        (123, INT, sql.decimal(5, 0), None),
        ("abc", sql.char(3), sql.varchar(3), "abc"),
        ("abcd", sql.char(4), sql.varchar(3), None),
        ("abc", sql.char(3), sql.char(3), None),
        ("12", STRING, INT, None),
        (True, BOOLEAN, INT, None),
        ("ab", sql.BYTES, STRING, None),
        (0.5, DOUBLE, INT, None),
        (5, sql.DATE, STRING, None),
    ],
)
def test_a_cast_that_is_exact_is_made(
    value: object, source: LogicalType, target: LogicalType, folded: object
) -> None:
    call = Call("CAST", (lit(value, source),), target.not_null())
    assert fold(call) == (call if folded is None else lit(folded, target))


def test_null_may_be_cast_to_everything_and_a_column_is_not_cast() -> None:
    assert fold(Call("CAST", (Literal(None, sql.NULL),), INT.not_null())) == Literal(None, INT)
    call = Call("CAST", (A,), BIGINT)
    assert fold(call) is call


def test_a_join_condition_is_folded_too(planner: Planner) -> None:
    node = planner.bind("SELECT t.a FROM t JOIN u ON t.a = u.a AND 1 = 1")
    assert isinstance(node, Project)
    folded = fold_constants(node.input)
    assert str(folded.condition) == "($0 = $4)"  # type: ignore[attr-defined]
    assert fold_constants(folded) is folded
