"""The rows of an engine in the types of the plan."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.errors import InternalError
from sqlstream.runtime.batch.casting import cast_batch

MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789_123)
IN_UTC = MOMENT.replace(tzinfo=datetime.UTC)


def cast(values: list[Any], given: pa.DataType, wanted: pa.DataType) -> pa.Array:
    batch = pa.record_batch([pa.array(values, given)], names=["x"])
    result = cast_batch(batch, pa.schema([("v", wanted)]))
    assert result.schema.names == ["v"]
    return result.column(0)


@pytest.mark.parametrize(
    ("values", "given", "wanted", "expected"),
    [
        ([1, None], pa.int64(), pa.int64(), [1, None]),
        ([1, None], pa.int64(), pa.int8(), [1, None]),
        ([1.5], pa.float64(), pa.float32(), [1.5]),
        ([Decimal("1.50")], pa.decimal128(38, 2), pa.decimal128(10, 2), [Decimal("1.50")]),
        ([90_000, None], pa.int64(), pa.duration("ms"), [datetime.timedelta(seconds=90), None]),
        ([90], pa.int32(), pa.duration("ms"), [datetime.timedelta(milliseconds=90)]),
        ([MOMENT, None], pa.timestamp("us"), pa.timestamp("ms"), [MOMENT.replace(microsecond=789_000), None]),
        ([MOMENT], pa.timestamp("us"), pa.timestamp("us", "UTC"), [IN_UTC]),
        ([IN_UTC], pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us"), [MOMENT]),
        ([IN_UTC], pa.timestamp("us", "UTC"), pa.timestamp("ms"), [MOMENT.replace(microsecond=789_000)]),
        ([None], pa.int32(), pa.null(), [None]),
        ([[], None, [None]], pa.list_(pa.int32()), pa.list_(pa.null()), [[], None, [None]]),
        ([[[None]], []], pa.list_(pa.list_(pa.int32())), pa.list_(pa.list_(pa.null())), [[[None]], []]),
        (
            [[("a", None)], None],
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.null()),
            [[("a", None)], None],
        ),
        (
            [{"x": None, "y": 1}, None],
            pa.struct([("x", pa.int32()), ("y", pa.int64())]),
            pa.struct([("x", pa.null()), ("y", pa.int32())]),
            [{"x": None, "y": 1}, None],
        ),
        (
            [IN_UTC],
            pa.timestamp("us", "Europe/Berlin"),
            pa.timestamp("ms", "UTC"),
            [IN_UTC.replace(microsecond=789_000)],
        ),
    ],
)
def test_values_are_the_same_in_the_types_of_the_plan(
    values: list[Any], given: pa.DataType, wanted: pa.DataType, expected: list[Any]
) -> None:
    column = cast(values, given, wanted)
    assert column.type == wanted
    assert column.to_pylist() == expected


def test_a_value_that_does_not_fit_is_our_bug() -> None:
    with pytest.raises(InternalError, match='column "v" came as int64, not int8'):
        cast([300], pa.int64(), pa.int8())
    with pytest.raises(InternalError, match="not struct"):
        cast([1], pa.int64(), pa.struct([("a", pa.int64())]))
    with pytest.raises(InternalError, match="the engine gave 1 columns instead of 2"):
        cast_batch(pa.record_batch({"a": [1]}), pa.schema([("a", pa.int64()), ("b", pa.int64())]))
