"""The key index against a Python dict."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.kernels.keys.hashing import hash_columns
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.memory.array_memory import ArrayMemory, in_force

# Few distinct values, so that keys repeat within and between batches.
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 2**62, None]),
    (pa.int32(), [0, 5, -5, None]),
    (pa.bool_(), [True, False, None]),
    (pa.float64(), [0.0, -0.0, math.nan, 1.5, None]),
    (pa.string(), ["", "a", "b", "12345678", "123456789", "123456780", "long " * 20, None]),
    (pa.large_binary(), [b"", b"\0", b"\0\0", b"123456789", None]),
    (pa.decimal128(30, 1), [Decimal("0.0"), Decimal("-1.5"), Decimal(10**25), None]),
    (pa.timestamp("ms"), [0, 1000, None]),
]


class ScarceMemory(ArrayMemory):
    """That of an index which looks keys up in the order of its arrays."""

    is_scarce = True


def canonical(value: Any) -> Any:
    """A value under which SQL's grouping calls two values the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def rows_of(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    return [tuple(map(canonical, row)) for row in zip(*[c.to_pylist() for c in columns], strict=True)]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_index_behaves_as_a_dict(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    types = [data_type for data_type, _ in fields]
    with in_force(data.draw(st.sampled_from([ArrayMemory(), ScarceMemory()]))):
        index = KeyIndex(types)
    reference: dict[tuple[Any, ...], int] = {}
    for _ in range(data.draw(st.integers(1, 6))):
        count = data.draw(st.integers(0, 20))
        columns = []
        for data_type, values in fields:
            drawn = data.draw(st.lists(st.sampled_from(values), min_size=count + 3, max_size=count + 3))
            columns.append(pa.array(drawn, data_type).slice(2, count))
        keys = rows_of(columns)
        assert index.get(columns).tolist() == [reference.get(key, -1) for key in keys]
        slots, is_new = index.get_or_insert(columns)
        for key, slot, new in zip(keys, slots.tolist(), is_new.tolist(), strict=True):
            assert new == (key not in reference)
            assert new or reference[key] == slot
            reference[key] = slot
        assert len(set(reference.values())) == len(reference) == len(index)
        if reference:
            doomed = data.draw(st.lists(st.sampled_from(sorted(reference.values())), max_size=6))
            index.delete(np.array(doomed, dtype=np.int64))
            reference = {key: slot for key, slot in reference.items() if slot not in doomed}
        live = index.slots()
        assert sorted(reference.values()) == live.tolist()
        kept = index.keys(live)
        assert [array.type for array in kept] == types
        assert dict(zip(rows_of(kept), live.tolist(), strict=True)) == reference
        assert index.hashes(live).tolist() == hash_columns(kept).tolist()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_distinct_keys_put_in_at_once_are_found_as_if_looked_up_one_by_one(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    index, reference = (KeyIndex([data_type for data_type, _ in fields]) for _ in range(2))
    for _ in range(data.draw(st.integers(1, 3))):
        count = data.draw(st.integers(0, 20))
        columns = [
            pa.array(data.draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)), data_type)
            for data_type, values in fields
        ]
        slots, is_new = reference.get_or_insert(columns)
        new = [column.filter(pa.array(is_new)) for column in columns]
        if data.draw(st.booleans()):
            index.reserve(count)
        assert index.insert_new(new).tolist() == slots[is_new].tolist()
        assert index.get(columns).tolist() == slots.tolist()
        doomed = slots[: data.draw(st.integers(0, 3))]
        for each in (index, reference):
            each.delete(doomed)
    live = reference.slots()
    assert index.slots().tolist() == live.tolist()
    assert rows_of(index.keys(live)) == rows_of(reference.keys(live))


def test_many_distinct_keys_put_in_at_once_are_all_found() -> None:
    for keys in (pa.array(range(0, 900_000, 3)), pa.array([f"key number {n}" for n in range(300_000)])):
        index = KeyIndex([keys.type])
        assert index.insert_new([keys.slice(0, 100)]).tolist() == list(range(100))
        assert index.insert_new([keys.slice(100)]).tolist() == list(range(100, 300_000))
        assert index.get([keys]).tolist() == list(range(300_000))
        assert index.keys(np.arange(300_000))[0].equals(keys)


@pytest.mark.parametrize("kind", ["int64", "pair", "string"])
def test_many_keys_survive_growth_and_mass_deletion(kind: str) -> None:
    numbers = np.arange(50_000) * 7919
    arrays = {
        "int64": [pa.array(numbers)],
        "pair": [pa.array(numbers), pa.array(numbers % 97)],
        "string": [pa.array([f"a key longer than eight {n}" for n in numbers])],
    }[kind]
    index = KeyIndex([array.type for array in arrays])
    for start in range(0, 50_000, 7_000):
        slots, is_new = index.get_or_insert([array.slice(start, 7_000) for array in arrays])
        assert is_new.all()
        assert slots.tolist() == list(range(start, min(start + 7_000, 50_000)))
    before = index.nbytes
    index.delete(np.arange(0, 50_000, 3))
    index.delete(np.arange(1, 50_000, 3))
    found = index.get(arrays)
    assert (found[2::3] == np.arange(2, 50_000, 3)).all()
    assert (found[0::3] == -1).all()
    assert index.keys(np.arange(2, 50_000, 3))[0].to_pylist() == arrays[0].to_pylist()[2::3]
    slots, is_new = index.get_or_insert(arrays)
    assert is_new.sum() == 33_334
    assert index.slot_count == 50_000
    assert len(index) == 50_000
    assert kind == "string" or index.nbytes <= before + 8 * 50_000


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_keys_whose_hashes_are_equal_are_told_apart(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(VALUES), min_size=2, max_size=3))
    index = KeyIndex([t for t, _ in chosen])
    slots: dict[tuple[Any, ...], int] = {}
    for _ in range(4):
        rows = data.draw(st.lists(st.tuples(*(st.sampled_from(v) for _, v in chosen)), max_size=40))
        columns = [pa.array([row[i] for row in rows], t) for i, (t, _) in enumerate(chosen)]
        hashes = np.full(len(rows), 5, dtype=np.uint64)
        keys = rows_of(columns)
        found, is_new = index.get_or_insert(columns, hashes)
        assert is_new.tolist() == [key not in slots and key not in keys[:i] for i, key in enumerate(keys)]
        for key, slot in zip(keys, found.tolist(), strict=True):
            assert slots.setdefault(key, slot) == slot
        ids, first_rows = group(columns, hashes)
        assert [keys[first_rows[g]] for g in ids] == keys
        assert len(first_rows) == len(set(keys))
        gone = data.draw(st.lists(st.sampled_from(sorted(slots, key=repr)), unique_by=repr)) if slots else []
        index.delete(np.array([slots.pop(key) for key in gone], dtype=np.int64))
    assert len(set(slots.values())) == len(slots) == len(index)


def test_null_is_told_from_zero_beside_a_column_that_is_the_same_in_all_rows() -> None:
    columns = [pa.array([0, None], pa.int64()), pa.array([0, 0], pa.int64())]
    assert group(columns, np.full(2, 5, dtype=np.uint64))[0].tolist() == [0, 1]


def test_null_is_a_key_apart_from_zero_and_the_empty_string() -> None:
    numbers = KeyIndex([pa.int64()])
    assert numbers.get_or_insert([pa.array([0, None, None, 0])])[0].tolist() == [0, 1, 1, 0]
    assert numbers.keys(np.array([1, 0]))[0].to_pylist() == [None, 0]
    texts = KeyIndex([pa.string(), pa.int64()])
    slots, is_new = texts.get_or_insert([pa.array(["", None, ""]), pa.array([None, None, None], pa.int64())])
    assert slots.tolist() == [0, 1, 0]
    assert is_new.tolist() == [True, True, False]


def test_a_column_of_type_null_comes_back_as_such() -> None:
    index = KeyIndex([pa.null(), pa.string()])
    slots, is_new = index.get_or_insert([pa.nulls(3), pa.array(["a", "b", "a"])])
    assert (slots.tolist(), is_new.tolist()) == ([0, 1, 0], [True, True, False])
    assert index.keys(index.slots()) == [pa.nulls(2), pa.array(["a", "b"])]


def test_dictionary_columns_find_plain_keys() -> None:
    index = KeyIndex([pa.dictionary(pa.int32(), pa.string())])
    index.get_or_insert([pa.array(["a", "b"])])
    assert index.get([pa.array(["b", "c", "a"]).dictionary_encode()]).tolist() == [1, -1, 0]


def test_a_deleted_slot_goes_to_the_next_absent_key() -> None:
    index = KeyIndex([pa.int64()])
    index.get_or_insert([pa.array([10, 11, 12])])
    index.delete(np.array([1, 1]))
    assert len(index) == 2
    assert index.get_or_insert([pa.array([13, 14])])[0].tolist() == [1, 3]


def test_keys_of_another_kind_are_our_bug() -> None:
    with pytest.raises(InternalError):
        KeyIndex([pa.int64()]).get([pa.array(["a"])])
    with pytest.raises(InternalError):
        KeyIndex([pa.int64()]).get([pa.array([1]), pa.array([2])])


def test_types_of_one_word_type_are_interchangeable_and_others_are_not() -> None:
    columns = [
        [pa.array([7], pa.int64()), pa.array([7], pa.timestamp("ms"))],
        [pa.array([7.0], pa.float64())],
        [pa.array(["7"]), pa.array([b"7"]), pa.array(["7"], pa.large_string())],
        [pa.array([Decimal("7.0")], pa.decimal128(30, 1))],
    ]
    for alike in columns:
        index = KeyIndex([alike[0].type])
        index.get_or_insert([alike[0]])
        assert [index.get([other]).tolist() for other in alike] == [[0]] * len(alike)
        for other in (c for others in columns if others is not alike for c in others):
            with pytest.raises(InternalError, match="for an index of"):
                index.get([other])
