"""Taking rows by position, against pyarrow."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.take import take_batch, take_rows, take_words, true_positions

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [1, -1, None, 0, 127],
    pa.int16(): [1, -1, None, 300, 0],
    pa.int32(): [1, -1, None, 1 << 30, 0],
    pa.int64(): [1, -1, None, 1 << 60, 0],
    pa.float64(): [1.5, -0.0, None, float("inf"), 2.0],
    pa.bool_(): [True, False, None, True, True],
    pa.timestamp("ms"): [datetime.datetime(2020, 1, d + 1) for d in range(4)] + [None],
    pa.decimal128(20, 2): [
        decimal.Decimal("1.25"),
        None,
        decimal.Decimal("-3.00"),
        None,
        decimal.Decimal("9.99"),
    ],
    pa.string(): ["", "a", None, "seventeen letters", "12345678"],
    pa.binary(): [b"", b"a", None, b"seventeen letters", b"1234567"],
    pa.large_string(): ["", "a", None, "seventeen letters", "12345678"],
    pa.binary(3): [b"abc", None, b"def", b"ghi", b"jkl"],
    pa.list_(pa.int64()): [[1, 2], [], None, [3], [4]],
    pa.struct([("x", pa.int64())]): [{"x": 1}, None, {"x": None}, {"x": 2}, {"x": 3}],
    pa.null(): [None] * 5,
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@given(st.lists(st.integers(0, 8), max_size=30), st.integers(0, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_rows_are_those_that_pyarrow_takes(
    data_type: pa.DataType, positions: list[int], offset: int, has_nulls: bool
) -> None:
    values = [v for v in VALUES[data_type] * 4 if has_nulls or v is not None or data_type == pa.null()]
    array = pa.array(values, data_type).slice(offset)
    taken = take_rows(array, np.array(positions, dtype=np.int32))
    taken.validate(full=True)
    assert taken.type == data_type
    assert taken.to_pylist() == [array[i].as_py() for i in positions]


@given(st.data(), st.lists(st.integers(0, 100), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_texts_of_all_lengths_stand_side_by_side(data: st.DataObject, lengths: list[int]) -> None:
    array = pa.array([chr(65 + number) * length for number, length in enumerate(lengths)])
    positions = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=60))
    taken = take_rows(array, np.array(positions, dtype=np.int32))
    assert taken.to_pylist() == [array[i].as_py() for i in positions]


def test_a_dictionary_is_shared_and_not_copied() -> None:
    array = pa.array(["a", "b", None, "a"]).dictionary_encode().slice(1)
    taken = take_rows(array, np.array([2, 0, 1, 1], dtype=np.int32))
    assert taken.to_pylist() == ["a", "b", None, None]
    assert taken.dictionary.buffers()[2].address == array.dictionary.buffers()[2].address


def test_words_are_taken_by_position() -> None:
    words = np.array([1 << 63, 5, 7], dtype=np.uint64)
    assert take_words(words, np.array([2, 0, 0], dtype=np.int32)).tolist() == [7, 1 << 63, 1 << 63]
    assert take_words(words, np.array([], dtype=np.int32)).tolist() == []


@given(st.lists(st.sampled_from([True, False, None]), max_size=80), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_true_positions_are_those_of_true(values: list[bool | None], offset: int) -> None:
    mask = pa.array(values, pa.bool_()).slice(offset)
    assert true_positions(mask).tolist() == [i for i, v in enumerate(mask.to_pylist()) if v]


def test_a_batch_is_taken_column_by_column() -> None:
    batch = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "z"]})
    assert take_batch(batch, np.array([2, 1], dtype=np.int32)).to_pylist() == [
        {"a": 3, "b": "z"},
        {"a": 2, "b": None},
    ]
