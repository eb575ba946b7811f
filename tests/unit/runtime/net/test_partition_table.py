"""Both ends of a channel find each other."""

from __future__ import annotations

import pytest

from sqlstream.runtime.net.credits import NetworkMemory
from sqlstream.runtime.net.exchange import PartitionTable, SubpartitionId


def test_the_two_ends_of_a_subpartition_meet_in_one_channel() -> None:
    table = PartitionTable()
    first, second = SubpartitionId("j1", "p", 0), SubpartitionId("j1", "p", 1)
    channel = table.meet(first, 0)
    assert len(table) == 1
    assert table.meet(second, 100) is not channel
    assert table.meet(first, 100) is channel
    assert len(table) == 1
    # Both ends have it: the next to ask begins anew.
    assert table.meet(first, 100) is not channel


def test_a_channel_that_one_end_has_closed_is_forgotten_and_no_other() -> None:
    table = PartitionTable()
    place = SubpartitionId("j1", "p", 0)
    channel = table.meet(place, 0)
    table.forget(place, PartitionTable().meet(place, 0))
    assert len(table) == 1
    table.forget(place, channel)
    assert len(table) == 0


def test_channels_of_a_job_that_has_left_are_closed() -> None:
    table = PartitionTable()
    mine, other = SubpartitionId("j1", "p", 0), SubpartitionId("j2", "p", 0)
    closed, kept = table.meet(mine, 10), table.meet(other, 10)
    table.release_job("j1")
    assert len(table) == 1
    assert closed.is_closed
    assert not kept.is_closed


def test_memory_is_lent_as_long_as_there_is_some() -> None:
    memory = NetworkMemory(100)
    assert [memory.borrow(n) for n in (30, 60, 30, 1)] == [30, 60, 10, 0]
    assert memory.lent_bytes == 100
    memory.give_back(40)
    assert (memory.lent_bytes, memory.borrow(50)) == (60, 40)
    memory.give_back(100)
    with pytest.raises(AssertionError, match="1 bytes come back but 0 were lent"):
        memory.give_back(1)
