"""Whose a slot is."""

from __future__ import annotations

import pytest

from sqlstream.errors import InternalError
from sqlstream.messages.rpc import SlotOffer, SlotStatus
from sqlstream.runtime.taskmanager.slot_table import SlotTable


def test_a_slot_is_offered_until_it_is_taken() -> None:
    table = SlotTable(2)
    assert table.allocate(1, "a", "j")
    assert table.allocate(1, "a", "j")
    assert table.offers() == {"j": (SlotOffer(1, "a"),)}
    assert table.activate("a")
    assert table.offers() == {}
    assert table.report() == (SlotStatus(0), SlotStatus(1, "a", "j"))


def test_a_slot_belongs_to_one_allocation_at_a_time() -> None:
    table = SlotTable(1)
    table.allocate(0, "a", "j")
    assert not table.allocate(0, "b", "j")
    assert not table.allocate(5, "b", "j")


def test_an_allocation_that_was_freed_never_comes_back_even_if_it_was_never_there() -> None:
    table = SlotTable(1)
    table.allocate(0, "a", "j")
    assert table.free("a") == frozenset()
    assert table.free("b") == frozenset()
    assert not table.allocate(0, "a", "j")
    assert not table.allocate(0, "b", "j")
    assert table.allocate(0, "c", "j")


def test_a_slot_is_free_when_its_last_task_has_ended() -> None:
    table = SlotTable(1)
    table.allocate(0, "a", "j")
    table.activate("a")
    table.add_task("a", "t1")
    table.add_task("a", "t2")
    assert table.free("a") == {"t1", "t2"}
    assert not table.activate("a")
    assert not table.remove_task("a", "t1")
    assert table.remove_task("a", "t2")
    assert table.report() == (SlotStatus(0),)


def test_a_task_needs_an_active_slot() -> None:
    table = SlotTable(1)
    table.allocate(0, "a", "j")
    with pytest.raises(InternalError, match="no active slot"):
        table.add_task("a", "t1")
