"""Python values as SQL literals: literal values in, literal text out."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sqlstream.client.dbapi.errors import DataError, Error, ProgrammingError
from sqlstream.client.dbapi.literals import NESTING_MAX, sql_literal

D = decimal.Decimal
UTC = datetime.UTC
PLUS_TWO = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "NULL"), (True, "TRUE"), (False, "FALSE"), ("", "''"), ("it's 'x'", "'it''s ''x'''"), ("\n?", "'\n?'")),
        *((0, "0"), (7, "7"), (-7, "(-7)"), (10**38 - 1, "9" * 38), (-(10**38) + 1, f"(-{'9' * 38})")),
        *((1.5, "1.5E0"), (-0.5, "(-0.5E0)"), (0.0, "0.0E0"), (-0.0, "(-0.0E0)"), (1e100, "1E+100"), (1e-7, "1E-07")),
        *((float("nan"), "CAST('NaN' AS DOUBLE)"), (float("inf"), "CAST('Infinity' AS DOUBLE)")),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        *((D("1.50"), "1.50"), (D("-1.5"), "(-1.5)"), (D("7"), "7."), (D("-7"), "(-7.)"), (D("1E+3"), "1000.")),
        *((D("0.001"), "0.001"), (D("9" * 38), "9" * 38 + "."), (D("1E-38"), "0." + "0" * 37 + "1")),
        *((b"\x00\xff", "X'00ff'"), (bytearray(b"a"), "X'61'"), (memoryview(b"a"), "X'61'"), (b"", "X''")),
        (datetime.date(2024, 2, 29), "DATE '2024-02-29'"),
        (datetime.datetime(2024, 2, 29, 1, 2, 3), "TIMESTAMP '2024-02-29 01:02:03.000000'"),
        (datetime.datetime(2024, 2, 29, 1, 2, 3, 4), "TIMESTAMP '2024-02-29 01:02:03.000004'"),
        (
            datetime.datetime(2024, 2, 29, 1, 2, 3, tzinfo=PLUS_TWO),
            "TO_TIMESTAMP_LTZ('2024-02-28 23:02:03.000000', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'UTC')",
        ),
        *((datetime.time(1, 2, 3), "TIME '01:02:03.000'"), (datetime.time(1, 2, 3, 4000), "TIME '01:02:03.004'")),
        (datetime.timedelta(days=1, hours=2, milliseconds=3), "INTERVAL '1 02:00:00.003' DAY TO SECOND(3)"),
        (datetime.timedelta(days=-1, hours=-2), "INTERVAL '-1 02:00:00.000' DAY TO SECOND(3)"),
        (datetime.timedelta(0), "INTERVAL '0 00:00:00.000' DAY TO SECOND(3)"),
        (datetime.timedelta(milliseconds=-1), "INTERVAL '-0 00:00:00.001' DAY TO SECOND(3)"),
        (uuid.UUID(int=5), "'00000000-0000-0000-0000-000000000005'"),
        *(([1, None], "ARRAY[1, NULL]"), ((1, "a"), "ROW(1, 'a')"), ({"a": [1], "b": (2,)}, "MAP['a', ARRAY[1], 'b', ROW(2)]")),
        *((np.int64(-3), "(-3)"), (np.float32(0.5), "0.5E0"), (np.bool_(True), "TRUE"), (np.str_("x"), "'x'")),
        (np.datetime64("2024-02-29T01:02:03", "us"), "TIMESTAMP '2024-02-29 01:02:03.000000'"),
        *((pd.NaT, "NULL"), (pd.Timestamp("2024-02-29"), "TIMESTAMP '2024-02-29 00:00:00.000000'")),
    ],
)  # fmt: skip
def test_a_value_has_its_literal(value: Any, text: str) -> None:
    assert sql_literal(value) == text


def nested(depth: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(depth - 1):
        value = [value]
    return value


def test_values_are_nested_up_to_a_depth() -> None:
    assert sql_literal(nested(NESTING_MAX)).count("ARRAY[") == NESTING_MAX
    with pytest.raises(DataError, match=f"nested more than {NESTING_MAX} levels deep"):
        sql_literal(nested(NESTING_MAX + 1))


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (object(), ProgrammingError, 'a parameter of type "object" has no SQL literal'),
        (1j, ProgrammingError, 'a parameter of type "complex" has no SQL literal'),
        (np.array([1]), ProgrammingError, 'a parameter of type "ndarray" has no SQL literal'),
        (np.datetime64("2024-02-29", "ns"), ProgrammingError, 'a parameter of type "datetime64"'),
        ("a\ud800", DataError, "half of a surrogate pair at character 1"),
        (10**38, DataError, "more than DECIMAL's 38 digits"),
        (-(10**38), DataError, "more than DECIMAL's 38 digits"),
        (D("NaN"), DataError, "DECIMAL has no NaN"),
        (D("-Infinity"), DataError, "DECIMAL has no -Infinity"),
        (D(10**38), DataError, "a Decimal parameter has more than DECIMAL's 38 digits"),
        (D("1E-39"), DataError, "a Decimal parameter has more than DECIMAL's 38 digits"),
        (pd.Timestamp("2024-02-29 00:00:00.000000001"), DataError, "has nanoseconds"),
        (datetime.time(1, tzinfo=UTC), DataError, "TIME has no time zone"),
        (datetime.time(1, 2, 3, 4), DataError, "TIME has milliseconds at most"),
        (datetime.timedelta(microseconds=1), DataError, "an interval has milliseconds at most"),
        ([], DataError, "an empty ARRAY has no literal"),
        ((), DataError, "an empty ROW has no literal"),
        ({}, DataError, "an empty MAP has no literal"),
    ],
)
def test_a_value_without_a_literal_is_refused(value: Any, kind: type[Error], words: str) -> None:
    with pytest.raises(kind, match=words):
        sql_literal(value)
