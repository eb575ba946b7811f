"""Which casts there are."""

from __future__ import annotations

import pytest

from sqlstream import types as sql
from sqlstream.planner.bind.expressions.casts import can_cast, can_cast_implicitly
from sqlstream.types import LogicalType


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (sql.INT, sql.BIGINT),
        (sql.BIGINT, sql.decimal(20, 0)),
        (sql.decimal(5, 2), sql.DOUBLE),
        (sql.char(3), sql.STRING),
        (sql.timestamp(3), sql.timestamp_ltz(3)),
        (sql.NULL, sql.DATE),
        (sql.row(("a", sql.INT)), sql.row(("b", sql.BIGINT))),
    ],
)
def test_an_insert_widens_by_itself(source: LogicalType, target: LogicalType) -> None:
    assert can_cast_implicitly(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (sql.BIGINT, sql.INT),
        (sql.DOUBLE, sql.FLOAT),
        (sql.STRING, sql.INT),
        (sql.INT, sql.STRING),
        (sql.BIGINT, sql.BOOLEAN),
        (sql.BOOLEAN, sql.decimal(3, 1)),
        (sql.STRING, sql.char(3)),
        (sql.array(sql.BIGINT), sql.array(sql.INT)),
    ],
)
def test_an_insert_narrows_only_with_a_cast(source: LogicalType, target: LogicalType) -> None:
    assert not can_cast_implicitly(source, target)
    assert can_cast(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (sql.BIGINT, sql.timestamp_ltz(3)),
        (sql.DATE, sql.INT),
        (sql.INT, sql.array(sql.INT)),
        (sql.BOOLEAN, sql.DATE),
        (sql.DOUBLE, sql.BOOLEAN),
        (sql.FLOAT, sql.BOOLEAN),
        (sql.decimal(3, 1), sql.BOOLEAN),
        (sql.time(0), sql.DATE),
        (sql.row(("a", sql.INT)), sql.row(("a", sql.INT), ("b", sql.INT))),
        (sql.row(("a", sql.INT)), sql.row(("a", sql.DATE))),
        (sql.map_of(sql.STRING, sql.INT), sql.map_of(sql.STRING, sql.DATE)),
    ],
)
def test_some_types_never_convert(source: LogicalType, target: LogicalType) -> None:
    assert not can_cast(source, target)
