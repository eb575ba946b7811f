"""Which place each slot of a job has, and which one takes the place of another."""

from __future__ import annotations

from sqlstream.messages.rpc import SlotOffer
from sqlstream.runtime.jobmanager.resources.slot_pool import SlotPool


def offered(pool: SlotPool, task_manager_id: str, address: str, *slots: int) -> list[bool]:
    return [pool.offer(task_manager_id, address, SlotOffer(s, f"{task_manager_id}/{s}")) for s in slots]


def places(pool: SlotPool) -> list[str]:
    return [slot.allocation_id for slot in pool.slots()]


def test_neighbours_share_a_task_manager_and_a_full_pool_takes_no_more() -> None:
    pool = SlotPool(3)
    assert offered(pool, "b#0", "grpc://b:1", 0) == [True]
    assert not pool.is_complete
    assert offered(pool, "a#0", "grpc://a:1", 1, 0) == [True, True]
    assert offered(pool, "c#0", "grpc://c:1", 0) == [False]
    assert places(pool) == ["a#0/0", "a#0/1", "b#0/0"]


def test_the_loss_of_a_task_manager_moves_no_other_slot() -> None:
    pool = SlotPool(2)
    offered(pool, "a#0", "unix:/d/a", 0)
    offered(pool, "b#0", "unix:/d/b", 0)
    assert places(pool) == ["a#0/0", "b#0/0"]
    pool.remove_task_manager("a#0")
    assert not pool.is_complete
    offered(pool, "c#0", "unix:/d/c", 0)
    assert places(pool) == ["c#0/0", "b#0/0"]


def test_a_slot_takes_the_place_of_one_that_was_on_the_same_host() -> None:
    pool = SlotPool(3)
    for host in ("x", "y", "z"):
        offered(pool, f"{host}#0", f"grpc://{host}:1", 0)
    assert places(pool) == ["x#0/0", "y#0/0", "z#0/0"]
    for host in ("x", "y"):
        pool.remove_task_manager(f"{host}#0")
    offered(pool, "a#0", "grpc://y:7", 0)
    offered(pool, "b#0", "grpc://w:7", 0)
    assert places(pool) == ["b#0/0", "a#0/0", "z#0/0"]
    assert places(pool) == ["b#0/0", "a#0/0", "z#0/0"]
