"""CURRENT_WATERMARK: its type, and the places without a watermark."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream import types as sql
from sqlstream.errors import UserError

DDL = """
CREATE TABLE t (k INT, at TIMESTAMP(6), rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'stream');
CREATE TABLE z (k INT, rt TIMESTAMP_LTZ(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'stream');
"""


@pytest.mark.parametrize(("table", "wanted"), [("t", sql.timestamp(3)), ("z", sql.timestamp_ltz(3))])
def test_a_watermark_is_of_the_type_of_the_row_time_in_milliseconds(
    table: str, wanted: sql.LogicalType
) -> None:
    query = f"SELECT CURRENT_WATERMARK(rt) FROM {table} WHERE CURRENT_WATERMARK(rt) IS NULL OR rt > CURRENT_WATERMARK(rt)"
    (plan,) = compile_script(f"{DDL} {query};")
    assert plan.relational[0].schema.types == (wanted,)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT CURRENT_WATERMARK(at) FROM t",
            "CURRENT_WATERMARK takes a column that is a rowtime attribute",
        ),
        (
            "SELECT CURRENT_WATERMARK(m) FROM (SELECT MAX(rt) AS m FROM t)",
            "CURRENT_WATERMARK takes a column that is a rowtime attribute",
        ),
        (
            "SELECT CURRENT_WATERMARK(rt + INTERVAL '1' DAY) FROM t",
            "CURRENT_WATERMARK takes a column that is a rowtime attribute",
        ),
        (
            "SELECT t.k FROM t JOIN z ON t.k = z.k AND CURRENT_WATERMARK(z.rt) IS NULL",
            "ON takes no CURRENT_WATERMARK",
        ),
        ("SELECT COUNT(*) FROM t GROUP BY CURRENT_WATERMARK(rt)", "GROUP BY takes no CURRENT_WATERMARK"),
    ],
)
def test_what_has_no_watermark_is_refused(query: str, message: str) -> None:
    text = f"{DDL} {query};"
    with pytest.raises(UserError) as error:
        compile_script(text)
    span = error.value.span
    assert (error.value.code, error.value.message) == ("SS3445", message)
    assert span is not None
    assert text[span.start : span.end].startswith("CURRENT_WATERMARK(")
