"""Rows by key against a dict of lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.state.keyed_rows import KeyedRows

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
KEY = st.sampled_from([None, "", "a", "a key that is long", "another"])


def pairs_of(rows: KeyedRows, probes: list[Any]) -> list[tuple[int, int]]:
    indices, row_ids = rows.match(rows.find([pa.array(probes, pa.string())]))
    return list(zip(indices.tolist(), rows.gather(row_ids).column(1).to_pylist(), strict=True))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_rows_behave_as_a_dict_of_lists(data: st.DataObject) -> None:
    rows = KeyedRows([pa.string()], SCHEMA)
    reference: dict[Any, list[int]] = {}
    numbers: dict[int, int] = {}
    for turn in range(data.draw(st.integers(1, 5))):
        keys = data.draw(st.lists(KEY, max_size=8))
        values = [100 * turn + n for n in range(len(keys))]
        batch = pa.record_batch({"k": keys, "n": values}, schema=SCHEMA)
        row_ids = rows.append(batch, [batch.column(0)])
        numbers.update(zip(row_ids.tolist(), values, strict=True))
        for key, value in zip(keys, values, strict=True):
            reference.setdefault(key, []).append(value)
        if numbers:
            doomed = data.draw(st.lists(st.sampled_from(sorted(numbers)), max_size=5, unique=True))
            rows.delete(np.array(doomed, dtype=np.int64))
            gone = {numbers.pop(row) for row in doomed}
            reference = {key: [v for v in kept if v not in gone] for key, kept in reference.items()}
    probes = data.draw(st.lists(KEY, max_size=6))
    expected = [(number, v) for number, key in enumerate(probes) for v in reference.get(key, [])]
    assert pairs_of(rows, probes) == expected
    assert len(rows.index) == sum(bool(kept) for kept in reference.values())
    assert rows.counts(rows.find([pa.array(probes, pa.string())])).tolist() == [
        len(reference.get(k, [])) for k in probes
    ]


def test_keys_need_not_be_columns_of_the_rows() -> None:
    rows = KeyedRows([pa.int64(), pa.bool_()], SCHEMA)
    batch = pa.record_batch({"k": ["x", "y"], "n": [1, 2]}, schema=SCHEMA)
    rows.append(batch, [pa.array([7, 7]), pa.array([True, False])])
    assert rows.match(rows.find([pa.array([7]), pa.array([False])]))[1].tolist() == [1]
