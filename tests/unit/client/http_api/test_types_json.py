"""Logical types as JSON, as Flink writes them."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.client.http_api.types_json import columns_json, schema_of, type_json, type_of
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

INT = {"type": "INTEGER", "nullable": True}


@pytest.mark.parametrize(
    ("logical", "written"),
    [
        (sql.STRING, {"type": "VARCHAR", "nullable": True, "length": 2147483647}),
        (sql.char(3).not_null(), {"type": "CHAR", "nullable": False, "length": 3}),
        (sql.BYTES, {"type": "VARBINARY", "nullable": True, "length": 2147483647}),
        (sql.binary(4), {"type": "BINARY", "nullable": True, "length": 4}),
        (sql.decimal(10, 2), {"type": "DECIMAL", "nullable": True, "precision": 10, "scale": 2}),
        (sql.BIGINT.not_null(), {"type": "BIGINT", "nullable": False}),
        (sql.DATE, {"type": "DATE", "nullable": True}),
        (sql.time(3), {"type": "TIME_WITHOUT_TIME_ZONE", "nullable": True, "precision": 3}),
        (sql.timestamp(3), {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "nullable": True, "precision": 3}),
        (sql.timestamp_ltz(9), {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "nullable": True, "precision": 9}),
        (sql.array(sql.INT), {"type": "ARRAY", "nullable": True, "elementType": INT}),
        (sql.multiset(sql.INT), {"type": "MULTISET", "nullable": True, "elementType": INT}),
        (
            sql.map_of(sql.INT, sql.BOOLEAN),
            {
                "type": "MAP",
                "nullable": True,
                "keyType": INT,
                "valueType": {"type": "BOOLEAN", "nullable": True},
            },
        ),
        (
            sql.row(("a", sql.INT)),
            {
                "type": "ROW",
                "nullable": True,
                "fields": [{"name": "a", "fieldType": INT, "description": None}],
            },
        ),
        (
            sql.INTERVAL_DAY_TIME,
            {
                "type": "INTERVAL_DAY_TIME",
                "nullable": True,
                "precision": 2,
                "fractionalPrecision": 3,
                "resolution": "DAY_TO_SECOND",
            },
        ),
        (
            sql.INTERVAL_YEAR_MONTH,
            {
                "type": "INTERVAL_YEAR_MONTH",
                "nullable": True,
                "precision": 2,
                "fractionalPrecision": 0,
                "resolution": "YEAR_TO_MONTH",
            },
        ),
        (sql.NULL, {"type": "NULL", "nullable": True}),
    ],
    ids=lambda value: str(value) if isinstance(value, LogicalType) else "",
)
def test_a_type_is_written_as_flink_writes_it_and_read_again(
    logical: LogicalType, written: dict[str, object]
) -> None:
    assert type_json(logical) == written
    assert type_of(written) == logical


def test_a_time_attribute_is_no_part_of_a_column() -> None:
    schema = Schema.of(("ts", sql.as_rowtime(sql.timestamp(3))), ("n", sql.INT))
    written = columns_json(schema)
    assert [column["comment"] for column in written] == [None, None]
    assert schema_of(written) == Schema.of(("ts", sql.timestamp(3)), ("n", sql.INT))
