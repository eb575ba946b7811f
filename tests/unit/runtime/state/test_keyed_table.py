"""Keyed tables against a dict, and their snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernels.hashing import key_group_range
from runtime.state.keyed_table import KeyedTable

KEYS = pa.schema([("id", pa.int64()), ("name", pa.string())])
VALUES = pa.schema(
    [("total", pa.int32()), ("flag", pa.bool_()), ("at", pa.timestamp("ms")), ("tags", pa.list_(pa.string()))]
)


def rows_of(table: Any) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(row.pop("id"), row.pop("name")): row for row in table.to_pylist()}


def batch(schema: pa.Schema, columns: list[list[Any]]) -> list[pa.Array]:
    return [
        pa.array([None, *column], field.type).slice(1) for column, field in zip(columns, schema, strict=True)
    ]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_table_behaves_as_a_dict_and_restores_at_any_parallelism(data: st.DataObject) -> None:
    table = KeyedTable(KEYS, VALUES)
    reference: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    key = st.tuples(st.none() | st.integers(0, 5), st.sampled_from([None, "", "a name that is long"]))
    value = st.tuples(
        st.none() | st.integers(-9, 9),
        st.none() | st.booleans(),
        st.none() | st.datetimes().map(lambda time: time.replace(microsecond=0)),
        st.none() | st.lists(st.text(max_size=2), max_size=2),
    )
    for _ in range(data.draw(st.integers(1, 5))):
        pairs = data.draw(st.lists(st.tuples(key, value), max_size=8))
        keys = batch(KEYS, [[k[n] for k, _ in pairs] for n in range(2)])
        slots, is_new = table.get_or_create(keys)
        assert is_new.sum() == len({k for k, _ in pairs} - set(reference))
        fresh = table.values(slots[is_new]).to_pylist()
        assert all(cell is None for row in fresh for cell in row.values())
        table.put(slots, batch(VALUES, [[v[n] for _, v in pairs] for n in range(4)]))
        reference.update(pairs)
        doomed = (
            data.draw(st.lists(st.sampled_from(sorted(reference, key=repr)), max_size=3)) if reference else []
        )
        found = table.get(batch(KEYS, [[k[n] for k in doomed] for n in range(2)]))
        table.delete(found)
        reference = {k: v for k, v in reference.items() if k not in doomed}
        expected = {k: dict(zip(VALUES.names, v, strict=True)) for k, v in reference.items()}
        assert rows_of(table.scan()) == expected
    snapshot = table.snapshot(16)
    snapshot.validate(full=True)
    groups = snapshot.column("$key_group").to_pylist()
    assert groups == sorted(groups)
    together: dict[tuple[Any, ...], Any] = {}
    for subtask in range(3):
        part = KeyedTable(KEYS, VALUES)
        part.restore(snapshot, *key_group_range(subtask, 3, 16))
        assert not set(together) & set(rows_of(part.scan()))
        together.update(rows_of(part.scan()))
    assert together == expected


def test_snapshots_are_in_parts_of_bounded_size() -> None:
    table = KeyedTable(pa.schema([("id", pa.int64())]), pa.schema([("n", pa.int64())]))
    numbers = pa.array(np.arange(200_000))
    slots, _ = table.get_or_create([numbers])
    table.put(slots, [numbers])
    snapshot = table.snapshot(128)
    assert max(part.num_rows for part in snapshot.to_batches()) <= 65_536
    copy = KeyedTable(table.key_schema, table.value_schema)
    copy.restore(snapshot, 0, 128)
    assert len(copy) == 200_000
    assert copy.values(copy.get([numbers])).column(0).equals(numbers)


@pytest.mark.parametrize("size", [0, 3])
def test_a_table_without_values_is_a_set_of_keys(size: int) -> None:
    table = KeyedTable(pa.schema([("id", pa.int64())]), pa.schema([]))
    table.get_or_create([pa.array(range(size), pa.int64())])
    assert table.scan().to_pylist() == [{"id": n} for n in range(size)]
    assert table.snapshot(128).num_rows == size
