"""Points in time stay within the range of their type, wherever they come from."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from expression_harness import call, cast, col, evaluate, lit, symbol

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Literal
from sqlstream.runtime.evaluate import EvaluationContext, evaluate_literal
from sqlstream.times import DATE_MAX, DATE_MIN, timestamp_bounds
from sqlstream.types import BIGINT, DATE, INT, STRING

EPOCH = datetime.date(1970, 1, 1)
DAY = 86_400_000
TS = sql.timestamp(3)
FIRST, LAST = timestamp_bounds("ms")
DAY_TIME, YEAR_MONTH = sql.INTERVAL_DAY_TIME, sql.INTERVAL_YEAR_MONTH


def test_the_range_is_the_years_1_to_9999_and_for_nanoseconds_1678_to_2261() -> None:
    assert (datetime.date.min - EPOCH).days == DATE_MIN
    assert (datetime.date.max - EPOCH).days == DATE_MAX
    assert (FIRST, LAST) == (DATE_MIN * DAY, (DATE_MAX + 1) * DAY - 1)
    low, high = timestamp_bounds("ns")
    assert low == (datetime.date(1678, 1, 1) - EPOCH).days * DAY * 10**6
    assert high == ((datetime.date(2262, 1, 1) - EPOCH).days * DAY * 10**6) - 1


BEYOND: list[tuple[Any, tuple[Any, ...]]] = [
    (call("+", col(0, TS), col(1, DAY_TIME)), (LAST, 1)),
    (call("-", col(0, TS), col(1, DAY_TIME)), (FIRST, 1)),
    (call("+", col(0, TS), col(1, DAY_TIME)), (0, 2**63 - 1)),
    (call("+", col(0, sql.timestamp(6)), col(1, DAY_TIME)), (0, 2**62)),
    (call("+", col(0, sql.timestamp(9)), col(1, DAY_TIME)), (0, 300 * 366 * DAY)),
    (call("+", col(0, TS), lit(1, YEAR_MONTH)), (LAST,)),
    (call("TIMESTAMPADD", symbol("NANOSECOND"), lit(5, INT), col(0, DATE)), (DATE_MAX,)),
    (call("CEIL", col(0, sql.timestamp(9)), symbol("CENTURY")), (timestamp_bounds("ns")[1],)),
    (call("FLOOR", col(0, sql.timestamp(9)), symbol("MILLENNIUM")), (timestamp_bounds("ns")[0],)),
    (call("+", col(0, TS), col(1, YEAR_MONTH)), (0, 2**31 - 1)),
    (call("+", col(0, DATE), lit(DAY, DAY_TIME)), (DATE_MAX,)),
    (call("-", col(0, DATE), col(1, DAY_TIME)), (0, 2**63 - 1)),
    (call("+", col(0, DATE), col(1, YEAR_MONTH)), (0, -(2**31))),
    (call("TIMESTAMPADD", symbol("SECOND"), col(0, INT), col(1, TS)), (1, LAST)),
    (call("TIMESTAMPADD", symbol("WEEK"), col(0, BIGINT), col(1, TS)), (2**62, 0)),
    (call("TIMESTAMPADD", symbol("YEAR"), col(0, BIGINT), col(1, DATE)), (2**62, 0)),
    (call("CEIL", col(0, TS), symbol("YEAR")), (LAST,)),
    (call("FLOOR", col(0, TS), symbol("WEEK")), (FIRST,)),
    (call("CEIL", col(0, sql.time(3)), symbol("HOUR")), (DAY - 1,)),
    (cast(col(0, TS), sql.timestamp(9)), (LAST,)),
    (cast(col(0, DATE), sql.timestamp(9)), (DATE_MAX,)),
    (cast(col(0, STRING), TS), ("0000-12-31",)),
    (cast(col(0, STRING), DATE), ("0000-12-31",)),
    (cast(col(0, STRING), sql.timestamp(9)), ("2300-01-01",)),
    (call("*", col(0, YEAR_MONTH), col(1, INT)), (2**30, 2)),
    (call("+", col(0, DAY_TIME), col(1, DAY_TIME)), (2**63 - 1, 1)),
    (call("NEGATE", col(0, DAY_TIME)), (-(2**63),)),
]


@pytest.mark.parametrize(("expression", "row"), BEYOND)
def test_what_would_lie_beyond_the_range_is_an_error(expression: Any, row: tuple[Any, ...]) -> None:
    with pytest.raises(UserError) as error:
        evaluate(expression, [row])
    assert error.value.code == "SS5102"
    assert evaluate(expression, [tuple(None for _ in row)]) == [None]


def test_a_sum_of_large_parts_that_stays_within_is_exact() -> None:
    assert evaluate(call("+", col(0, TS), col(1, DAY_TIME)), [(FIRST, LAST - FIRST), (LAST, 0)]) == [LAST] * 2
    low, high = timestamp_bounds("ns")
    moved = call("+", col(0, sql.timestamp(9)), col(1, DAY_TIME))
    rows = [(low + 7, 400 * 365 * DAY), (high, -(400 * 365 * DAY)), (None, 2**63 - 1)]
    assert evaluate(moved, rows) == [low + 7 + 400 * 365 * DAY * 10**6, high - 400 * 365 * DAY * 10**6, None]


TRIED: list[tuple[Any, tuple[Any, ...]]] = [
    (cast(col(0, TS), sql.timestamp(9), is_try=True), (LAST,)),
    (cast(col(0, STRING), TS, is_try=True), ("0000-12-31",)),
    (cast(col(0, BIGINT), YEAR_MONTH, is_try=True), (2**31,)),
    (call("TO_TIMESTAMP", col(0, STRING)), ("0000-01-01 00:00:00",)),
    (call("TO_DATE", col(0, STRING)), ("0000-01-01",)),
    (call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(0, INT.not_null())), (LAST // 1000 + 1,)),
    (call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(3, INT.not_null())), (FIRST - 1,)),
    (call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(9, INT.not_null())), (2**63 - 1,)),
    (call("FROM_UNIXTIME", col(0, BIGINT)), (2**63 - 1,)),
]


@pytest.mark.parametrize(("expression", "row"), TRIED)
def test_try_cast_and_functions_that_read_times_give_null(expression: Any, row: tuple[Any, ...]) -> None:
    assert evaluate(expression, [row]) == [None]


def test_instants_that_the_wall_clock_cannot_show_as_timestamps_are_errors() -> None:
    context = EvaluationContext(time_zone="Etc/GMT-2")
    shown = cast(col(0, sql.timestamp_ltz(3)), TS)
    with pytest.raises(UserError, match="timestamp out of range"):
        evaluate(shown, [(LAST,)], context)
    tried = cast(col(0, sql.timestamp_ltz(3)), TS, is_try=True)
    assert evaluate(tried, [(LAST,), (0,)], context) == [None, 7_200_000]
    day = cast(col(0, sql.timestamp_ltz(3)), DATE, is_try=True)
    assert evaluate(day, [(LAST,)], context) == [None]


def test_literals_beyond_the_range_are_errors() -> None:
    with pytest.raises(UserError, match="timestamp out of range"):
        evaluate_literal(Literal(str((LAST + 1) * 10**6), TS))


def test_a_guard_keeps_times_that_would_leave_the_range_away() -> None:
    moved = call("+", col(0, TS), lit(DAY, DAY_TIME))
    guarded = call("CASE", call("<", col(0, TS), lit(0, TS)), moved, col(0, TS))
    assert evaluate(guarded, [(-1,), (LAST,)]) == [DAY - 1, LAST]
    held = call("AND", call("<", col(0, TS), lit(0, TS)), call(">", moved, lit(0, TS)))
    assert evaluate(held, [(-1,), (LAST,)]) == [True, False]
