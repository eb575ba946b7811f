"""Which of DuckDB's types hold which of ours."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.runtime.connectors.duckdb.types import can_read, is_carried, type_name

INTEGERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "HUGEINT",
)
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
STORED = (
    *(
        *INTEGERS,
        *TIMESTAMPS,
        "TIMESTAMP WITH TIME ZONE",
        "BOOLEAN",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "TIME",
        "BLOB",
    ),
    *("VARCHAR", "UUID", "ENUM('a', 'b')", "INTEGER[]", "INTEGER[][]", "JSON"),
    *("INTEGER[4]", "FLOAT[3]", "ENUM('a[', 'b')[]"),
)


@pytest.mark.parametrize(
    ("declared", "readable"),
    [
        (sql.TINYINT, ("TINYINT",)),
        (sql.SMALLINT, ("TINYINT", "SMALLINT", "UTINYINT")),
        (sql.INT, ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT")),
        (sql.BIGINT, ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")),
        (sql.FLOAT, ("FLOAT",)),
        (sql.DOUBLE, ("FLOAT", "DOUBLE")),
        (sql.BOOLEAN, ("BOOLEAN",)),
        (sql.DATE, ("DATE",)),
        (sql.STRING, ("VARCHAR", "UUID", "ENUM('a', 'b')")),
        (sql.char(3), ("VARCHAR", "UUID", "ENUM('a', 'b')")),
        (sql.BYTES, ("BLOB",)),
        (sql.timestamp(3), TIMESTAMPS),
        (sql.timestamp_ltz(3), ("TIMESTAMP WITH TIME ZONE",)),
        (sql.decimal(3, 0), ("TINYINT", "UTINYINT")),
        (sql.decimal(2, 0), ()),
        (sql.decimal(5, 1), ("TINYINT", "UTINYINT")),
        (sql.decimal(12, 2), ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")),
        (sql.decimal(19, 0), (*INTEGERS[:4], *INTEGERS[4:7])),
        (sql.decimal(20, 0), INTEGERS[:8]),
        (sql.array(sql.INT), ("INTEGER[]", "INTEGER[4]")),
        (sql.array(sql.BIGINT), ("INTEGER[]", "INTEGER[4]")),
        (sql.array(sql.DOUBLE), ("FLOAT[3]",)),
        (sql.array(sql.STRING), ("ENUM('a[', 'b')[]",)),
        (sql.array(sql.BYTES), ()),
    ],
    ids=str,
)
def test_a_column_is_read_when_all_its_values_fit(
    declared: sql.LogicalType, readable: tuple[str, ...]
) -> None:
    assert {stored for stored in STORED if can_read(stored, declared)} == set(readable)
    assert all(can_read(stored.lower(), declared) for stored in readable if not stored.startswith("ENUM"))


@pytest.mark.parametrize(
    ("stored", "fits"),
    [
        ("DECIMAL(10,2)", True),
        ("DECIMAL(10, 2)", True),
        ("DECIMAL(9,1)", True),
        ("DECIMAL(10,1)", False),
        ("DECIMAL(10,3)", False),
        ("DECIMAL(11,2)", False),
        ("DECIMAL", False),
    ],
)
def test_a_decimal_is_read_when_its_digits_fit_on_both_sides(stored: str, fits: bool) -> None:
    assert can_read(stored, sql.decimal(10, 2)) is fits


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        (sql.INT, "INTEGER"),
        (sql.STRING, "VARCHAR"),
        (sql.char(3), "VARCHAR"),
        (sql.decimal(5, 1), "DECIMAL(5, 1)"),
        (sql.timestamp(6), "TIMESTAMP"),
        (sql.timestamp(7), "TIMESTAMP_NS"),
        (sql.timestamp_ltz(6), "TIMESTAMPTZ"),
    ],
)
def test_each_type_has_one_of_duckdb(declared: sql.LogicalType, name: str) -> None:
    assert type_name(declared) == name
    assert is_carried(declared)


@pytest.mark.parametrize("declared", [sql.timestamp_ltz(7), sql.array(sql.BYTES), sql.INTERVAL_DAY_TIME])
def test_other_types_are_not_carried(declared: sql.LogicalType) -> None:
    assert not is_carried(declared)
