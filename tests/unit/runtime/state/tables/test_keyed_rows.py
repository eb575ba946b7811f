"""Rows by key against a dict of lists."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import ManualClock, share_of

from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
KEY = st.sampled_from([None, "", "a", "a key that is long", "another"])
ROW = st.tuples(KEY, st.integers(0, 3))
Row = tuple[Any, int]


def side(clock: ManualClock | None = None, subtask: int = 0, **others: Any) -> KeyedRows:
    return KeyedRows("left", SCHEMA, (0,), StateScope(subtask, 128, clock or ManualClock()), **others)


def change(rows: KeyedRows, changed: list[Row], sign: int = 1, matches: int = 0) -> None:
    batch = pa.record_batch({"k": [k for k, _ in changed], "n": [n for _, n in changed]}, schema=SCHEMA)
    count = len(changed)
    rows.apply(batch, np.full(count, sign), np.full(count, matches))


def pairs_of(rows: KeyedRows, probes: list[Any]) -> list[tuple[int, int, int]]:
    """Number of the probe, number and count of the row, of each match."""
    indices, row_ids = rows.match(rows.find([pa.array(probes, pa.string())], len(probes)))
    numbers = rows.gather(row_ids).column(1).to_pylist()
    return list(zip(indices.tolist(), numbers, rows.counts_of(row_ids).tolist(), strict=True))


@given(st.lists(st.tuples(st.lists(ROW, max_size=6), st.lists(ROW, max_size=6)), max_size=5), st.lists(KEY))
@settings(max_examples=60, deadline=None)
def test_distinct_rows_with_counts_behave_as_a_dict_of_lists(
    turns: list[tuple[list[Row], list[Row]]], probes: list[Any]
) -> None:
    rows = side(is_retracting=True)
    reference: dict[Row, int] = {}
    for added, retracted in turns:
        change(rows, added)
        change(rows, retracted, -1)
        for row in added:
            reference[row] = reference.get(row, 0) + 1
        for row, times in Counter(retracted).items():
            # A row that is retracted more often than it was added is forgotten without a debt.
            if reference.get(row, 0) <= times:
                reference.pop(row, None)
            else:
                reference[row] -= times
    expected = [
        (number, n, count)
        for number, probe in enumerate(probes)
        for (k, n), count in reference.items()
        if k == probe
    ]
    assert pairs_of(rows, probes) == expected
    assert len(rows) == len(reference)


@given(st.lists(st.lists(ROW, max_size=6), max_size=5), st.lists(KEY))
@settings(max_examples=30, deadline=None)
def test_rows_that_are_only_added_keep_their_order(turns: list[list[Row]], probes: list[Any]) -> None:
    rows = side()
    for added in turns:
        change(rows, added)
    added = [row for turn in turns for row in turn]
    expected = [(number, n, 1) for number, probe in enumerate(probes) for k, n in added if k == probe]
    assert pairs_of(rows, probes) == expected


@given(st.lists(ROW, max_size=12), st.lists(ROW, max_size=4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_each_restored_row_is_in_one_subtask_with_its_numbers(
    added: list[Row], more: list[Row], is_retracting: bool
) -> None:
    rows = side(is_retracting=is_retracting, counts_matches=True)
    change(rows, added, matches=2)
    change(rows, more, matches=5)
    snapshot = OperatorSnapshot()
    snapshot.include(rows.save())
    found: list[tuple[Any, ...]] = []
    for subtask in range(3):
        part = side(subtask=subtask, is_retracting=is_retracting, counts_matches=True)
        part.load(share_of([snapshot], subtask, 3, 128))
        found += contents(part)
    assert sorted(found, key=repr) == sorted(contents(rows), key=repr)


def contents(rows: KeyedRows) -> list[tuple[Any, ...]]:
    """Key, number, count and matches of each row."""
    keys = [None, "", "a", "a key that is long", "another"]
    _, row_ids = rows.match(rows.find([pa.array(keys, pa.string())], len(keys)))
    touched, before, _ = rows.add_matches(row_ids, np.zeros(len(row_ids), dtype=np.int64))
    kept = rows.gather(touched).to_pydict()
    return list(zip(kept["k"], kept["n"], rows.counts_of(touched).tolist(), before.tolist(), strict=True))


def test_a_row_expires_after_its_last_change_and_its_memory_is_used_again() -> None:
    clock = ManualClock(0)
    rows = side(clock, is_retracting=True, ttl_ms=1_000)
    change(rows, [("a", 1), ("b", 2)])
    clock.now_ms = 600
    change(rows, [("b", 2)])
    assert rows.next_sweep_ms is not None
    clock.now_ms = 1_000
    assert rows.expire() == 1
    assert pairs_of(rows, ["a", "b"]) == [(1, 2, 2)]
    held = rows.nbytes()
    for n in range(2_000):
        change(rows, [("c", n)])
        change(rows, [("c", n)], -1)
    assert len(rows) == 1
    assert rows.nbytes() <= held + 100_000


def test_rows_without_key_columns_have_one_key() -> None:
    rows = KeyedRows("left", SCHEMA, (), StateScope())
    change(rows, [("a", 1), (None, 2)])
    probes, row_ids = rows.match(rows.find([], 2))
    assert (probes.tolist(), rows.gather(row_ids).column(1).to_pylist()) == ([0, 0, 1, 1], [1, 2, 1, 2])
    saved = rows.save().keyed["left"]
    assert set(saved.column(0).to_pylist()) == {0}


def test_a_snapshot_of_many_rows_comes_in_parts(monkeypatch: Any) -> None:
    monkeypatch.setattr("sqlstream.runtime.state.snapshots.collection._SLOTS_MAX", 3)
    rows = side()
    change(rows, [("a", n) for n in range(8)])
    saved = rows.save()
    assert [b.num_rows for b in saved.keyed["left"].to_batches()] == [3, 3, 2]
    moved = side()
    moved.load(saved)
    assert [n for _, n, _ in pairs_of(moved, ["a"])] == list(range(8))


def test_a_piece_of_a_snapshot_has_as_many_rows_as_fit_its_bytes(monkeypatch: Any) -> None:
    """And grows by twice at most: the rows after small ones may be large."""
    for name, value in (("_FIRST_SLOTS", 4), ("_PIECE_BYTES", 2000)):
        monkeypatch.setattr(f"sqlstream.runtime.state.snapshots.collection.{name}", value)
    rows = side()
    change(rows, [("a", n) for n in range(100)])
    change(rows, [("a" * 250, n) for n in range(100, 200)])
    counts = [b.num_rows for b in rows.save().keyed["left"].to_batches()]
    assert (counts[:3], sum(counts)) == ([4, 8, 16], 200)
    assert max(counts[3:]) > 16
    assert counts[-2] < 10


def test_an_update_of_a_row_that_has_expired_adds_it_anew() -> None:
    rows = side(ManualClock(), is_retracting=True)
    batch = pa.record_batch({"k": ["a", "a"], "n": [1, 1]}, schema=SCHEMA)
    rows.apply(batch, np.array([-1, 1]), np.zeros(2, dtype=np.int64))
    assert pairs_of(rows, ["a"]) == [(0, 1, 1)]
    rows.apply(batch, np.array([1, -1]), np.zeros(2, dtype=np.int64))
    assert pairs_of(rows, ["a"]) == [(0, 1, 1)]


def test_rows_saved_without_a_ttl_begin_theirs_at_the_restore() -> None:
    clock, first = ManualClock(100), side()
    change(first, [("a", 1)])
    restored = side(clock, ttl_ms=50)
    restored.load(first.save())
    assert restored.next_sweep_ms == 150
