"""Which conditions a database checks while it reads, and how they stand in its SQL."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.runtime.connectors.sql_filters import quote, text, where

NAMES = ("n", 'a "b"', "o", "y", "d", "x", "s2")
COLUMNS = [quote(name) for name in NAMES]
N = InputRef(0, sql.BIGINT)
S = InputRef(1, sql.STRING)
O = InputRef(2, sql.BOOLEAN)  # noqa: E741 (one letter a column)
Y = InputRef(3, sql.DATE)
D = InputRef(4, sql.decimal(10, 2))
X = InputRef(5, sql.DOUBLE)
C = InputRef(6, sql.char(3))


def is_(function: str, *args: Expression) -> Call:
    return Call(function, args, sql.BOOLEAN)


def number(value: int) -> Literal:
    return Literal(value, sql.BIGINT)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (O, '"o"'),
        (N, None),
        (Literal(True, sql.BOOLEAN), None),
        (is_("=", N, number(-1)), '("n" = (-1))'),
        (is_("<>", N, N), '("n" <> "n")'),
        (is_("<", number(3), N), '((3) < "n")'),
        (is_("<=", D, Literal("1.50", sql.decimal(10, 2))), '("d" <= (1.50))'),
        (is_(">", Y, Literal(19_000, sql.DATE)), """("y" > (DATE '1970-01-01' + 19000))"""),
        (is_(">=", Y, Literal(-1, sql.DATE)), """("y" >= (DATE '1970-01-01' + -1))"""),
        (is_("=", S, Literal("it's", sql.STRING)), '''("a ""b""" = 'it''s')'''),
        (is_("<>", C, Literal("abc", sql.char(3))), """("s2" <> 'abc')"""),
        (is_("<", S, Literal("a", sql.STRING)), None),
        (is_(">=", C, Literal("a", sql.char(1))), None),
        (is_("=", X, Literal(0.5, sql.DOUBLE)), None),
        (is_("=", O, Literal(True, sql.BOOLEAN)), None),
        (is_("=", N, Literal(None, sql.BIGINT)), None),
        (is_("=", number(1), number(1)), None),
        (is_("=", N, Call("+", (N, number(1)), sql.BIGINT)), None),
        (is_("IS NULL", S), '"a ""b""" IS NULL'),
        (is_("IS NOT NULL", X), '"x" IS NOT NULL'),
        (is_("IS NULL", Call("+", (N, N), sql.BIGINT)), None),
        (is_("AND", O, is_("=", N, number(1))), '("o" AND ("n" = (1)))'),
        (is_("OR", O, is_("IS NULL", N), O), '("o" OR "n" IS NULL OR "o")'),
        (is_("AND", O, is_("=", X, X)), None),
        (is_("OR", is_("LIKE", S, S), O), None),
        (is_("NOT", O), None),
        (is_("IN", N, number(1)), None),
    ],
    ids=str,
)
def test_a_condition_is_the_databases_where_both_decide_alike(
    condition: Expression, expected: str | None
) -> None:
    assert where([condition], COLUMNS) == ("" if expected is None else f" WHERE {expected}")


def test_what_the_database_cannot_check_is_left_out_and_the_rest_is_joined() -> None:
    conditions = [O, is_("=", X, X), is_("=", N, number(1))]
    assert where(conditions, COLUMNS) == ' WHERE "o" AND ("n" = (1))'
    assert where([], COLUMNS) == ""


def test_a_column_that_the_database_compares_in_another_way_is_left_out() -> None:
    assert (
        where([is_("=", N, number(1)), is_("IS NULL", S)], [None, *COLUMNS[1:]]) == ' WHERE "a ""b""" IS NULL'
    )


def test_names_and_texts_are_quoted() -> None:
    assert quote('a"b') == '"a""b"'
    assert text("a'b") == "'a''b'"
