"""Parts and periods of points in time, patterns that are columns, CONVERT_TZ, and OVERLAPS."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from expression_harness import call, col, evaluate, lit, symbol
from planner_harness import Planner

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.planner.relational.nodes import Project
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.types import BIGINT, STRING


def part(unit: str, text: str, precision: int = 9) -> Any:
    digits = {3: 1_000_000, 6: 1_000, 9: 1}[precision]
    moment, _, fraction = text.partition(".")
    seconds = int(datetime.datetime.fromisoformat(moment).replace(tzinfo=datetime.UTC).timestamp())
    nanos = seconds * 10**9 + int(fraction.ljust(9, "0") or 0)
    given = col(0, sql.timestamp(precision))
    (found,) = evaluate(call("EXTRACT", symbol(unit), given), [(nanos // digits,)])
    return found


@pytest.mark.parametrize(
    ("unit", "text", "wanted"),
    [
        ("MILLISECOND", "2020-02-29 01:56:59.987654321", 987),
        ("MICROSECOND", "2020-02-29 01:56:59.987654321", 987654),
        ("NANOSECOND", "2020-02-29 01:56:59.987654321", 987654321),
        ("MILLISECOND", "1969-12-31 23:59:58.5", 500),
        ("DECADE", "2019-12-31 00:00:00", 201),
        ("DECADE", "2020-01-01 00:00:00", 202),
        ("CENTURY", "2000-12-31 00:00:00", 20),
        ("CENTURY", "2001-01-01 00:00:00", 21),
        ("CENTURY", "1700-01-01 00:00:00", 17),
        ("MILLENNIUM", "2000-12-31 00:00:00", 2),
        ("MILLENNIUM", "2001-01-01 00:00:00", 3),
    ],
)
def test_points_have_parts(unit: str, text: str, wanted: int) -> None:
    assert part(unit, text) == wanted


def test_the_first_year_is_of_the_first_century() -> None:
    assert part("CENTURY", "0001-01-01 00:00:00", 3) == 1
    assert part("MILLENNIUM", "9999-12-31 23:59:59", 3) == 10


def test_a_fraction_is_as_fine_as_the_type() -> None:
    assert part("NANOSECOND", "2020-02-29 01:56:59.987", 3) == 987000000


def planner() -> Planner:
    made = Planner()
    made.run(
        "CREATE TABLE t (a TIMESTAMP(3), b TIMESTAMP(3), s STRING, p STRING, n BIGINT) WITH ('connector' = 'datagen')"
    )
    return made


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("TIMESTAMPADD(HOUR, 20, TIME '10:00:00')", datetime.time(6)),
        ("TIMESTAMPADD(MINUTE, -601, TIME '10:00:00')", datetime.time(23, 59)),
        ("TIMESTAMPADD(DAY, 3, TIME '10:00:00.5')", datetime.time(10, 0, 0, 500_000)),
        ("TIMESTAMPADD(MILLISECOND, 1, TIME '23:59:59.999')", datetime.time(0)),
        ("TIMESTAMPADD(HOUR, CAST(n AS INT), TIME '10:00:00')", datetime.time(11)),
        ("TIMESTAMPADD(HOUR, 1, CAST(NULL AS TIME))", None),
        ("TIMESTAMPDIFF(SECOND, TIME '10:00:01', TIME '09:00:00')", -3601),
        ("TIMESTAMPDIFF(DAY, TIME '00:00:00', TIME '23:59:59')", 0),
        ("TIME '10:20:30.123987654'", datetime.time(10, 20, 30, 123_000)),
    ],
)
def test_times_of_day_move_within_their_day(expression: str, wanted: Any) -> None:
    assert value_of(expression, {"n": 1}) == wanted


def value_of(expression: str, row: dict[str, Any] | None = None) -> Any:
    node = planner().bind(f"SELECT {expression} AS v FROM t")
    assert isinstance(node, Project)
    arrow = to_arrow_schema(node.input.schema)
    import pyarrow as pa

    given = dict.fromkeys(arrow.names) | (row or {})
    batch = pa.RecordBatch.from_pylist([given], arrow)
    return compile_expression(node.expressions[0], node.input.schema, EvaluationContext())(batch).to_pylist()[
        0
    ]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("(TIME '2:55:00', INTERVAL '1' HOUR) OVERLAPS (TIME '3:30:00', INTERVAL '2' HOUR)", True),
        ("(TIME '9:00:00', TIME '10:00:00') OVERLAPS (TIME '10:15:00', INTERVAL '3' HOUR)", False),
        ("(DATE '2020-01-01', DATE '2020-01-05') OVERLAPS (DATE '2020-01-05', DATE '2020-01-09')", True),
        ("(DATE '2020-01-05', DATE '2020-01-01') OVERLAPS (DATE '2020-01-09', DATE '2020-01-06')", False),
        ("(DATE '2020-01-05', INTERVAL '-4' DAY) OVERLAPS (DATE '2020-01-02', INTERVAL '1' DAY)", True),
        ("NOT (DATE '2020-01-01', DATE '2020-01-02') OVERLAPS (DATE '2020-01-03', DATE '2020-01-04')", True),
        ("(a, b) OVERLAPS (a, INTERVAL '1' DAY)", None),
        (
            "(DATE '2020-01-01', DATE '2020-01-02') OVERLAPS (DATE '2020-01-02', INTERVAL '1' DAY) AND TRUE",
            True,
        ),
        ("'a.c' SIMILAR TO 'a!.c' ESCAPE '!'", None),
        ("'a%c' SIMILAR TO 'a!%c' ESCAPE '!'", True),
        ("'[:a:]' SIMILAR TO '![:a:]' ESCAPE '!'", True),
        ("'abc' SIMILAR TO 'a!%c' ESCAPE '!'", False),
        ("'a$' SIMILAR TO 'a$'", True),
        ("5 BETWEEN SYMMETRIC 7 AND 3", True),
        ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')", "1969-12-31 16:00:00"),
        ("CONVERT_TZ('2024-07-01 12:00:00', 'Europe/Berlin', 'GMT-08:00')", "2024-07-01 02:00:00"),
        ("CONVERT_TZ('no time', 'UTC', 'UTC')", None),
        ("CONVERT_TZ(CAST(NULL AS STRING), 'UTC', 'UTC')", None),
        ("CURRENT_DATABASE()", "default_database"),
        ("(DATE '2024-03-01' - DATE '2024-02-01') DAY > INTERVAL '28' DAY", True),
        ("(DATE '2024-03-01' - DATE '2024-02-01') DAY > INTERVAL '29' DAY AND TRUE", False),
    ],
)
def test_an_expression_has_its_value(expression: str, wanted: Any) -> None:
    if wanted is None and "!." in expression:
        with pytest.raises(UserError, match="has its escape character before"):
            value_of(expression)
        return
    assert value_of(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "row", "wanted"),
    [
        ("DATE_FORMAT(a, p)", {"a": datetime.datetime(2024, 2, 29), "p": "yyyy/MM"}, "2024/02"),
        ("DATE_FORMAT(a, p)", {"a": datetime.datetime(2024, 2, 29)}, None),
        ("TO_TIMESTAMP(s, p)", {"s": "29.02.2024", "p": "dd.MM.yyyy"}, datetime.datetime(2024, 2, 29)),
        ("TO_DATE(s, p)", {"s": "20240229", "p": "yyyyMMdd"}, datetime.date(2024, 2, 29)),
        ("FROM_UNIXTIME(n, p)", {"n": 86400, "p": "yyyy-MM-dd"}, "1970-01-02"),
        ("UNIX_TIMESTAMP(s, p)", {"s": "02.01.1970", "p": "dd.MM.yyyy"}, 86400),
        ("CONVERT_TZ(s, p, 'UTC')", {"s": "1970-01-01 01:00:00", "p": "GMT+01:00"}, "1970-01-01 00:00:00"),
    ],
)
def test_patterns_and_zones_may_be_columns(expression: str, row: dict[str, Any], wanted: Any) -> None:
    assert value_of(expression, row) == wanted


def test_overlaps_takes_two_periods() -> None:
    with pytest.raises(UserError, match="OVERLAPS compares two periods"):
        planner().bind("SELECT (a, b) OVERLAPS (a, b, a) FROM t")
    with pytest.raises(UserError, match="OVERLAPS compares two periods"):
        planner().bind("SELECT (a, b) OVERLAPS (a) FROM t")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UserError, match='time zone "Nowhere" does not exist'):
        evaluate(
            call("CONVERT_TZ", col(0, STRING), *(lit(z, STRING.not_null()) for z in ("Nowhere", "UTC"))),
            [("a",)],
        )


def test_periods_of_years_are_floored_and_ceiled() -> None:
    day = col(0, sql.DATE)
    ordinal = (datetime.date(2024, 2, 29) - datetime.date(1970, 1, 1)).days

    def date(year: int) -> int:
        return (datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days

    starts = {"DECADE": 2020, "CENTURY": 2001, "MILLENNIUM": 2001}
    ends = {"DECADE": 2030, "CENTURY": 2101, "MILLENNIUM": 3001}
    for unit, year in starts.items():
        assert evaluate(call("FLOOR", day, symbol(unit)), [(ordinal,), (None,)]) == [date(year), None]
        assert evaluate(call("CEIL", day, symbol(unit)), [(ordinal,), (date(year),)]) == [
            date(ends[unit]),
            date(year),
        ]
    assert evaluate(call("EXTRACT", symbol("DECADE"), day), [(ordinal,)]) == [202]
    assert str(call("EXTRACT", symbol("DECADE"), day).type) == str(BIGINT)
