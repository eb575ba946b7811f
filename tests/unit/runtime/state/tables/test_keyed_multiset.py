"""Rows that a changelog leaves, by key: what is forgotten when, and what a restore gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from operator_harness import ManualClock, batch, share_of

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.schema import Schema

ROWS = Schema.of(("k", sql.STRING), ("n", sql.BIGINT))


def multiset(
    clock: ManualClock | None = None, keys: tuple[int, ...] = (0,), ttl_ms: int = 0
) -> KeyedMultiset:
    scope = StateScope(0, 128, clock or ManualClock())
    return KeyedMultiset("rows", to_arrow_schema(ROWS), keys, scope, list_length=2, ttl_ms=ttl_ms)


def change(rows: KeyedMultiset, *changes: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """Apply as a Top-N does; every written key gets the list (7). Returns the keys."""
    keys, row_slots = rows.apply(batch(ROWS, changes, ChangelogMode.RETRACT))
    touched = np.unique(keys)
    rows.writing(touched)
    rows.lists.set(touched, np.full((len(touched), 1), 7))
    rows.sweep(row_slots)
    return touched


def contents(rows: KeyedMultiset) -> list[tuple[Any, ...]]:
    """Key, number and count of each row."""
    _, slots = rows.match(rows.key_slots())
    kept = rows.rows.take(slots).to_pydict()
    return sorted(zip(kept["k"], kept["n"], rows.rows.counts[slots].tolist(), strict=True), key=repr)


CHANGES = [
    ("+I", "a", 1), ("+I", "a", 1), ("+I", "b", 2), ("+I", None, 3), ("-D", "late", 4), ("+I", "b", 5), ("-D", "b", 2),
]  # fmt: skip
LEFT = [("a", 1, 2), ("b", 5, 1), ("late", 4, -1), (None, 3, 1)]


def test_rows_keep_their_counts_also_those_below_zero_in_whichever_subtask_they_are_restored() -> None:
    rows = multiset()
    change(rows, *CHANGES)
    assert contents(rows) == LEFT
    snapshot = OperatorSnapshot()
    snapshot.include(rows.save())
    parts = []
    for subtask in range(3):
        part = multiset()
        part.load(share_of([snapshot], subtask, 3, 128))
        assert part.lists.lists(part.key_slots()).shape[1] == 0
        parts += contents(part)
    assert sorted(parts, key=repr) == LEFT


def test_a_key_that_loses_its_last_row_leaves_no_list_for_the_next_key_in_its_slot() -> None:
    rows = multiset()
    (first,) = change(rows, ("+I", "a", 1))
    change(rows, ("-D", "a", 1))
    keys, _ = rows.apply(batch(ROWS, [("+I", "b", 1)], ChangelogMode.RETRACT))
    assert (keys[0], rows.lists.lists(keys).tolist()) == (first, [[]])


def test_a_key_expires_with_its_rows_and_its_list_after_its_last_change() -> None:
    clock = ManualClock(0)
    rows = multiset(clock, ttl_ms=100)
    (expiring,) = change(rows, ("+I", "a", 1))
    clock.now_ms = 60
    change(rows, ("+I", "b", 1))
    clock.now_ms = 100
    assert (rows.expire(), contents(rows)) == (1, [("b", 1, 1)])
    assert rows.lists.lists(np.array([expiring])).tolist() == [[]]
    assert rows.next_sweep_ms is not None
    clock.now_ms = 160
    assert (rows.expire(), contents(rows), rows.next_sweep_ms) == (1, [], None)


def test_without_key_columns_there_is_one_key_as_long_as_there_are_rows() -> None:
    rows = multiset(keys=())
    assert rows.key_slots().tolist() == []
    change(rows, ("+I", "a", 1), ("+I", "b", 2))
    assert rows.key_slots().tolist() == [0]
    assert set(rows.save().keyed["rows"].column(0).to_pylist()) == {0}
    change(rows, ("-D", "a", 1), ("-D", "b", 2))
    assert (rows.key_slots().tolist(), rows.save().keyed["rows"].num_rows) == ([], 0)
