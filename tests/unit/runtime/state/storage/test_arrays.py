"""Arrays by slot: growth keeps what is there, and picking gives the items of the slots whichever way it goes."""

from __future__ import annotations

import numpy as np
import pytest

from sqlstream.runtime.state.storage import arrays
from sqlstream.runtime.state.storage.arrays import first_slots, grown, picked


def test_growth_keeps_items_and_fills_the_rest() -> None:
    array = grown(np.array([1, 2, 3]), 5, fill=-1)
    assert len(array) >= 5
    assert array[:3].tolist() == [1, 2, 3]
    assert set(array[3:].tolist()) == {-1}
    assert grown(array, 2) is array


@pytest.mark.parametrize("count", [1, 1000, (1 << 16) + 1])
def test_the_first_slots_are_picked_without_a_copy(count: int) -> None:
    array = np.arange(7, count + 17)
    slots = first_slots(count)
    assert slots.tolist() == list(range(count))
    found = picked(array, slots)
    assert found.tolist() == array[:count].tolist()
    assert found.base is array


def test_other_slots_are_picked_one_by_one() -> None:
    array = np.arange(100, 200)
    earlier = first_slots(10)
    first_slots(1 << 20)
    for slots in (first_slots(10)[3:], first_slots(10)[::2], earlier, np.array([5, 5, 0]), np.arange(4)):
        assert picked(array, slots).tolist() == [100 + slot for slot in slots.tolist()]


def test_slots_are_as_many_as_asked_for_though_another_thread_puts_a_shorter_array_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Overtaken:
        values = property(lambda self: np.arange(8), lambda self, longer: None)

    monkeypatch.setattr(arrays, "_Numbers", Overtaken())
    assert len(first_slots(100)) == 100
