"""Stable hashes of key columns, and key groups."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import UserError
from sqlstream.runtime.kernels.keys.hashing import (
    hash_columns,
    key_groups,
)


def hexes(columns: list[pa.Array]) -> list[str]:
    return [f"{value:016x}" for value in hash_columns(columns).tolist()]


GOLDEN = {
    "int64": ["e220a8397b1dcdaf", "910a2dec89025cc1", "e4d971771b652c20", "5d3c8a91e6f40b27"],
    "bool": ["910a2dec89025cc1", "e220a8397b1dcdaf"],
    "double": ["f456984dd1d8ce6d", "ff5a832a738c19a6"],
    "decimal": ["e5423eed54ea1390", "c0da42a69e827b45"],
    "timestamp": ["2883f654fe67774c"],
    "string": [
        "d7eaecc51acbb88e",
        "af7904e22d177edb",
        "ded1f4804f7086ee",
        "4da35cd8a690cf16",
        "069efbefdb1bcb4a",
        "21bab3eb5ab6121f",
    ],
    "pair": ["0bb0ae5a0c04bd48", "4cd2815915224f92"],
}


def test_hashes_are_those_that_kept_state_was_written_with() -> None:
    assert {
        "int64": hexes([pa.array([0, 1, -1, None], pa.int64())]),
        "bool": hexes([pa.array([True, False])]),
        "double": hexes([pa.array([0.5, 1e300])]),
        "decimal": hexes([pa.array([Decimal("1.25"), Decimal("-1.25")], pa.decimal128(20, 2))]),
        "timestamp": hexes([pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ms"))]),
        "string": hexes([pa.array(["", "a", "abcd", "12345678", "1234567890123456", "x" * 40])]),
        "pair": hexes([pa.array([1, 2]), pa.array(["a", None])]),
    } == GOLDEN


def test_integers_of_every_width_and_times_of_equal_ticks_hash_equal() -> None:
    expected = hexes([pa.array([5, -3, None], pa.int64())])
    for data_type in (pa.int8(), pa.int16(), pa.int32()):
        assert hexes([pa.array([5, -3, None], data_type)]) == expected
    assert hexes([pa.array([5, -3, None], pa.timestamp("us"))]) == expected


def test_zeros_of_either_sign_and_all_nans_hash_equal() -> None:
    other_nan = np.array([0xFFF8000000000123], dtype=np.uint64).view(np.float64)[0]
    for data_type in (pa.float64(), pa.float32()):
        values = hexes([pa.array(np.array([0.0, -0.0, np.nan, other_nan]), pa.float64()).cast(data_type)])
        assert values[0] == values[1]
        assert values[2] == values[3]


def test_encoding_and_offset_width_do_not_change_a_hash() -> None:
    plain = pa.array(["a", None, "long enough for the loop of the hash", "a"])
    expected = hexes([plain])
    for array in (
        plain.dictionary_encode(),
        plain.cast(pa.large_string()),
        plain.cast(pa.binary()),
        plain.cast(pa.string_view()),
    ):
        assert hexes([array]) == expected
    null_in_dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert hexes([null_in_dictionary]) == hexes([pa.array(["a", None, None])])


def test_order_of_columns_and_place_of_null_matter() -> None:
    one, two, null = pa.array([1]), pa.array([2]), pa.array([None], pa.int64())
    found = [hexes(c)[0] for c in ([one, two], [two, one], [one, null], [null, one], [null, null], [null])]
    assert len(set(found)) == len(found)


TYPES = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(max_size=40)),
    (pa.binary(), st.binary(max_size=40)),
    (pa.decimal128(38, 2), st.integers(-(10**30), 10**30).map(lambda n: Decimal(n).scaleb(-2))),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_hashes_the_same_in_any_slice(data: st.DataObject) -> None:
    columns = []
    for data_type, values in data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3)):
        column = data.draw(st.lists(st.none() | values, min_size=12, max_size=12))
        columns.append(pa.array(column, data_type))
    whole = hash_columns(columns)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 12), st.integers(0, 12))))
    assert hash_columns([column.slice(start, stop - start) for column in columns]).tolist() == (
        whole[start:stop].tolist()
    )


@pytest.mark.parametrize("day", ["2026-11-29", "", "a", None])
def test_a_text_that_all_rows_have_hashes_as_it_does_in_each_row(day: str | None) -> None:
    columns = [pa.array(range(100)), pa.array([day] * 100, pa.string())]
    by_row = [hash_columns([column.slice(n, 1) for column in columns])[0] for n in range(100)]
    assert hash_columns(columns).tolist() == by_row


def test_a_nested_key_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be a key") as caught:
        hash_columns([pa.array([[1], [2]])])
    assert caught.value.code == "SS3090"


def test_keys_spread_evenly_over_key_groups() -> None:
    hashes = hash_columns([pa.array(range(100_000))])
    groups = key_groups(hashes, 128)
    counts = np.bincount(groups, minlength=128)
    assert len(counts) == 128
    assert counts.min() > 600
    assert counts.max() < 1000


def test_no_rows_have_no_hashes() -> None:
    assert len(hash_columns([pa.array([], pa.string()), pa.array([], pa.int64())])) == 0
