"""Records against dicts, and the bound on what they hold."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.state.storage.records import Records, is_recordable
from sqlstream.runtime.state.storage.segments import SEGMENT_BYTES

TYPES = (
    pa.int64(), pa.string(), pa.bool_(), pa.int16(), pa.large_binary(), pa.decimal128(10, 2), pa.int8(), pa.string(),
    pa.float32(), pa.date32(), pa.binary(3),
)  # fmt: skip
CELLS = (
    st.integers(-(2**63), 2**63 - 1), st.text(max_size=40), st.booleans(), st.integers(-9, 9), st.binary(max_size=70),
    st.integers(-9, 9).map(decimal.Decimal), st.integers(-9, 9), st.text(max_size=3), st.sampled_from([0.0, 1.5]),
    st.dates(), st.binary(min_size=3, max_size=3),
)  # fmt: skip
rows_strategy = st.lists(st.tuples(*(st.none() | cell for cell in CELLS)), max_size=8)


def columns_of(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(TYPES)
    return [pa.array(values, data_type) for values, data_type in zip(cells, TYPES, strict=True)]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_records_behave_as_a_dict(data: st.DataObject) -> None:
    records = Records(TYPES)
    records.reserve(20)
    reference: dict[int, tuple[Any, ...]] = {}
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(rows_strategy)
        # Before the slice stand rows that must not be read.
        skipped = data.draw(st.integers(0, 9))
        columns = [column.slice(skipped) for column in columns_of([rows[0]] * skipped + rows if rows else [])]
        chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
        ids = data.draw(st.lists(st.integers(0, 19), min_size=len(chosen), max_size=len(chosen)))
        records.write(np.array(ids, dtype=np.int64), columns, np.array(chosen, dtype=np.int64))
        reference.update(zip(ids, [rows[row] for row in chosen], strict=True))
        doomed = data.draw(st.lists(st.integers(-1, 25), max_size=6))
        forgotten = records.forget(np.array(doomed, dtype=np.int64))
        assert sorted(forgotten.tolist()) == sorted(set(doomed) & set(reference))
        reference = {row: cells for row, cells in reference.items() if row not in doomed}
        found = records.read(np.arange(20), may_miss=True)
        for column, data_type in zip(found, TYPES, strict=True):
            column.validate(full=True)
            assert column.type == data_type
        missing = (None,) * len(TYPES)
        assert list(zip(*(c.to_pylist() for c in found), strict=True)) == [
            reference.get(row, missing) for row in range(20)
        ]


def test_some_columns_are_read_in_the_order_that_is_asked_for() -> None:
    records = Records([pa.string(), pa.int64(), pa.string()])
    records.reserve(200)
    texts = [f"{n:0{n % 50}}" for n in range(200)]
    columns = [pa.array(texts), pa.array(range(200), pa.int64()), pa.array(["x" + text for text in texts])]
    records.write(np.arange(200), columns, np.arange(200))
    last, first = records.read(np.array([7, 199, 7]), [2, 0])
    assert last.to_pylist() == ["x" + texts[7], "x" + texts[199], "x" + texts[7]]
    assert first.to_pylist() == [texts[7], texts[199], texts[7]]


def test_values_that_are_far_longer_than_those_before_them_find_room() -> None:
    records = Records([pa.string()])
    records.reserve(1_000)
    texts = ["short"] * 900 + ["long" * 10_000] * 100
    records.write(np.arange(1_000), [pa.array(texts)], np.arange(1_000))
    assert records.read(np.arange(1_000))[0].to_pylist() == texts


@pytest.mark.parametrize(
    "data_type",
    [pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.null(), pa.dictionary(pa.int8(), pa.string())],
)
def test_nested_values_dictionaries_and_null_have_no_record(data_type: pa.DataType) -> None:
    assert not is_recordable(data_type)


def one_of_each_batch(batch: int, ids: np.ndarray) -> np.ndarray:
    return ids[1:]


def all_but_every_tenth(batch: int, ids: np.ndarray) -> np.ndarray:
    return ids[ids % 10 != 0]


def every_other(batch: int, ids: np.ndarray) -> np.ndarray:
    return ids[ids % 2 == 0]


def the_large_ones(batch: int, ids: np.ndarray) -> np.ndarray:
    return ids[ids % 100 == 99]


@pytest.mark.parametrize("doomed", [one_of_each_batch, all_but_every_tenth, every_other, the_large_ones])
def test_memory_is_at_most_twice_that_of_the_live_rows_and_two_segments(
    doomed: Callable[[int, np.ndarray], np.ndarray],
) -> None:
    """Whatever rows survive their batch, and however the sizes of rows differ."""
    rows, batches = 1_000, 300
    texts = pa.array(["t" * (5_000 if n % 100 == 99 else n % 90) for n in range(rows)])
    numbers = pa.array(range(rows), pa.int64())
    records = Records([pa.int64(), pa.string()])
    # A record: 21 bytes of numbers before its text, up to a multiple of 8.
    sizes = np.array([(21 + len(text) + 7) // 8 * 8 for text in texts.to_pylist()])
    survivors: list[np.ndarray] = []
    for batch in range(batches):
        ids = np.arange(batch * rows, (batch + 1) * rows)
        records.reserve(len(ids) + batch * rows)
        records.write(ids, [numbers, texts], np.arange(rows))
        records.forget(doomed(batch, ids))
        survivors.append(np.setdiff1d(ids, doomed(batch, ids)))
        places = 8 * batches * rows * 3 // 2
        live_bytes = int(sizes[np.concatenate(survivors) % rows].sum())
        assert records.nbytes <= 2 * live_bytes + 2 * SEGMENT_BYTES + places
    kept = np.concatenate(survivors)
    found = records.read(kept)
    assert found[0].to_pylist() == (kept % rows).tolist()
    assert found[1].equals(texts.take(pa.array(kept % rows)))


def test_segments_do_not_grow_however_often_rows_are_replaced() -> None:
    records, rows, kept = Records([pa.string()]), 5_000, 25_000
    texts = pa.array(["t" * 800] * kept)
    records.reserve(kept)
    records.write(np.arange(kept), [texts], np.arange(kept))
    fate = np.random.default_rng(1)
    for _ in range(60):
        replaced = fate.choice(kept, rows, replace=False)
        records.forget(replaced)
        records.write(replaced, [texts], np.arange(rows))
        assert records._segments.room <= SEGMENT_BYTES


def test_a_table_whose_rows_are_all_forgotten_holds_two_segments_at_most() -> None:
    records = Records([pa.string()])
    for batch in range(40):
        ids = np.arange(batch * 1_000, (batch + 1) * 1_000)
        records.reserve((batch + 1) * 1_000)
        records.write(ids, [pa.array(["x" * 1_000] * 1_000)], np.arange(1_000))
    assert records.nbytes > 40_000_000
    records.forget(np.arange(40_000))
    assert records.nbytes <= 4 * SEGMENT_BYTES
