"""A log of slices against a list of rows; its snapshots copy nothing, and it keeps no memory of rows that it does not hold."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.state.logs import slice_log
from sqlstream.runtime.state.logs.slice_log import SliceColumns, SliceLog
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, SavedTables

Row = tuple[Any, ...]
COLUMNS = SliceColumns(("name", "n", "$slice_end"), keys=(0,), end=-1)
rows_strategy = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None, "a long name of a key"]),
        st.integers(0, 99),
        st.sampled_from([10, 20, 30]),
    ),
    min_size=1,
    max_size=12,
)


def new_log() -> SliceLog:
    return SliceLog("slices", COLUMNS, StateScope())


def columns_of(rows: list[Row]) -> list[pa.Array]:
    names, numbers, ends = zip(*rows, strict=True)
    return [pa.array(names, pa.string()), pa.array(numbers, pa.int64()), pa.array(ends, pa.int64())]


def rows_of(columns: list[pa.Array] | None) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in columns), strict=True)) if columns else []


def held(log: SliceLog) -> list[Row]:
    return [row for chunk in log.chunks for row in rows_of(chunk.columns)]


@pytest.mark.parametrize("sizes", [(4_096, 64), (1, 64), (3, 2)], ids="chunks={}".format)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_it_behaves_as_a_list_of_rows(sizes: tuple[int, int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_log, "_LARGE_ROWS", sizes[0])
        patch.setattr(slice_log, "_SMALL_CHUNKS_MAX", sizes[1])
        log, reference = new_log(), list[Row]()
        for rows in data.draw(st.lists(rows_strategy, max_size=8)):
            log.append(columns_of(rows))
            reference += rows
            end = data.draw(st.sampled_from([0, 10, 20]))
            assert (log.rows, held(log)) == (len(reference), reference)
            taken = [row for row in reference if row[-1] <= end]
            if data.draw(st.booleans()):
                assert rows_of(log.take_until(end)) == taken
            else:
                log.forget(functools.partial(np.greater_equal, end))
            reference = [row for row in reference if row[-1] > end]
        if reference:
            assert log.first_end == min(row[-1] for row in reference)
            assert rows_of(log.sorted_until(30)) == sorted(reference, key=lambda row: row[-1])
        assert rows_of(log.take_all()) == reference
        assert (log.rows, log.nbytes(), log.save()) == (0, 0, SavedTables())


@given(st.lists(rows_strategy, min_size=1, max_size=6), st.integers(0, 128))
@settings(max_examples=40, deadline=None)
def test_two_subtasks_load_the_rows_of_their_key_groups(batches: list[list[Row]], cut: int) -> None:
    log = new_log()
    for rows in batches:
        log.append(columns_of(rows))
    saved = log.save().keyed["slices"]
    log.forget(lambda ends: ends > 0)
    names, halves = [set[Any](), set[Any]()], list[Row]()
    for number, mask in enumerate((pc.less(saved[KEY_GROUP_COLUMN], cut), pc.greater_equal(saved[0], cut))):
        moved = new_log()
        moved.load(SavedTables(keyed={"slices": saved.filter(mask)}))
        names[number] |= {row[0] for row in held(moved)}
        halves += held(moved)
    assert sorted(halves, key=repr) == sorted((row for rows in batches for row in rows), key=repr)
    assert not names[0] & names[1]


def test_a_snapshot_refers_to_the_rows_and_an_increment_has_only_new_ones() -> None:
    log = new_log()
    log.append(columns_of([("a", 1, 10), ("b", 2, 10)]))
    first = log.begin(1, is_full=False)
    addresses = [column.buffers()[1].address for column in log.chunks[0].columns]
    log.append(columns_of([("c", 3, 20)]))
    saved = first.collect().keyed["slices"]
    assert [column.chunk(0).buffers()[1].address for column in saved.columns[FIXED_COLUMNS:]] == addresses
    log.completed(1)
    second = log.begin(2, is_full=False)
    log.take_until(10)
    assert second.collect().keyed["slices"].column("n").to_pylist() == [3]
    assert saved.column("n").to_pylist() == [1, 2]


def test_a_part_of_a_batch_does_not_keep_the_whole_batch() -> None:
    batch = [pa.array(np.arange(100_000)), pa.array(np.arange(100_000)), pa.array(np.full(100_000, 10))]
    log = new_log()
    log.append([column.slice(500, 2_000) for column in batch])
    assert sum(c.get_total_buffer_size() for c in log.chunks[0].columns) == 3 * 8 * 2_000


def test_the_end_of_a_batch_that_is_of_the_next_slice_does_not_keep_the_whole_batch() -> None:
    ends = np.full(100_000, 10)
    ends[99_000:] = 20
    log = new_log()
    log.append([pa.array(np.arange(100_000)), pa.array(np.arange(100_000)), pa.array(ends)])
    assert [chunk.rows for chunk in log.chunks] == [99_000, 1_000]
    log.take_until(10)
    assert sum(c.get_total_buffer_size() for c in log.chunks[0].columns) == 3 * 8 * 1_000 == log.nbytes()


def test_a_log_before_an_exchange_is_always_saved_whole() -> None:
    """Two subtasks have rows of one key group, each in a chunk of its own with the same number."""
    logs = [SliceLog("slices", COLUMNS, StateScope(), is_by_key=False) for _ in range(2)]
    logs[0].append(columns_of([("a", 1, 10)]))
    for number in (2, 3):
        logs[1].append(columns_of([("a", number, 10)]))
    for checkpoint_id in (1, 2):
        saved = [log.begin(checkpoint_id, is_full=False).collect() for log in logs]
        for log in logs:
            log.completed(checkpoint_id)
        assert [tables.increments for tables in saved] == [{}, {}]
        logs[0].append(columns_of([("a", 4, 10)]))
    restored = new_log()
    restored.load(SavedTables({"slices": pa.concat_tables([tables.keyed["slices"] for tables in saved])}))
    assert sorted(row[1] for row in held(restored)) == [1, 2, 3, 4]
