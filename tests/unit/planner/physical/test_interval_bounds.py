"""Conditions on two times as bounds of their distance."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.planner.physical.join_condition import find_interval
from sqlstream.planner.physical.node import Traits
from sqlstream.types import BOOLEAN, INTERVAL_DAY_TIME, INTERVAL_YEAR_MONTH, PROCTIME, LogicalType

TS, FINE, LTZ = sql.timestamp(3), sql.timestamp(6), sql.timestamp_ltz(3)
LEFT = (sql.INT, TS)
"""The left side has two columns, and the right one's time is column 1 of its own."""

TIMES = Traits(times=frozenset({1}))
L, R = InputRef(1, TS), InputRef(3, TS)


def ms(value: int) -> Literal:
    return Literal(value, INTERVAL_DAY_TIME)


def plus(time: Expression, value: int) -> Call:
    return Call("+", (time, ms(value)), time.type)


def compare(function: str, left: Expression, right: Expression) -> Call:
    return Call(function, (left, right), BOOLEAN)


def bounds(
    *parts: Expression, left: Traits = TIMES, right: Traits = TIMES, types: tuple[LogicalType, ...] = LEFT
) -> tuple[int, int] | None:
    found = find_interval(parts, left, right, types)
    if found is None:
        return None
    assert (found.left_time, found.right_time) == (1, 1)
    return found.lower_ms, found.upper_ms


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([compare(">=", L, plus(R, -5)), compare("<=", L, plus(R, 7))], (-5, 7)),
        ([compare(">", L, plus(R, -5)), compare("<", L, plus(R, 7))], (-4, 6)),
        ([compare("<=", plus(R, -5), L), compare(">=", plus(R, 7), L)], (-5, 7)),
        ([compare("<", plus(R, -5), L), compare(">", plus(R, 7), L)], (-4, 6)),
        ([compare("=", L, plus(R, 3))], (3, 3)),
        ([compare("=", R, plus(L, 3))], (-3, -3)),
        ([compare(">=", plus(L, 2), R), compare("<=", L, Call("-", (R, ms(1)), TS))], (-2, -1)),
        ([compare(">=", L, Call("+", (ms(4), R), TS)), compare("<=", L, plus(plus(R, 4), 5))], (4, 9)),
        # The tightest bounds count.
        ([compare(">=", L, R), compare(">=", L, plus(R, 2)), compare("<=", L, plus(R, 9)), compare("<=", L, plus(R, 8))], (2, 8)),
        ([compare(">=", L, R)], None),
        ([compare("<=", L, R)], None),
        ([compare("<>", L, R)], None),
        ([compare("=", L, L)], None),
        ([compare("=", R, R)], None),
        ([compare("=", L, Call("-", (ms(1), R), TS))], None),
        ([compare("=", L, Call("+", (R, Literal(1, INTERVAL_YEAR_MONTH)), TS))], None),
        ([compare("=", L, Call("+", (R, InputRef(0, INTERVAL_DAY_TIME)), TS))], None),
        ([compare("=", L, Call("+", (R, Literal(None, INTERVAL_DAY_TIME)), TS))], None),
        ([compare("=", L, Call("CAST", (R,), sql.timestamp(6)))], (0, 0)),
        ([compare("=", L, Call("CAST", (R,), sql.timestamp(2)))], None),
        ([compare("=", L, Call("CAST", (R,), sql.DATE))], None),
        ([compare("=", L, InputRef(3, LTZ))], None),
    ],
)  # fmt: skip
def test_comparisons_bound_the_distance(parts: list[Expression], expected: tuple[int, int] | None) -> None:
    assert bounds(*parts) == expected


def test_what_bounds_nothing_remains_a_condition() -> None:
    other = compare(">", InputRef(0, sql.INT), InputRef(2, sql.INT))
    one_sided = compare(">=", L, R)
    found = find_interval((other, compare("=", L, R), one_sided), TIMES, TIMES, LEFT)
    assert found is not None
    assert (found.condition, found.is_event_time) == ((other,), True)


def test_finer_times_are_compared_in_milliseconds_and_checked_again() -> None:
    fine = (
        compare(">", InputRef(1, FINE), InputRef(3, TS)),
        compare("<", InputRef(1, FINE), plus(InputRef(3, TS), 5)),
    )
    found = find_interval(fine, TIMES, TIMES, (sql.INT, FINE))
    assert found is not None
    assert (found.lower_ms, found.upper_ms, found.condition) == (-1, 6, fine)


def test_both_columns_are_times_of_their_sides_or_both_read_the_clock() -> None:
    equal = compare("=", L, R)
    assert bounds(equal, left=Traits()) is None
    assert bounds(equal, right=Traits()) is None
    clocks = compare("=", InputRef(1, PROCTIME), InputRef(3, PROCTIME))
    found = find_interval((clocks,), Traits(), Traits(), (sql.INT, PROCTIME))
    assert found is not None
    assert not found.is_event_time
    mixed = compare("=", InputRef(1, PROCTIME), InputRef(3, LTZ))
    assert find_interval((mixed,), Traits(), Traits(), (sql.INT, PROCTIME)) is None
