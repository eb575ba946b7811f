"""Lists of ids against sorted Python lists."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.state.storage.id_lists import NO_ROW, IdLists

rows_strategy = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), max_size=60)


def ids_of(lists: IdLists, slots: list[int]) -> list[list[int]]:
    found = lists.lists(np.array(slots, dtype=np.int64))
    return [[row for row in line if row != NO_ROW] for line in found.tolist()]


@given(st.integers(1, 20), st.integers(1, 3), st.lists(st.tuples(rows_strategy, st.sets(st.integers(0, 5)))))
@settings(max_examples=60, deadline=None)
def test_the_best_ids_of_each_slot_are_kept_in_order(
    size: int, width: int, turns: list[tuple[list[tuple[int, int]], set[int]]]
) -> None:
    """With keys of several words, whose order is that of the numbers of which they are the digits."""
    lists, reference, next_id = IdLists(size, width), [list[tuple[int, int]]() for _ in range(6)], 0
    lists.resize(6)
    for rows, cleared in turns:
        slots = np.array([slot for slot, _ in rows], dtype=np.int64)
        keys = np.array([key for _, key in rows], dtype=np.int64)
        digits = (
            [keys]
            if width == 1
            else [keys >> 1, keys & 1]
            if width == 2
            else [keys >> 2, keys >> 1 & 1, keys & 1]
        )
        lists.insert(slots, np.column_stack(digits), next_id)
        for number, (slot, key) in enumerate(rows, next_id):
            bisect.insort(reference[slot], (key, number))
            del reference[slot][size:]
        next_id += len(rows)
        assert ids_of(lists, list(range(6))) == [[row for _, row in line] for line in reference]
        lists.clear(np.array(sorted(cleared), dtype=np.int64))
        for slot in cleared:
            reference[slot].clear()


def test_ids_can_be_replaced_and_sort_keys_set_afterwards() -> None:
    lists = IdLists(5)
    lists.resize(3)
    lists.set(np.array([2, 0]), np.array([[7, 8, 9, 10, 11], [3, NO_ROW, NO_ROW, NO_ROW, NO_ROW]]))
    lists.set_sort_keys(np.array([0, 1, 2]), np.array([5, 10, 20, 30, 40, 50]))
    lists.insert(np.array([0, 2, 1]), np.array([4, 25, 0]), 100)
    assert ids_of(lists, [0, 1, 2]) == [[100, 3], [102], [7, 8, 101, 9, 10]]


@pytest.mark.parametrize("size", [1, 10, 1_000_000])
def test_a_list_takes_memory_by_its_length_and_not_by_its_greatest_length(size: int) -> None:
    lists = IdLists(size)
    lists.resize(50_000)
    slots = np.arange(50_000)
    lists.insert(slots, slots, 0)
    assert lists.nbytes() < 50_000 * 8 * (1 + 9) * 1.5
    lists.clear(slots)
    for turn in range(5):
        lists.insert(slots, slots, turn)
        lists.clear(slots)
    assert lists.nbytes() < 50_000 * 8 * (1 + 9) * 1.5
