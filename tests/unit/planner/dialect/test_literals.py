"""Date, time and interval literals: types and values."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.planner.dialect.nodes import DateTimeLiteral, IntervalLiteral
from sqlstream.planner.dialect.parser import datetime_value, interval_value, parse_expression

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("INTERVAL '10' MINUTE", 10 * MINUTE),
        ("INTERVAL '10' minutes", 10 * MINUTE),
        ("INTERVAL '1.5' SECOND(3)", 1500),
        ("INTERVAL '10' SECOND(5, 3)", 10 * SECOND),
        ("INTERVAL -'2' DAY", -2 * DAY),
        ("INTERVAL '-2' DAY", -2 * DAY),
        ("INTERVAL -'-2' DAY", 2 * DAY),
        ("INTERVAL '1' WEEK", 7 * DAY),
        ("INTERVAL '1 10' DAY TO HOUR", DAY + 10 * HOUR),
        ("INTERVAL '1 10:00:00.004' DAY TO SECOND", DAY + 10 * HOUR + 4),
        ("INTERVAL '36:30' HOUR TO MINUTE", 36 * HOUR + 30 * MINUTE),
        ("INTERVAL '90:15' MINUTE TO SECOND", 90 * MINUTE + 15 * SECOND),
    ],
)
def test_a_day_time_interval_is_milliseconds(written: str, value: int) -> None:
    node = parse_expression(written)
    assert isinstance(node, IntervalLiteral)
    kind, found = interval_value(node)
    assert (str(kind), found) == ("INTERVAL DAY TO SECOND(3) NOT NULL", value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("INTERVAL '2-3' YEAR TO MONTH", 27),
        ("INTERVAL '-2-3' YEAR TO MONTH", -27),
        ("INTERVAL '2' YEARS", 24),
        ("INTERVAL '2' QUARTER", 6),
    ],
)
def test_a_year_month_interval_is_months(written: str, value: int) -> None:
    node = parse_expression(written)
    assert isinstance(node, IntervalLiteral)
    kind, found = interval_value(node)
    assert (str(kind), found) == ("INTERVAL YEAR TO MONTH NOT NULL", value)


@pytest.mark.parametrize(
    ("written", "kind", "value"),
    [
        ("DATE '1970-01-02'", "DATE NOT NULL", 1),
        ("DATE '1969-12-31'", "DATE NOT NULL", -1),
        ("TIME '00:00:01.5'", "TIME(1) NOT NULL", 1500),
        ("TIMESTAMP '1970-01-01 00:00:01'", "TIMESTAMP(0) NOT NULL", 1_000_000_000),
        ("TIMESTAMP '1969-12-31 23:59:59.999999999'", "TIMESTAMP(9) NOT NULL", -1),
        ("timestamp '2020-02-29T12:00:00.123'", "TIMESTAMP(3) NOT NULL", 1_582_977_600_123_000_000),
    ],
)
def test_a_datetime_literal_has_the_precision_of_its_digits(written: str, kind: str, value: int) -> None:
    node = parse_expression(written)
    assert isinstance(node, DateTimeLiteral)
    found_kind, found = datetime_value(node)
    assert (str(found_kind), found) == (kind, value)


@pytest.mark.parametrize(
    "written",
    [
        "INTERVAL '1' SECOND TO DAY",
        "INTERVAL '1.5' DAY",
        "INTERVAL '1 25' DAY TO HOUR",
        "INTERVAL '' DAY",
        "DATE '2021-02-29'",
        "TIME '25:00:00'",
        "TIMESTAMP '2020-01-01'",
        "TIMESTAMP '2020-01-01 00:00:60'",
    ],
)
def test_a_malformed_literal_is_refused_with_a_position(written: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_expression(written)
    assert raised.value.span is not None


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("INTERVAL 'x' DAY", "illegal interval literal 'x' for DAY", "write it such as INTERVAL '10' DAY"),
        (
            "INTERVAL 'x' YEAR TO MONTH",
            "illegal interval literal 'x' for YEAR TO MONTH",
            "write it such as INTERVAL '2-3' YEAR TO MONTH",
        ),
        (
            "INTERVAL 'x' DAY TO SECOND",
            "illegal interval literal 'x' for DAY TO SECOND",
            "write it such as INTERVAL '1 10:30:15' DAY TO SECOND",
        ),
        (
            "INTERVAL 'x' DAY TO HOUR",
            "illegal interval literal 'x' for DAY TO HOUR",
            "write it such as INTERVAL '1 10' DAY TO HOUR",
        ),
        (
            "INTERVAL 'x' MINUTE TO SECOND",
            "illegal interval literal 'x' for MINUTE TO SECOND",
            "write it such as INTERVAL '30:15' MINUTE TO SECOND",
        ),
        ("INTERVAL '2147483648' MONTH", "interval '2147483648' MONTH is too long", "write fewer digits"),
        (
            "INTERVAL '9223372036854776' SECOND",
            "interval '9223372036854776' SECOND is too long",
            "write fewer digits",
        ),
    ],
)
def test_the_error_of_an_interval_shows_its_form(written: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_expression(written)
    assert (raised.value.code, raised.value.message, raised.value.hint) == ("SS1001", message, hint)


def test_the_longest_intervals_are_read() -> None:
    for written, value in (
        ("INTERVAL '2147483647' MONTH", 2**31 - 1),
        ("INTERVAL -'2147483647' MONTH", -(2**31) + 1),
        ("INTERVAL '9223372036854775.807' SECOND", 2**63 - 1),
    ):
        node = parse_expression(written)
        assert isinstance(node, IntervalLiteral)
        assert interval_value(node)[1] == value
