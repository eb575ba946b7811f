"""Nested values as keys: equal bytes for equal values, and rows with them in a multiset."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.runtime.evaluate.nested_keys import encoded
from sqlstream.runtime.state.tables.row_multiset import RowMultiset

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.string()), [None, [], [None], [""], ["a"], ["a", None], ["1:a"], ["a", "b"], ["ab"], ["n"]]),
    (
        pa.list_(pa.list_(pa.int32())),
        [None, [], [[]], [None], [[1]], [[1], []], [[1, 2]], [[1], [2]], [[12]]],
    ),
    (
        pa.struct([("a", pa.int64()), ("b", pa.float64())]),
        [None, {"a": None, "b": None}, {"a": 1, "b": None}, {"a": None, "b": 1.0}, {"a": 1, "b": 1.5}],
    ),
    (
        pa.map_(pa.string(), pa.int32()),
        [None, [], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)], [("a", 12)]],
    ),
    (pa.list_(pa.timestamp("ms")), [None, [], [0], [1_000], [None]]),
    (pa.list_(pa.bool_()), [None, [True], [False], [True, False]]),
]


@pytest.mark.parametrize(("data_type", "values"), VALUES, ids=[str(t) for t, _ in VALUES])
def test_different_values_have_different_bytes_and_equal_ones_the_same(
    data_type: pa.DataType, values: list[Any]
) -> None:
    column = pa.array([*values, *values], data_type)
    found = encoded(column).to_pylist()
    assert found[: len(values)] == found[len(values) :]
    assert all(a != b for a, b in itertools.combinations(found[: len(values)], 2))
    assert encoded(column.slice(2)).to_pylist() == found[2:]
    assert encoded(column.slice(0, 0)).to_pylist() == []


def test_the_entries_of_a_map_have_no_order() -> None:
    column = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int32()))
    one, other = encoded(column).to_pylist()
    assert one == other


def test_rows_with_nested_columns_are_retracted_and_kept_as_they_are() -> None:
    schema = pa.schema([("k", pa.int32()), ("v", pa.list_(pa.string()))])
    rows = RowMultiset(schema)

    def apply(*changes: tuple[int, Any, int]) -> None:
        columns = list(zip(*changes, strict=True))
        types = [*schema.types, pa.int8()]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, types, strict=True)], [*schema.names, ROW_KIND_COLUMN]
        )
        rows.sweep(rows.apply(batch)[0])

    apply((1, ["a"], 0), (2, None, 0), (1, ["a", "b"], 0), (1, ["a"], 0))
    apply((1, ["a", "b"], 3), (2, None, 1), (2, [], 2))
    assert rows.rows().to_pylist() == [{"k": 1, "v": ["a"]}, {"k": 1, "v": ["a"]}, {"k": 2, "v": []}]
