"""Gathering from many chunks against indexing a Python list."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernels.gather import gather, locate

VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-9, 9)),
    (pa.int16(), st.integers(-9, 9)),
    (pa.int32(), st.integers(-9, 9)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.decimal128(12, 2), st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=3)),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
]


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_gather_equals_indexing_the_whole(data: st.DataObject) -> None:
    data_type, values = data.draw(st.sampled_from(VALUES))
    parts = data.draw(st.lists(st.lists(st.none() | values, min_size=2, max_size=9), min_size=1, max_size=4))
    arrays = [pa.array(part, data_type).slice(1) for part in parts]
    flat = [value for part in parts for value in part[1:]]
    positions = data.draw(st.lists(st.integers(0, len(flat) - 1), max_size=20))
    starts = np.cumsum([0, *[len(array) for array in arrays[:-1]]])
    found = gather(arrays, *locate(starts, np.array(positions, dtype=np.int64)))
    found.validate(full=True)
    assert found.type == data_type
    assert found.to_pylist() == [flat[position] for position in positions]
