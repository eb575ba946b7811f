"""CAST and TRY_CAST."""

from __future__ import annotations

import decimal
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_harness import cast, col, evaluate

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Literal
from sqlstream.runtime.evaluate import EvaluationContext, evaluate_literal
from sqlstream.runtime.evaluate.cast import cast_kernel
from sqlstream.times import is_time_text
from sqlstream.types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, FLOAT, INT, STRING, TINYINT, LogicalType

D = Decimal
DAY = 86_400_000

TO_TEXT: list[tuple[LogicalType, Any, str]] = [
    (INT, -5, "-5"),
    (BOOLEAN, True, "TRUE"),
    (DOUBLE, 1.0, "1.0"),
    (DOUBLE, 123.45, "123.45"),
    (DOUBLE, 1e7, "1.0E7"),
    (DOUBLE, 123456789.125, "1.23456789125E8"),
    (DOUBLE, 1e-4, "1.0E-4"),
    (DOUBLE, -0.0, "-0.0"),
    (DOUBLE, 1.5e300, "1.5E300"),
    (DOUBLE, float("inf"), "Infinity"),
    (DOUBLE, float("nan"), "NaN"),
    (FLOAT, 1.5, "1.5"),
    (sql.decimal(5, 2), D("1.5"), "1.50"),
    (sql.decimal(10, 8), D("-0.00000001"), "-0.00000001"),
    (DATE, 19723, "2024-01-01"),
    (DATE, -1, "1969-12-31"),
    (sql.time(0), 3_661_000, "01:01:01"),
    (sql.time(3), 3_661_007, "01:01:01.007"),
    (sql.timestamp(3), 1_704_067_200_000, "2024-01-01 00:00:00.000"),
    (sql.timestamp(0), 1_704_067_200_000, "2024-01-01 00:00:00"),
    (sql.timestamp(6), -1, "1969-12-31 23:59:59.999999"),
    (sql.timestamp(9), 1, "1970-01-01 00:00:00.000000001"),
    (sql.INTERVAL_DAY_TIME, 93_784_005, "+1 02:03:04.005"),
    (sql.INTERVAL_YEAR_MONTH, -14, "-1-02"),
    (BYTES, b"abc", "abc"),
]


@pytest.mark.parametrize(("source", "value", "text"), TO_TEXT)
def test_values_print_as_in_flink(source: LogicalType, value: Any, text: str) -> None:
    assert evaluate(cast(col(0, source), STRING), [(value,), (None,)]) == [text, None]


def test_text_is_cut_to_varchar_and_padded_to_char() -> None:
    assert evaluate(cast(col(0, STRING), sql.varchar(3)), [("abcdef",), ("a",)]) == ["abc", "a"]
    assert evaluate(cast(col(0, STRING), sql.char(3)), [("abcdef",), ("a",), (None,)]) == ["abc", "a  ", None]
    assert evaluate(cast(col(0, INT), sql.varchar(2)), [(12345,)]) == ["12"]


FROM_TEXT: list[tuple[str, LogicalType, Any]] = [
    ("42", INT, 42),
    (" +42 ", INT, 42),
    ("-0042.9", BIGINT, -42),
    ("9223372036854775807", BIGINT, 2**63 - 1),
    ("1.5", DOUBLE, 1.5),
    (" +1e3 ", DOUBLE, 1000.0),
    ("Infinity", DOUBLE, float("inf")),
    ("1.005", sql.decimal(5, 2), D("1.01")),
    ("1e2", sql.decimal(5, 2), D("100.00")),
    ("12345.6", sql.decimal(5, 2), None),
    ("204327634439", sql.decimal(38, 28), None),
    ("1e-35", sql.decimal(12, 3), D("0.000")),
    ("7e-9999999", sql.decimal(12, 3), D("0.000")),
    ("-12345678901234567890123456789012345678e-30", sql.decimal(12, 3), D("-12345678.901")),
    ("1.2345678901234567e-25", sql.decimal(38, 38), D("1.2345678901235e-25")),
    ("TRUE", BOOLEAN, True),
    (" no ", BOOLEAN, False),
    ("2024-01-01", DATE, 19723),
    ("2024-1-1", DATE, 19723),
    ("01:02:03", sql.time(0), 3_723_000),
    ("01:02:03.987", sql.time(0), 3_723_000),
    ("01:02:03.987", sql.time(2), 3_723_980),
    ("1969-12-31 23:59:58.987", sql.timestamp(0), -2_000),
    ("2024-1-1 00:00:00.987", sql.timestamp(1), 1_704_067_200_900),
    ("2024-01-01 00:00:00.987654", sql.timestamp_ltz(4), 1_704_067_200_987_600),
    ("2024-01-01 00:00:00.5", sql.timestamp(3), 1_704_067_200_500),
    ("2024-01-01T00:00", sql.timestamp(3), 1_704_067_200_000),
    ("2024-1-1", sql.timestamp(6), 1_704_067_200_000_000),
    ("1970-01-01 23:59:59.000000007", sql.timestamp(9), 86_399_000_000_007),
    ("9999-12-31 23:59:59", sql.timestamp(3), 253_402_300_799_000),
    ("abc", BYTES, b"abc"),
]


@pytest.mark.parametrize(("text", "target", "value"), FROM_TEXT)
def test_text_is_read(text: str, target: LogicalType, value: Any) -> None:
    assert evaluate(cast(col(0, STRING), target), [(text,), (None,)]) == [value, None]


UNREADABLE: list[tuple[str, LogicalType]] = [
    ("0x10", INT),
    ("0X10", BIGINT),
    ("0x10", DOUBLE),
    ("0x10", sql.decimal(5, 2)),
    ("x", INT),
    ("", INT),
    ("1 2", INT),
    ("2147483648", INT),
    ("99999999999999999999999", BIGINT),
    ("1.2.3", DOUBLE),
    ("x", sql.decimal(5, 2)),
    ("maybe", BOOLEAN),
    ("2024-13-01", DATE),
    ("2023-02-29", DATE),
    ("25:00:00", sql.time(0)),
    ("2024-01-01 00:61:00", sql.timestamp(3)),
    ("0001-01-01 00:00:00", sql.timestamp(9)),
    ("2300-01-01 00:00:00", sql.timestamp_ltz(7)),
]


@pytest.mark.parametrize(("text", "target"), UNREADABLE)
def test_cast_of_unreadable_text_fails_and_try_cast_gives_null(text: str, target: LogicalType) -> None:
    with pytest.raises(UserError, match=f'cannot cast "{text}" to') as error:
        evaluate(cast(col(0, STRING), target), [(None,), (text,)])
    assert error.value.code == "SS5102"
    assert evaluate(cast(col(0, STRING), target, is_try=True), [(text,), (None,)]) == [None, None]


NUMBERS: list[tuple[LogicalType, Any, LogicalType, Any]] = [
    (BIGINT, 2**32 + 5, INT, 5),
    (INT, 300, TINYINT, 44),
    (DOUBLE, 1.9, INT, 1),
    (DOUBLE, -1.9, INT, -1),
    (DOUBLE, 1e30, INT, 2**31 - 1),
    (DOUBLE, 1e30, BIGINT, 2**63 - 1),
    (DOUBLE, float("nan"), INT, 0),
    (sql.decimal(5, 2), D("-1.99"), INT, -1),
    (sql.decimal(38, 0), D(2**64 + 7), BIGINT, 7),
    (INT, 12345, sql.decimal(3, 0), None),
    (INT, 12, sql.decimal(4, 2), D("12.00")),
    (DOUBLE, 1.005, sql.decimal(5, 2), D("1.01")),
    (DOUBLE, -1e-300, sql.decimal(5, 2), D("0.00")),
    (sql.decimal(32, 6), D("95313975518239453863.866939"), sql.decimal(38, 20), None),
    (sql.decimal(5, 3), D("9.995"), sql.decimal(3, 2), None),
    (sql.decimal(5, 3), D("1.995"), sql.decimal(3, 2), D("2.00")),
    (sql.decimal(5, 2), D("1.50"), DOUBLE, 1.5),
    (INT, 2, BOOLEAN, True),
    (BOOLEAN, True, INT, 1),
    (sql.INTERVAL_DAY_TIME, 5, BIGINT, 5),
    (BIGINT, 5, sql.INTERVAL_DAY_TIME, 5),
]


@pytest.mark.parametrize(("source", "value", "target", "expected"), NUMBERS)
def test_numbers_convert_as_in_flink(
    source: LogicalType, value: Any, target: LogicalType, expected: Any
) -> None:
    assert evaluate(cast(col(0, source), target), [(value,), (None,)]) == [expected, None]


TIMES: list[tuple[LogicalType, Any, LogicalType, Any]] = [
    (DATE, 1, sql.timestamp(3), DAY),
    (sql.timestamp(3), -1, DATE, -1),
    (sql.timestamp(6), DAY * 1000 + 1_500, sql.time(3), 1),
    (sql.time(0), 1_000, sql.timestamp(3), 1_000),
    (sql.timestamp(9), 1_999_999, sql.timestamp(3), 1),
    (sql.timestamp(6), -1, sql.timestamp(3), -1),
    (sql.timestamp(6), -1, sql.timestamp_ltz(3), -7_200_001),
    (sql.timestamp(3), 1_999, sql.timestamp(0), 1_000),
    (sql.timestamp_ltz(6), -1, sql.timestamp(3), 7_199_999),
    (sql.timestamp(3), 5, sql.timestamp(6), 5_000),
    (sql.timestamp(3), 0, sql.timestamp_ltz(3), -7_200_000),
    (sql.timestamp_ltz(3), 0, sql.timestamp(3), 7_200_000),
    (sql.timestamp_ltz(3), 0, STRING, "1970-01-01 02:00:00.000"),
    (STRING, "1970-01-01 02:00:00", sql.timestamp_ltz(3), 0),
]


@pytest.mark.parametrize(("source", "value", "target", "expected"), TIMES)
def test_times_convert_in_the_session_time_zone(
    source: LogicalType, value: Any, target: LogicalType, expected: Any
) -> None:
    context = EvaluationContext(time_zone="Etc/GMT-2")
    assert evaluate(cast(col(0, source), target), [(value,), (None,)], context) == [expected, None]


def test_a_timestamp_that_nanoseconds_cannot_hold_fails() -> None:
    last_second = (253_402_300_799_000,)
    with pytest.raises(UserError, match="timestamp out of range"):
        evaluate(cast(col(0, sql.timestamp(3)), sql.timestamp(9)), [last_second])
    with pytest.raises(UserError, match="timestamp out of range"):
        evaluate_literal(Literal(253_402_300_799 * 10**9, sql.timestamp(9)))


def test_a_time_beyond_the_reach_of_nanoseconds_is_refused() -> None:
    with pytest.raises(UserError, match="timestamp out of range"):
        evaluate(cast(col(0, sql.timestamp(3)), sql.timestamp(9)), [(-DAY * 365 * 300,)])


def test_rows_and_arrays_convert_inside() -> None:
    source, target = sql.array(INT), sql.array(STRING)
    assert evaluate(cast(col(0, source), target), [([1, None],), (None,), ([],)]) == [["1", None], None, []]
    row, wide = sql.row(("a", INT), ("b", STRING)), sql.row(("x", BIGINT), ("y", STRING))
    values = [({"a": 1, "b": "q"},), (None,)]
    assert evaluate(cast(col(0, row), wide), values) == [{"x": 1, "y": "q"}, None]


def test_elements_of_rows_that_are_not_there_are_not_cast() -> None:
    kernel = cast_kernel(sql.array(STRING), sql.array(INT), "UTC", is_try=False)
    column = pa.array([["x"], ["1", None], None, [], ["2"], ["y"]], pa.list_(pa.string()))
    assert kernel(column.slice(1, 4)).to_pylist() == [[1, None], None, [], [2]]


def test_try_cast_of_a_collection_with_a_bad_element_is_null_as_a_whole() -> None:
    lists = cast(col(0, sql.array(STRING)), sql.array(INT), is_try=True)
    rows = [(["1", "2"],), (["1", "x"],), ([],), (None,), (["3", None],)]
    assert evaluate(lists, rows) == [[1, 2], None, [], None, [3, None]]
    deep = cast(col(0, sql.array(sql.array(STRING))), sql.array(sql.array(INT)), is_try=True)
    assert evaluate(deep, [([["1"], ["x"]],), ([["1"], None],)]) == [None, [[1], None]]
    row, wanted = sql.row(("a", STRING), ("b", STRING)), sql.row(("a", INT), ("b", sql.decimal(3, 1)))
    fields = cast(col(0, row), wanted, is_try=True)
    values = [({"a": "1", "b": "x"},), ({"a": "x", "b": "1"},), ({"a": "1", "b": "999"},)]
    assert evaluate(fields, values) == [None, None, {"a": 1, "b": None}]


@pytest.mark.parametrize(
    ("scale", "text"),
    [(0, ["-12", "0", "3"]), (6, ["-0.000012", "0.000000", "0.000003"]), (7, ["-0.0000012", "0.0000000", "0.0000003"]),
     (8, ["-0.00000012", "0.00000000", "0.00000003"]), (38, ["-0." + "0" * 36 + "12", "0." + "0" * 38, "0." + "0" * 37 + "3"])],
)  # fmt: skip
def test_decimals_as_text_have_all_digits_of_their_scale(scale: int, text: list[str]) -> None:
    with decimal.localcontext() as context:
        context.prec = 76
        rows = [(Decimal(n).scaleb(-scale),) for n in (-12, 0, 3)]
    written = evaluate(cast(col(0, sql.decimal(38, scale)), STRING), [*rows, (None,)])
    assert written == [*text, None]


def test_decimals_become_the_nearest_float() -> None:
    chance = random.Random(7)
    for precision, scale in ((5, 4), (7, 7), (15, 2), (15, 15), (16, 3), (38, 18), (38, 38)):
        digits = [chance.randrange(-(10**precision) + 1, 10**precision) for _ in range(200)]
        values = [D(n).scaleb(-scale, decimal.Context(prec=38)) for n in digits]
        rows = [(v,) for v in [*values, None]]
        source = col(0, sql.decimal(precision, scale))
        assert evaluate(cast(source, DOUBLE), rows) == [*map(float, values), None]
        floats = [float(np.float32(str(v))) for v in values]
        assert evaluate(cast(source, FLOAT), rows) == [*floats, None]


def test_more_months_than_an_interval_holds_are_an_error_and_null_with_try_cast() -> None:
    months = sql.INTERVAL_YEAR_MONTH
    for source in (INT, BIGINT):
        assert evaluate(cast(col(0, source), months), [(2**31 - 1,), (None,)]) == [2**31 - 1, None]
    with pytest.raises(UserError, match="range"):
        evaluate(cast(col(0, BIGINT), months), [(2**31,)])
    assert evaluate(cast(col(0, BIGINT), months, is_try=True), [(2**31,), (7,)]) == [None, 7]


def test_nested_values_have_flinks_texts() -> None:
    row = sql.row(("a", sql.INT), ("b", sql.STRING))
    cases = [
        (sql.array(sql.INT), [1, None, 3], "[1, NULL, 3]"),
        (sql.array(sql.array(sql.BOOLEAN)), [[True], [], None], "[[TRUE], [], NULL]"),
        (sql.map_of(sql.STRING, sql.DOUBLE), [("a", 1.0), ("b", None)], "{a=1.0, b=NULL}"),
        (sql.multiset(sql.STRING), [("a", 2)], "{a=2}"),
        (row, {"a": 1, "b": "x"}, "(1, x)"),
        (row, {"a": None, "b": None}, "(NULL, NULL)"),
        (sql.array(row), [{"a": 1, "b": None}], "[(1, NULL)]"),
        (sql.array(sql.INT), [], "[]"),
    ]
    for type_, value, text in cases:
        assert evaluate(cast(col(0, type_), sql.STRING), [(value,), (None,)]) == [text, None], type_
        assert evaluate(cast(col(0, type_), sql.varchar(2)), [(value,)]) == [text[:2]]


def test_maps_are_cast_by_key_and_value() -> None:
    source, target = sql.map_of(sql.STRING, sql.INT), sql.map_of(sql.INT, sql.STRING)
    given = [([("1", 10), ("01", None)],), ([],), (None,)]
    assert evaluate(cast(col(0, source), target), given) == [[(1, None)], [], None]
    tried = evaluate(cast(col(0, source), target, is_try=True), [([("x", 1)],), ([("2", 1)],)])
    assert tried == [None, [(2, "1")]]
    with pytest.raises(UserError):
        evaluate(cast(col(0, source), target), [([("x", 1)],)])


TIME_TEXTS = [
    *(
        "2024-02-29",
        "2023-02-29",
        "2024-2-9",
        "2024-02-30",
        "0000-01-01",
        "0001-01-01",
        "9999-12-31",
        "10000-01-01",
        "2024",
        "2024-13",
    ),
    *(
        "2024-02",
        "24:00",
        "23:59",
        "23:59:60",
        "1:2:3",
        "23:59:59.1234567891",
        "",
        " ",
        "x",
        "2024-02-29 ",
        " 2024-02-29",
        "2024-02-29x",
    ),
    *(
        "2024-02-29 10",
        "2024-02-29T10:11",
        "2024-02-29 10:11:12.5",
        "2024-02-29  10:11",
        "2024-02-29 25:00",
        "2024-02-29 10:11Z",
    ),
    *(
        "1677-12-31",
        "1678-01-01",
        "2261-12-31 23:59:59.999999999",
        "2262-01-01",
        "２０２４-01-01",
        "-2024-01-01",
        "2024/02/29",
        "0x10",
    ),
]


@pytest.mark.parametrize(
    "t", [DATE, sql.time(3), sql.timestamp(3), sql.timestamp(6), sql.timestamp(9)], ids=str
)
def test_a_text_is_read_as_a_planner_says_whatever_stands_beside_it(t: LogicalType) -> None:
    expected = [is_time_text(text, t) for text in TIME_TEXTS]
    reads = cast(col(0, STRING), t, is_try=True)
    alone = [evaluate(reads, [(text,)])[0] is not None for text in TIME_TEXTS]
    together = [value is not None for value in evaluate(reads, [(text,) for text in TIME_TEXTS])]
    assert alone == together == expected
