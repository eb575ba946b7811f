"""A constant becomes a column: its value in every row, whatever its type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.runtime.evaluate.kernel import as_array

CONSTANTS: list[tuple[Any, pa.DataType]] = [
    (-5, pa.int32()),
    (2**63 - 1, pa.int64()),
    (-0.5, pa.float32()),
    (1e300, pa.float64()),
    (7, pa.int8()),
    (True, pa.bool_()),
    (3, pa.date32()),
    (1_500, pa.time32("ms")),
    (-62_135_596_800_000, pa.timestamp("ms")),
    (5, pa.timestamp("ms", tz="UTC")),
    (Decimal("1.25"), pa.decimal128(10, 2)),
    ("é", pa.string()),
    ([("k", 1)], pa.map_(pa.string(), pa.int64())),
    (None, pa.int64()),
]


@pytest.mark.parametrize(("value", "data_type"), CONSTANTS, ids=[str(t) for _, t in CONSTANTS])
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_a_constant_is_in_every_row(value: Any, data_type: pa.DataType, rows: int) -> None:
    expected = pa.array([value] * rows, data_type)
    column = as_array(pa.array([value], data_type)[0], rows)
    column.validate(full=True)
    assert column.type == data_type
    assert column.equals(expected)
