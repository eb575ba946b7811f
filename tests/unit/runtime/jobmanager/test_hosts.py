"""Hosts that fail again and again, and how slots are spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from checkpointed_master import DISK_FULL, Master
from msgspec.structs import replace

from sqlstream.errors import FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    PROTOCOL_VERSION,
    FreeSlot,
    RegisterTaskManager,
    RequestSlot,
)
from sqlstream.runtime.jobmanager.events import JobStored, Noted, Send, SlotsTaken, TaskFailed, Tick
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.resources.hosts import BlocklistConfig, LoadBalance, load_balance_of
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManager, ResourceManagerConfig

BLOCKLIST = BlocklistConfig(failures=2, window_ms=1000, duration_ms=5000)


def register(name: str, slots: int = 2, host: str = "", incarnation: int = 0) -> RegisterTaskManager:
    address = f"grpc+tls://{host or name}:4000"
    return RegisterTaskManager(f"{name}#{incarnation}", name, incarnation, address, slots, PROTOCOL_VERSION)


def cluster(*names: str, mode: LoadBalance = LoadBalance.NONE, **slots: int) -> ResourceManager:
    config = ResourceManagerConfig(heartbeat_timeout_ms=10**6, load_balance=mode, blocklist=BLOCKLIST)
    manager = ResourceManager(config)
    for name in names:
        manager.on_register(register(name, slots.get(name, 2)), 0)
    return manager


def leased(instructions: list[Any]) -> list[str]:
    messages = (i.message for i in instructions if isinstance(i, Send))
    return [m.task_manager_id.split("#")[0] for m in messages if isinstance(m, RequestSlot)]


def noted(instructions: list[Any]) -> list[str]:
    return [i.text for i in instructions if isinstance(i, Noted)]


def fail(manager: ResourceManager, name: str, *times_ms: int) -> list[Any]:
    return [i for now_ms in times_ms for i in manager.on_task_failed(f"{name}#0", "j1", now_ms)]


def blocked(manager: ResourceManager) -> list[str]:
    return [t.task_manager_id for t in manager.overview() if t.is_blocked]


def test_a_host_whose_tasks_fail_again_and_again_gets_no_tasks_while_others_have_room() -> None:
    manager = cluster("a", "b")
    assert noted(fail(manager, "a", 100)) == []
    (said,) = noted(fail(manager, "a", 200))
    assert said == (
        "host a gets no tasks for 5 s unless no other is free: 2 tasks or TaskManagers have failed there within 1 s"
    )
    assert blocked(manager) == ["a#0"]
    assert "a has 2 (2 free, blocked), b has 2 (2 free)" in manager.describe_slots()
    assert leased(manager.on_request_slots("j1", 2, 300)) == ["b", "b"]
    # Nothing else is free.
    assert leased(manager.on_request_slots("j2", 1, 400)) == ["a"]


def test_what_fails_on_a_blocked_host_goes_to_others_once_they_have_room_and_other_jobs_stay() -> None:
    manager = cluster("a", "b")
    assert leased(manager.on_request_slots("j1", 2, 0)) == ["a", "b"]
    assert leased(manager.on_request_slots("j2", 2, 0)) == ["a", "b"]
    fail(manager, "a", 100, 200)
    assert blocked(manager) == ["a#0"]
    assert [i for i in fail(manager, "a", 300) if isinstance(i, SlotsTaken)] == []
    manager.on_register(register("c"), 400)
    instructions = fail(manager, "a", 500)
    (taken,) = (i for i in instructions if isinstance(i, SlotsTaken))
    assert (taken.job_id, taken.task_manager_id) == ("j1", "a#0")
    assert leased(instructions) == ["c"]
    freed = [i.message for i in instructions if isinstance(i, Send) and isinstance(i.message, FreeSlot)]
    assert [f.task_manager_id for f in freed] == ["a#0"]
    assert [i for i in fail(manager, "a", 600) if isinstance(i, SlotsTaken)] == []
    manager.check()


def test_a_host_is_free_again_when_its_time_is_over() -> None:
    manager = cluster("a", "b")
    fail(manager, "a", 100, 200)
    assert noted(manager.on_tick(5199)) == []
    assert noted(manager.on_tick(5200)) == ["host a is not blocked any more"]
    assert blocked(manager) == []
    assert leased(manager.on_request_slots("j1", 1, 5300)) == ["a"]


def test_what_fails_everywhere_is_the_fault_of_no_host() -> None:
    manager = cluster("a", "b", "c")
    assert noted([*fail(manager, "b", 50), *fail(manager, "a", 100, 200, 300)]) == []
    # The failure of the other host is out of the window.
    assert len(noted(fail(manager, "a", 1100, 1200))) == 1


def test_a_host_whose_task_managers_are_stopped_in_order_is_not_blocked() -> None:
    manager = cluster("a", "b")
    for incarnation in range(3):
        manager.on_disconnect(f"a#{incarnation}", 100 * incarnation)
        manager.on_register(register("a", incarnation=incarnation + 1), 100 * incarnation)
    assert blocked(manager) == []


def test_failures_that_are_far_apart_block_nothing() -> None:
    manager = cluster("a", "b")
    assert noted(fail(manager, "a", 0, 1001, 2002)) == []


def test_task_managers_that_are_lost_count_and_those_that_are_released_do_not() -> None:
    manager = cluster("a", "b")
    said = []
    for incarnation, now_ms in ((1, 10), (2, 20)):
        said += noted(manager.on_register(register("a", incarnation=incarnation), now_ms))
    assert len(said) == 1
    assert blocked(manager) == ["a#2"]


def test_the_only_host_is_never_blocked() -> None:
    manager = cluster("a")
    manager.on_register(register("b", host="a"), 0)
    assert noted(fail(manager, "a", 100, 200, 300)) == []
    assert blocked(manager) == []


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (LoadBalance.NONE, ["large", "large", "large", "large"]),
        (LoadBalance.SLOTS, ["large", "small", "large", "large"]),
        (LoadBalance.MIN_RESOURCES, ["small", "small", "large", "large"]),
    ],
)
def test_slots_are_leased_as_the_mode_says(mode: LoadBalance, expected: list[str]) -> None:
    manager = cluster("large", "small", mode=mode, large=6, small=2)
    assert leased(manager.on_request_slots("j1", 4, 0)) == expected


def test_the_older_form_of_the_mode_counts_where_the_newer_is_not_given() -> None:
    older = {"cluster.evenly-spread-out-slots": "true"}
    assert load_balance_of({}) is LoadBalance.NONE
    assert load_balance_of(older) is LoadBalance.SLOTS
    assert (
        load_balance_of(older | {"taskmanager.load-balance.mode": "min_resources"})
        is LoadBalance.MIN_RESOURCES
    )


def test_who_waits_for_slots_learns_where_they_are() -> None:
    manager = cluster()
    assert manager.describe_slots() == "no TaskManager is registered"
    for n in range(10):
        manager.on_register(register(f"h{n}", 1), 0)
    manager.on_request_slots("j1", 4, 0)
    assert manager.describe_slots().startswith(
        "the cluster has 10 slots, 6 of them free: h0 has 1 (0 free), "
    )
    assert manager.describe_slots().endswith(" and 2 more hosts")


def test_only_failures_that_may_be_those_of_the_host_count(make_job: Callable[..., JobGraph]) -> None:
    job = Master(make_job("j1"))
    job.report("j1-0-0-0", ExecutionState.FAILED, error=DISK_FULL)
    assert job.taken(TaskFailed) == [TaskFailed("tm0#0", "j1")]
    job = Master(make_job("j1"))
    job.report("j1-0-0-0", ExecutionState.FAILED, error=replace(DISK_FULL, reason=FailureReason.USER_DATA))
    assert job.taken(TaskFailed) == []


def test_a_job_that_got_no_slots_says_which_there_are(make_job: Callable[..., JobGraph]) -> None:
    config = JobMasterConfig(slot_request_timeout_ms=1000, describe_slots=cluster("a", "b").describe_slots)
    job = JobMaster(make_job("j1", 8, 1), config, 0)
    job.handle(JobStored("j1"), 0)
    job.handle(Tick(), 1000)
    assert job.error is not None
    assert job.error.message == (
        "job needs 8 slots and got 0 within 1 s (slot.request.timeout); the cluster has 4 slots, 4 of them free: "
        "a has 2 (2 free), b has 2 (2 free)"
    )
