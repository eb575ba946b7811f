"""Functions of dates, times and timestamps."""

from __future__ import annotations

import datetime
import decimal
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_harness import call, cast, col, evaluate, lit, symbol
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import builder_of
from sqlstream.runtime.evaluate.time import time_operations
from sqlstream.runtime.evaluate.time.time_programs import reading_program
from sqlstream.runtime.evaluate.time.timestamp_format import TimestampFormat
from sqlstream.runtime.evaluate.time.timestamp_parser import TimestampParser
from sqlstream.runtime.kernels.text import time_texts
from sqlstream.times import DATE_TEXT, FALLBACK_TEXT, TIME_TEXT, TIMESTAMP_TEXT
from sqlstream.types import BIGINT, DATE, DOUBLE, INT, STRING

EPOCH = datetime.datetime(1970, 1, 1)
TS = sql.timestamp(3)
#: Tuesday.
MOMENT = int((datetime.datetime(1994, 9, 27, 13, 14, 15, 678_000) - EPOCH).total_seconds() * 1000)


def s(value: str) -> Any:
    return lit(value, STRING.not_null())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("YEAR", 1994),
        ("QUARTER", 3),
        ("MONTH", 9),
        ("WEEK", 39),
        ("DAYOFYEAR", 270),
        ("DAYOFMONTH", 27),
        ("DAYOFWEEK", 3),
        ("HOUR", 13),
        ("MINUTE", 14),
        ("SECOND", 15),
    ],
)
def test_parts_of_a_timestamp(name: str, expected: int) -> None:
    assert evaluate(call(name, col(0, TS)), [(MOMENT,), (None,)]) == [expected, None]
    unit = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY", "DAYOFWEEK": "DOW"}.get(name, name)
    assert evaluate(call("EXTRACT", symbol(unit), col(0, TS)), [(MOMENT,)]) == [expected]


def test_parts_of_dates_times_and_zoned_timestamps() -> None:
    assert evaluate(call("YEAR", col(0, DATE)), [(-1,)]) == [1969]
    assert evaluate(call("HOUR", col(0, sql.time(0))), [(7_200_000,)]) == [2]
    context = EvaluationContext(time_zone="Etc/GMT-2")
    assert evaluate(call("HOUR", col(0, sql.timestamp_ltz(3))), [(0,)], context) == [2]
    assert evaluate(call("EXTRACT", symbol("EPOCH"), col(0, TS)), [(MOMENT,)]) == [MOMENT // 1000]


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(UserError, match="not supported of FORTNIGHT"):
        evaluate(call("EXTRACT", symbol("FORTNIGHT"), col(0, TS)), [(0,)])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd", "1994-09-27"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "1994-09-27 13:14:15.678"),
        ("d/M/yy h:m a", "27/9/94 1:14 PM"),
        ("EEE, dd MMM yyyy", "Tue, 27 Sep 1994"),
        ("EEEE d MMMM", "Tuesday 27 September"),
        ("'day' D 'o''clock' HHmm", "day 270 o'clock 1314"),
        ("HH:mm:ss.SSSSSS", "13:14:15.678000"),
        ("'x'", "x"),
    ],
)
def test_date_format_reads_java_patterns(pattern: str, expected: str) -> None:
    assert evaluate(call("DATE_FORMAT", col(0, TS), s(pattern)), [(MOMENT,), (None,)]) == [expected, None]


def test_date_format_refuses_what_it_does_not_know() -> None:
    with pytest.raises(UserError, match='letter "F"'):
        evaluate(call("DATE_FORMAT", col(0, TS), s("HH F")), [(0,)])


@given(
    st.lists(st.integers(-(10**12), 10**12) | st.none(), max_size=30),
    st.sampled_from(["yyyy-MM-dd", "yyyy-MM-dd HH", "HH:mm:ss.SSS", "yyyy", "mm:ss"]),
)
@settings(max_examples=80, deadline=None)
def test_date_format_matches_python(values: list[int | None], pattern: str) -> None:
    def reference(value: int | None) -> str | None:
        if value is None:
            return None
        moment = EPOCH + datetime.timedelta(milliseconds=value)
        form = pattern.replace("yyyy", f"{moment.year:04}").replace("MM", "%m").replace("dd", "%d")
        form = form.replace("HH", "%H").replace("mm", "%M").replace("ss", "%S")
        return moment.strftime(form).replace("SSS", f"{moment.microsecond // 1000:03}")

    formatted = call("DATE_FORMAT", col(0, TS), s(pattern))
    assert evaluate(formatted, [(v,) for v in values]) == [reference(v) for v in values]


PATTERNS = [
    "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "dd/MM/yy KK:mm:ss a",
    "D, h 'o''clock' \u00e9 k",
    "yyyyyy.M.d H:m:s.S",
    "SSSSSSSSSSSS",
    "yyyy MMM EEE ss",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_column_of_times_is_formatted_as_each_of_them(pattern: str) -> None:
    days = [-719_162, -719_103, -25_568, -1, 0, 11_016, 19_782, 2_932_896]
    moments = [day * 86_400_000 + at for day in days for at in (0, 1, 43_200_000, 46_799_999, 86_399_999)]
    rows = [(moment,) for moment in (*moments, None)]
    formatted = call("DATE_FORMAT", col(0, TS), s(pattern))
    assert evaluate(formatted, rows) == [evaluate(formatted, [row])[0] for row in rows]


def reference_moment(regex: str, text: str) -> datetime.datetime | None:
    found = re.fullmatch(regex, text, re.ASCII)
    if found is None:
        return None
    fields = {name: int(value) for name, value in found.groupdict().items() if value and name != "S"}
    fraction = (found.groupdict().get("S") or "").ljust(6, "0")[:6]
    numbers = (fields.get(n, d) for n, d in zip("yMdHms", (1970, 1, 1, 0, 0, 0), strict=True))
    try:
        return datetime.datetime(*numbers, int(fraction))  # type: ignore[misc]
    except ValueError:
        return None


@pytest.mark.parametrize(
    "regex", [TIMESTAMP_TEXT, FALLBACK_TEXT, DATE_TEXT, TIME_TEXT, r"(?P<d>\d{1,2})\.(?P<M>\d{2}) é(?s:.*)"]
)
def test_texts_are_read_as_their_expression_matches_them(regex: str) -> None:
    assert reading_program(regex) is not None
    pick = random.Random(regex)
    whole = [
        "2024-02-29 23:59:59.123456",
        "1900-2-29T1:2:3.5",
        "0001-01-01",
        "12:34:56.1234567891",
        "31.12 é x",
        " 9999-12-31 0:0 ",
    ]
    texts: list[str | None] = [None, "", *whole]
    for _ in range(3000):
        text = pick.choice(whole)
        for _ in range(pick.randrange(4)):
            at = pick.randrange(len(text) + 1)
            text = (
                text[:at]
                + pick.choice(("", "0", "1", "9", " ", "-", ":", ".", "T", "é"))
                + text[at + pick.randrange(3) :]
            )
        texts.append(text)
    column = pa.array([None, *texts]).slice(1)
    found = TimestampParser(regex).parse(column).timestamps("us").to_pylist()
    assert found == [None if t is None else reference_moment(regex, t) for t in texts]


@pytest.mark.parametrize(
    "regex",
    [r"(?P<y>\d{1,4})(?P<M>\d{1,2})", r"(?P<d>\d{1,2})1", r"(?P<d>\d{2})(?P<X>Z)", r"(?:(?P<d>\d))?1"],
)
def test_an_expression_that_must_be_tried_in_several_ways_is_no_program(regex: str) -> None:
    assert reading_program(regex) is None


class CountedFormat(TimestampFormat):
    """Counts the times whose text is made."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.made = 0

    def _format_each(self, values: np.ndarray, type: pa.DataType) -> pa.Array:
        self.made += len(values)
        return super()._format_each(values, type)


def test_the_text_of_a_day_is_made_once_for_all_its_rows() -> None:
    values = np.sort(np.random.default_rng(1).integers(MOMENT, MOMENT + 3 * 86_400_000, 500_000))
    column = pa.array(values).view(pa.timestamp("ms"))
    form = CountedFormat("yyyy-MM-dd")
    texts = form.format(column)
    assert 3 <= form.made <= 4
    assert texts.equals(pc.strftime(column, "%Y-%m-%d"))


def test_the_text_of_a_day_is_made_once_for_all_its_batches() -> None:
    form = CountedFormat("yyyy-MM-dd")
    for day, rows in [(0, 3), (0, 2), (0, 9), (1, 9), (1, 1)]:
        texts = form.format(pa.array([MOMENT + day * 86_400_000] * rows).view(pa.timestamp("ms")))
        assert texts.equals(
            pa.array([f"{(EPOCH + datetime.timedelta(days=day, milliseconds=MOMENT)).date()}"] * rows)
        )
    assert form.made == 2


def test_text_becomes_timestamps_by_pattern() -> None:
    rows = [("1970-01-01 00:00:01",), ("1970-01-01",), ("nonsense",), (None,)]
    assert evaluate(call("TO_TIMESTAMP", col(0, STRING)), rows) == [1_000, 0, None, None]
    by_pattern = call("TO_TIMESTAMP", col(0, STRING), s("dd.MM.yyyy HH:mm"))
    assert evaluate(by_pattern, [("02.01.1970 01:00",), ("2.1.1970 01:00",)]) == [90_000_000, None]
    assert evaluate(call("TO_DATE", col(0, STRING), s("yyyyMMdd")), [("19700102",), ("19700231",)]) == [
        1,
        None,
    ]


def test_hours_of_half_a_day_are_read_with_am_and_pm() -> None:
    texts = ["12:30 AM", "1:05 AM", "12:30 PM", "11:59 PM", "13:00 PM", "0:10 AM", "1:00 pm", None]
    rows = [(text,) for text in texts]
    minutes = [30, 65, 750, 1439, None, None, None, None]
    by_pattern = call("TO_TIMESTAMP", col(0, STRING), s("h:mm a"))
    assert evaluate(by_pattern, rows) == [None if m is None else m * 60_000 for m in minutes]
    simple = call("UNIX_TIMESTAMP", col(0, STRING), s("h:mm a"))
    read = evaluate(simple, rows[:4] + rows[6:7])
    assert read == [m * 60 for m in (30, 65, 750, 1439, 780)]


def test_text_beside_its_pattern_is_read_in_the_standard_forms() -> None:
    read = call("TO_TIMESTAMP", col(0, STRING), s("dd.MM.yyyy"))
    rows = [("02.01.1970",), ("1970-1-2",), (" 1970-01-02 1:00:00.5 ",), ("1970-01-02T01:00:00",), ("x",)]
    assert evaluate(read, rows) == [86_400_000, 86_400_000, 90_000_500, None, None]
    local = call("TO_TIMESTAMP_LTZ", col(0, STRING), s("dd.MM.yyyy"), s("Etc/GMT-2"))
    assert evaluate(local, [("1970-1-2",), ("02.01.1970",)]) == [79_200_000] * 2
    assert evaluate(call("TO_TIMESTAMP", col(0, STRING), lit(None, STRING)), [("1970-01-02",)]) == [None]


def test_a_date_may_lack_its_day_and_its_month() -> None:
    assert evaluate(call("TO_DATE", col(0, STRING)), [("1971",), ("1970-2",), ("1970-02-30",)]) == [
        365,
        31,
        None,
    ]


def test_an_unknown_time_zone_is_named() -> None:
    with pytest.raises(UserError, match='time zone "Mars/Base" does not exist'):
        evaluate(call("TO_TIMESTAMP_LTZ", col(0, STRING), s("yyyy"), s("Mars/Base")), [("1970",)])
    with pytest.raises(UserError, match=r'time zone "GMT\+25" does not exist'):
        evaluate(call("CONVERT_TZ", col(0, STRING), s("UTC"), s("GMT+25")), [("1970",)])
    no_zone = call("TO_TIMESTAMP_LTZ", col(0, STRING), s("yyyy"), lit(None, STRING))
    assert evaluate(no_zone, [("1970",)]) == [None]


@pytest.mark.parametrize(
    ("zone", "skipped", "shown"),
    [
        ("Europe/Berlin", "2024-03-31 02:30:00", "2024-03-31 03:30:00"),
        ("Australia/Lord_Howe", "2024-10-06 02:10:00", "2024-10-06 02:40:00"),
        ("Pacific/Apia", "2011-12-30 05:00:00", "2011-12-31 05:00:00"),
        ("Europe/Berlin", "2024-10-27 02:30:00", "2024-10-27 02:30:00"),
    ],
)
def test_a_time_in_a_gap_moves_on_by_the_length_of_the_gap(zone: str, skipped: str, shown: str) -> None:
    there = cast(col(0, STRING), sql.timestamp_ltz(0))
    context = EvaluationContext(time_zone=zone)
    assert evaluate(cast(there, STRING), [(skipped,), (None,)], context) == [shown, None]


def test_instants_have_the_digits_that_their_precision_or_pattern_shows() -> None:
    micros = call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(6, INT.not_null()))
    assert (str(micros.type), evaluate(micros, [(1_234_567,)])) == ("TIMESTAMP_LTZ(6)", [1_234_567])
    exact = call("TO_TIMESTAMP_LTZ", col(0, sql.decimal(20, 1)), lit(9, INT.not_null()))
    assert evaluate(exact, [(decimal.Decimal("1700000000123456789.5"),)]) == [1_700_000_000_123_456_789]
    text = call("TO_TIMESTAMP_LTZ", col(0, STRING), s("ss.SSSS'SSSSSS'"))
    assert (str(text.type), evaluate(text, [("01.2345SSSSSS",)])) == ("TIMESTAMP_LTZ(4)", [1_234_500])
    assert str(call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(0, INT.not_null())).type) == "TIMESTAMP_LTZ(3)"


def test_a_date_stays_one_when_days_or_longer_are_added() -> None:
    for unit, count, expected in (("DAY", 1, 32), ("WEEK", -1, 24), ("MONTH", 1, 59), ("YEAR", 1, 396)):
        moved = call("TIMESTAMPADD", symbol(unit), col(0, INT), col(1, DATE))
        assert (str(moved.type), evaluate(moved, [(count, 31), (None, 31)])) == ("DATE", [expected, None])
    moved = call("TIMESTAMPADD", symbol("HOUR"), col(0, INT), col(1, DATE))
    assert (str(moved.type), evaluate(moved, [(1, 0)])) == ("TIMESTAMP(6)", [3_600_000_000])


@pytest.mark.parametrize("text_first", [True, False])
def test_a_time_compared_with_text_that_is_none_is_null(text_first: bool) -> None:
    pair = (col(0, STRING), col(1, TS)) if text_first else (col(1, TS), col(0, STRING))
    rows = [("1970-01-01", 0), ("nonsense", 0), (None, 0)]
    assert evaluate(call("=", *pair), rows) == [True, None, None]
    assert evaluate(call("IS DISTINCT FROM", *pair), rows) == [False, True, True]
    assert evaluate(call("IN", col(1, TS), col(0, STRING), s("x")), rows) == [True, None, None]


def test_numbers_become_instants() -> None:
    seconds = call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(0, INT.not_null()))
    assert evaluate(seconds, [(5,), (None,)]) == [5_000, None]
    assert evaluate(call("TO_TIMESTAMP_LTZ", col(0, BIGINT), lit(3, INT.not_null())), [(5,)]) == [5]
    assert evaluate(seconds, [(253_402_300_799,), (253_402_300_800,), (2**63 - 1,)])[1:] == [None, None]
    floats = call("TO_TIMESTAMP_LTZ", col(0, DOUBLE), lit(3, INT.not_null()))
    assert evaluate(floats, [(-1.5,), (float("nan"),), (1e300,)]) == [-1, None, None]
    assert evaluate(call("FROM_UNIXTIME", col(0, BIGINT)), [(44,)]) == ["1970-01-01 00:00:44"]
    assert evaluate(call("FROM_UNIXTIME", col(0, BIGINT), lit(None, STRING)), [(44,)]) == [None]
    assert evaluate(call("DATE_FORMAT", col(0, TS), lit(None, STRING)), [(44,)]) == [None]
    assert evaluate(call("UNIX_TIMESTAMP", col(0, STRING)), [("1970-01-01 00:00:44",), (None,)]) == [44, None]


@pytest.mark.parametrize(
    ("unit", "count", "expected"),
    [
        ("SECOND", 1, "1994-09-27 13:14:16.678"),
        ("WEEK", 1, "1994-10-04 13:14:15.678"),
        ("MONTH", 5, "1995-02-27 13:14:15.678"),
        ("QUARTER", -1, "1994-06-27 13:14:15.678"),
        ("YEAR", 1, "1995-09-27 13:14:15.678"),
    ],
)
def test_timestampadd(unit: str, count: int, expected: str) -> None:
    added = call("TIMESTAMPADD", symbol(unit), col(0, INT), col(1, TS))
    moment = datetime.datetime.strptime(expected, "%Y-%m-%d %H:%M:%S.%f")
    milliseconds = round((moment - EPOCH).total_seconds() * 1000)
    assert evaluate(added, [(count, MOMENT), (None, MOMENT)]) == [milliseconds, None]


@pytest.mark.parametrize(
    ("unit", "first", "second", "expected"),
    [
        ("SECOND", "2024-01-01 00:00:00", "2024-01-01 00:00:59", 59),
        ("DAY", "2024-01-01 12:00:00", "2024-01-03 11:00:00", 1),
        ("DAY", "2024-01-03 11:00:00", "2024-01-01 12:00:00", -1),
        ("MONTH", "2024-01-31 00:00:00", "2024-02-29 00:00:00", 1),
        ("MONTH", "2024-01-15 00:00:00", "2024-03-15 00:00:00", 2),
        ("YEAR", "2024-03-01 00:00:00", "2020-03-02 00:00:00", -3),
    ],
)
def test_timestampdiff_counts_whole_units(unit: str, first: str, second: str, expected: int) -> None:
    a, b = (call("TO_TIMESTAMP", col(i, STRING)) for i in (0, 1))
    assert evaluate(call("TIMESTAMPDIFF", symbol(unit), a, b), [(first, second)]) == [expected]


def test_the_clock_is_the_one_given() -> None:
    context = EvaluationContext(now_ms=lambda: 86_400_000 + 3_661_500, time_zone="Etc/GMT-2")
    zero_based = {
        "PROCTIME": 90_061_500,
        "CURRENT_TIMESTAMP": 90_061_500,
        "LOCALTIMESTAMP": 97_261_500,
        "CURRENT_DATE": 1,
        "LOCALTIME": 10_861_000,
        "UNIX_TIMESTAMP": 90_061,
    }
    for name, expected in zero_based.items():
        assert evaluate(call(name), [], context) == []
        column = builder_of(call(name))(call(name), context)(2)
        integer = pa.int32() if column.type.bit_width == 32 else pa.int64()
        assert column.view(integer).to_pylist() == [expected, expected]


@pytest.mark.parametrize("unit", ["YEAR", "QUARTER", "MONTH", "DAY", "HOUR"])
def test_the_start_of_a_unit_is_its_own_ceiling(unit: str) -> None:
    for source in (DATE, sql.timestamp(3), sql.timestamp_ltz(6)):
        assert evaluate(call("CEIL", col(0, source), symbol(unit)), [(0,), (None,)]) == [0, None]


def test_a_week_is_rounded_to_sundays() -> None:
    days = [(2,), (3,), (4,), (10,)]
    assert evaluate(call("CEIL", col(0, DATE), symbol("WEEK")), days) == [3, 3, 10, 10]
    assert evaluate(call("FLOOR", col(0, DATE), symbol("WEEK")), days) == [-4, 3, 3, 10]


@pytest.mark.parametrize(
    ("pattern", "text", "date"),
    [
        ("dd/MMM/yyyy", "10/Oct/2000", "2000-10-10"),
        ("dd/MMM/yyyy", "10/oct/2000", None),
        ("dd/MMM/yyyy", "31/Sep/2000", None),
        ("d MMMM yyyy", "1 May 2024", "2024-05-01"),
        ("MMMM d, yyyy", "December 31, 2023", "2023-12-31"),
        ("MMMM d, yyyy", "Dec 31, 2023", None),
        ("dd.MM.yy", "29.02.24", "2024-02-29"),
        ("uuMMdd", "991231", "2099-12-31"),
        ("yy", "024", None),
        ("d.M.y", "1.2.2024", "2024-02-01"),
        ("d.M.y", "1.2.7", "0007-02-01"),
        ("yMMdd", "20240229", "2024-02-29"),
        ("yyy-MM", "2024-02", "2024-02-01"),
        ("y", "123456789", None),
    ],
)
def test_texts_are_read_by_patterns_as_java_reads_them(pattern: str, text: str, date: str | None) -> None:
    for by, more in ((s(pattern), ()), (col(1, STRING), (pattern,))):
        found = cast(call("TO_DATE", col(0, STRING), by), STRING)
        assert evaluate(found, [(text, *more), (None, *more)]) == [date, None]


def test_a_simple_date_format_reads_names_in_any_case_and_form() -> None:
    found = call("UNIX_TIMESTAMP", col(0, STRING), s("d MMM yyyy"))
    rows = [("2 jan 1970",), ("2 JANUARY 1970 and more",), ("1 Feb 1970",)]
    assert evaluate(found, rows) == [86_400, 86_400, 31 * 86_400]


def test_the_kernels_of_times_know_the_operations_of_their_programs() -> None:
    for name, number in vars(time_operations).items():
        if name.isupper() and name not in ("HALF", "FIELDS"):
            assert getattr(time_texts, f"_{name}") == number, name
