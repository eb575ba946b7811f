"""Python values there and back: as parameters, and as the rows of a query."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from typing import Any

import pytest

import sqlstream

D = decimal.Decimal
BERLIN = dt.timezone(dt.timedelta(hours=2))
SAME: list[Any] = [
    *(None, True, False, 0, -1, 2**31, 2**63 - 1, -(2**63)),
    *(0.0, -0.5, 1e300, 5e-324, 0.1),
    *(D("0"), D("-1.50"), D("1E-38"), D("-7"), D("99999999999999999999999999999999999999")),
    *("", "it's", "a\nb\tc", "?", "тест 😀", "\\", "x" * 1000),
    *(b"", b"\x00\xff", b"'"),
    *(dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.time(0, 0), dt.time(23, 59, 59, 999000)),
    *(dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 12, 0, 0, 123456), dt.datetime.max),
    *(dt.datetime(2024, 2, 29, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)),
    *(dt.timedelta(0), dt.timedelta(days=3, milliseconds=1), dt.timedelta(days=-400, seconds=5)),
    *([1, None, 3], [["a"], ["b", None]], {"a": 1, "b": None}, (1, "x", None), [(1, 2.5), (2, 0.5)]),
]


def test_what_is_sent_comes_back(cursor: sqlstream.Cursor) -> None:
    marks = ", ".join("?" * len(SAME))
    (row,) = cursor.execute(f"SELECT {marks}", SAME).fetchall()
    assert [(type(value), value) for value in row] == [(type(value), value) for value in SAME]


def test_what_changes_its_type_keeps_its_value(cursor: sqlstream.Cursor) -> None:
    identifier = uuid.UUID("12345678-1234-5678-1234-567812345678")
    sent: list[Any] = [
        bytearray(b"ab"),
        identifier,
        dt.datetime(2024, 1, 1, 2, tzinfo=BERLIN),
        math.inf,
        math.nan,
    ]
    row = cursor.execute("SELECT ?, ?, ?, ?, ?, ?", [*sent, -(10**37)]).fetchone()
    assert row is not None
    assert row[:4] == (b"ab", str(identifier), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), math.inf)
    assert math.isnan(row[4])
    assert row[5] == D(-(10**37))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), sqlstream.ProgrammingError),
        (10**38, sqlstream.DataError),
        (D("NaN"), sqlstream.DataError),
        (D("1E-39"), sqlstream.DataError),
        (dt.time(1, 0, 0, 1), sqlstream.DataError),
        (dt.time(1, tzinfo=dt.UTC), sqlstream.DataError),
        (dt.timedelta(microseconds=1), sqlstream.DataError),
        ("\ud800", sqlstream.DataError),
        ([], sqlstream.DataError),
        ({}, sqlstream.DataError),
    ],
)
def test_what_has_no_literal_is_refused(
    value: Any, kind: type[sqlstream.Error], cursor: sqlstream.Cursor
) -> None:
    with pytest.raises(sqlstream.Error) as raised:
        cursor.execute("SELECT ?", [value])
    assert type(raised.value) is kind


def test_every_sql_type_has_its_python_type(cursor: sqlstream.Cursor) -> None:
    expected: dict[str, Any] = {
        "CAST('ab' AS CHAR(3))": "ab ",
        "CAST('ab' AS VARCHAR(3))": "ab",
        "CAST(1 AS TINYINT)": 1,
        "CAST(1 AS SMALLINT)": 1,
        "CAST(1 AS BIGINT)": 1,
        "CAST(0.5 AS FLOAT)": 0.5,
        "CAST(1.5 AS DECIMAL(10, 2))": D("1.50"),
        "CAST('2024-02-29 01:02:03.123456789' AS TIMESTAMP(9))": dt.datetime(2024, 2, 29, 1, 2, 3, 123456),
        "CAST('2024-02-29 01:02:03.5' AS TIMESTAMP_LTZ(3))": dt.datetime(
            2024, 2, 29, 1, 2, 3, 500000, dt.UTC
        ),
        "INTERVAL '1-2' YEAR TO MONTH": 14,
        "ARRAY[CAST('2024-02-29 01:02:03.123456789' AS TIMESTAMP(9))]": [
            dt.datetime(2024, 2, 29, 1, 2, 3, 123456)
        ],
        "CAST(NULL AS ARRAY<INT>)": None,
        "CAST(NULL AS ROW<a INT>)": None,
        "CAST(NULL AS MAP<INT, INT>)": None,
        "CAST(NULL AS TIMESTAMP(9))": None,
    }
    row = cursor.execute(f"SELECT {', '.join(expected)}").fetchone()
    assert row is not None
    for text, value in zip(expected, row, strict=True):
        assert (type(value), value) == (type(expected[text]), expected[text]), text
