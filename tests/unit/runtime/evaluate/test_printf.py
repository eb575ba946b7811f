"""PRINTF gives what java.util.Formatter gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from expression_harness import call, col, evaluate, lit

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING

CASES: list[tuple[str, list[tuple[sql.LogicalType, Any]], str | None]] = [
    ("%s", [(STRING, "a")], "a"),
    ("a%%b%n", [], "a%b\n"),
    ("%d + %d", [(INT, 1), (BIGINT, -2)], "1 + -2"),
    ("[%5d|%-5d|%05d]", [(INT, 42)] * 3, "[   42|42   |00042]"),
    ("[%05d|%+d|% d|%+05d]", [(INT, -42), (INT, 42), (INT, 42), (INT, 42)], "[-0042|+42| 42|+0042]"),
    ("%,d %,d %,d", [(BIGINT, 1234567), (INT, -999), (INT, -1000)], "1,234,567 -999 -1,000"),
    ("%2$s-%1$s", [(STRING, "a"), (STRING, "b")], "b-a"),
    ("%.2f|%f|%.0f", [(DOUBLE, 0.125), (DOUBLE, 1.0), (DOUBLE, 2.5)], "0.13|1.000000|3"),
    (
        "%8.3f|%-8.1f|%08.2f",
        [(DOUBLE, 3.14159), (DOUBLE, 1.05), (DOUBLE, -1.5)],
        "   3.142|1.1     |-0001.50",
    ),
    ("%,.2f", [(sql.decimal(12, 3), Decimal("1234567.895"))], "1,234,567.90"),
    ("%.1f", [(DOUBLE, float("nan"))], "NaN"),
    (
        "%+6.1f|%+,.1f|%06.1f",
        [(DOUBLE, float("nan")), (DOUBLE, float("inf")), (DOUBLE, -float("inf"))],
        "   NaN|+Infinity|-Infinity",
    ),
    ("%,.1f|%.2f", [(DOUBLE, 1e33), (DOUBLE, -1e40)], "1" + ",000" * 11 + ".0|-1" + "0" * 40 + ".00"),
    (
        "%.1f|%.0f|%.1f",
        [(DOUBLE, -0.0), (DOUBLE, -0.25), (sql.decimal(4, 2), Decimal("-0.04"))],
        "-0.0|-0|-0.0",
    ),
    ("%.2f", [(sql.decimal(38, 0), Decimal("9" * 38))], "9" * 38 + ".00"),
    ("%x %X %o", [(INT, 255), (INT, 255), (INT, 8)], "ff FF 10"),
    ("%x %o", [(INT, -1), (INT, -1)], "ffffffff 37777777777"),
    ("%x", [(BIGINT, -1)], "ffffffffffffffff"),
    ("%04x %x", [(INT, 10), (INT, 0)], "000a 0"),
    ("%b %b %B", [(BOOLEAN, False), (INT, 0), (BOOLEAN, True)], "false true TRUE"),
    ("%b", [(BOOLEAN, None)], "false"),
    ("%s %d %5s", [(STRING, None), (INT, None), (STRING, None)], "null null  null"),
    ("%s", [(NULL, None)], "null"),
    ("%S|%.2s|%4.1s|", [(STRING, "aé"), (STRING, "abc"), (STRING, "xyz")], "AÉ|ab|   x|"),
    ("%s %s", [(DOUBLE, 1.5), (BOOLEAN, True)], "1.5 true"),
    ("%s %s", [(STRING, "a")], None),
    ("%d", [(STRING, "a")], None),
    ("%d", [(DOUBLE, 1.0)], None),
    ("%f", [(INT, 1)], None),
    ("%y", [(INT, 1)], None),
    ("%", [], None),
    ("%-d", [(INT, 1)], None),
    ("%s", [(STRING, "a"), (STRING, "left over")], "a"),
    ("", [], ""),
]


@pytest.mark.parametrize(("form", "values", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_a_format_gives_what_java_gives(
    form: str, values: list[tuple[sql.LogicalType, Any]], wanted: str | None
) -> None:
    row = tuple(value for _, value in values)
    columns = [col(i, t) for i, (t, _) in enumerate(values)]
    if columns and all(t is not NULL for t, _ in values):
        assert evaluate(call("PRINTF", lit(form, STRING.not_null()), *columns), [row]) == [wanted]
    formats = col(len(columns), STRING)
    assert evaluate(call("PRINTF", formats, *columns), [(*row, form), (*row, None)]) == [wanted, None]


def test_formats_of_a_column_are_told_apart() -> None:
    rows = [("%d", 1), ("<%3d>", 2), (None, 3), ("%d", 4), ("%y", 5)]
    assert evaluate(call("PRINTF", col(0, STRING), col(1, INT)), rows) == ["1", "<  2>", None, "4", None]


@pytest.mark.parametrize("form", ["%e", "%c", "%(d", "%#x"])
def test_conversions_of_java_that_are_not_there_are_refused(form: str) -> None:
    with pytest.raises(UserError, match="PRINTF does not know") as caught:
        evaluate(call("PRINTF", lit(form, STRING.not_null()), col(0, INT)), [(1,)])
    assert caught.value.code == "SS3462"
