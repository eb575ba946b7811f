"""Rows in JSON: each type in both row formats."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.client.gateway.pages_json import RowFormat, rows_json
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

MOMENT = datetime.datetime(2024, 2, 29, 3, 4, 5, 678000)


@pytest.mark.parametrize(
    ("logical", "value", "in_json", "in_text"),
    [
        (sql.BOOLEAN, True, True, "TRUE"),
        (sql.TINYINT, -1, -1, "-1"),
        (sql.BIGINT, 2**63 - 1, 2**63 - 1, "9223372036854775807"),
        (sql.DOUBLE, 1e30, 1e30, "1.0E30"),
        (sql.DOUBLE, float("inf"), "Infinity", "Infinity"),
        (sql.decimal(10, 2), decimal.Decimal("1.50"), 1.5, "1.50"),
        (sql.STRING, 'a"\\\n\u0001é𝄞', 'a"\\\n\u0001é𝄞', 'a"\\\n\u0001é𝄞'),
        (sql.STRING, "", "", ""),
        (sql.BYTES, b"\x01\xff", "Af8=", "x'01ff'"),
        (sql.DATE, datetime.date(2024, 2, 29), "2024-02-29", "2024-02-29"),
        (sql.time(0), datetime.time(1, 2, 3), "01:02:03", "01:02:03"),
        (sql.timestamp(3), MOMENT, "2024-02-29T03:04:05.678", "2024-02-29 03:04:05.678"),
        (sql.timestamp_ltz(3), MOMENT, "2024-02-29T03:04:05.678Z", "2024-02-29 05:04:05.678"),
        (sql.array(sql.INT), [1, None], [1, None], "[1, NULL]"),
        (sql.map_of(sql.STRING, sql.INT), [("k", 1)], {"k": 1}, "{k=1}"),
        (sql.multiset(sql.STRING), [("k", 2)], {"k": 2}, "{k=2}"),
        (sql.row(("a", sql.INT), ("b", sql.STRING)), {"a": 1, "b": None}, {"a": 1, "b": None}, "(1, NULL)"),
        (sql.array(sql.INTERVAL_YEAR_MONTH), [14], [14], "[+1-02]"),
        (sql.INTERVAL_DAY_TIME, datetime.timedelta(days=1, seconds=2), 86_402_000, "+1 00:00:02.000"),
        (sql.INTERVAL_YEAR_MONTH, 14, 14, "+1-02"),
        (sql.INT, None, None, None),
        (sql.NULL, None, None, None),
        (sql.STRING, "<NULL>", "<NULL>", "<NULL>"),
    ],
    ids=lambda value: str(value) if isinstance(value, LogicalType) else "",
)
def test_a_value_has_one_text_in_each_row_format(
    logical: LogicalType, value: Any, in_json: object, in_text: str | None
) -> None:
    schema = Schema.of(("v", logical))
    batch = pa.RecordBatch.from_pylist([{"v": value}], to_arrow_schema(schema))
    zone = "Africa/Cairo"
    assert json.loads(rows_json([batch], schema, RowFormat.JSON, zone)) == [
        {"kind": "INSERT", "fields": [in_json]}
    ]
    assert json.loads(rows_json([batch], schema, RowFormat.PLAIN_TEXT, zone)) == [
        {"kind": "INSERT", "fields": [in_text]}
    ]


def test_rows_keep_their_kinds_and_their_order_over_batches() -> None:
    schema = Schema.of(("a", sql.INT), ("b", sql.array(sql.STRING)))
    rows = [{"a": i, "b": [str(i)]} for i in range(4)]
    batch = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema))
    changes = [with_row_kinds(batch.slice(kind, 1), kind) for kind in RowKind]
    assert json.loads(rows_json(changes, schema, RowFormat.JSON, "UTC")) == [
        {"kind": "INSERT", "fields": [0, ["0"]]},
        {"kind": "UPDATE_BEFORE", "fields": [1, ["1"]]},
        {"kind": "UPDATE_AFTER", "fields": [2, ["2"]]},
        {"kind": "DELETE", "fields": [3, ["3"]]},
    ]


def test_no_rows_are_an_empty_array() -> None:
    schema = Schema.of(("a", sql.INT))
    empty = pa.RecordBatch.from_pylist([], to_arrow_schema(schema))
    assert rows_json([], schema, RowFormat.JSON, "UTC") == b"[]"
    assert rows_json([empty], schema, RowFormat.PLAIN_TEXT, "UTC") == b"[]"
