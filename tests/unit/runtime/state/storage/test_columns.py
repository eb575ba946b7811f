"""Columns by slot and rows by id against dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.state.storage.columns import RowStore, VarColumn

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def slots_of(*slots: int) -> np.ndarray:
    return np.array(slots, dtype=np.int64)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_var_column_behaves_as_a_dict(data: st.DataObject) -> None:
    column = VarColumn(pa.list_(pa.string()))
    reference: dict[int, Any] = {}
    for _ in range(data.draw(st.integers(1, 6))):
        slots = data.draw(st.lists(st.integers(0, 15), max_size=8))
        cell = st.none() | st.lists(st.text(max_size=3), max_size=2)
        values = data.draw(st.lists(cell, min_size=len(slots), max_size=len(slots)))
        column.put(np.array(slots, dtype=np.int64), pa.array(values, column.type))
        reference.update(zip(slots, values, strict=True))
        doomed = data.draw(st.lists(st.integers(0, 20), max_size=4))
        column.delete(np.array(doomed, dtype=np.int64))
        for slot in doomed:
            reference.pop(slot, None)
        assert column.gather(np.arange(20)).to_pylist() == [reference.get(slot) for slot in range(20)]


def test_values_put_over_are_dropped() -> None:
    column = VarColumn(pa.string())
    for turn in range(50):
        column.put(np.arange(1000), pa.array([f"value {turn} of {n}" for n in range(1000)]))
    assert column.nbytes < 400_000
    assert column.gather(slots_of(0, 999)).to_pylist() == ["value 49 of 0", "value 49 of 999"]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_row_store_behaves_as_a_dict(data: st.DataObject) -> None:
    store = RowStore(SCHEMA)
    reference: dict[int, int] = {}
    for turn in range(data.draw(st.integers(1, 6))):
        count = data.draw(st.integers(0, 9))
        numbers = [100 * turn + n for n in range(count)]
        row_ids = store.append(pa.record_batch({"n": numbers, "s": list(map(str, numbers))}, schema=SCHEMA))
        assert not set(row_ids.tolist()) & set(reference)
        reference.update(zip(row_ids.tolist(), numbers, strict=True))
        if reference:
            doomed = data.draw(st.lists(st.sampled_from(sorted(reference)), max_size=6))
            store.delete(np.array(doomed, dtype=np.int64))
            reference = {row: number for row, number in reference.items() if row not in doomed}
        live = np.array(sorted(reference), dtype=np.int64)
        assert len(store) == len(reference)
        assert store.gather(live).column(1).to_pylist() == [str(reference[row]) for row in sorted(reference)]


def test_deleted_rows_give_their_memory_back() -> None:
    store = RowStore(SCHEMA)
    batch = pa.record_batch({"n": list(range(1000)), "s": [f"text {n}" for n in range(1000)]}, schema=SCHEMA)
    kept = []
    for _ in range(100):
        row_ids = store.append(batch)
        store.delete(row_ids[1:])
        kept.append(row_ids[0])
    assert len(store) == 100
    assert store.nbytes < 400_000
    assert store.id_count <= 1100
    assert store.gather(np.array(kept)).column(0).to_pylist() == [0] * 100
