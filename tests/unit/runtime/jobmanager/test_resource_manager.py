"""TaskManagers and their slots."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.messages.rpc import (
    PROTOCOL_VERSION,
    FreeSlot,
    Heartbeat,
    HeartbeatReply,
    OfferSlots,
    RegisterTaskManager,
    RegistrationAccepted,
    RegistrationRefused,
    RequestSlot,
    SlotFreed,
    SlotOffer,
    SlotRefused,
    SlotStatus,
    UnknownTaskManager,
)
from sqlstream.runtime.jobmanager.events import Send, TaskManagerLost
from sqlstream.runtime.jobmanager.resources.provisioning import ProvisioningConfig, SlotState
from sqlstream.runtime.jobmanager.resources.resource_manager import (
    OWNER_SLOTS_ANY,
    ResourceManager,
    ResourceManagerConfig,
)

CONFIG = ResourceManagerConfig(heartbeat_interval_ms=1000, heartbeat_timeout_ms=3000, resend_ms=500)


def register(
    incarnation: int = 0, slots: int = 2, resource: str = "a", version: int = PROTOCOL_VERSION
) -> RegisterTaskManager:
    return RegisterTaskManager(
        f"{resource}#{incarnation}", resource, incarnation, f"{resource}:1", slots, version
    )


def with_task_manager(slots: int = 2) -> ResourceManager:
    manager = ResourceManager(CONFIG)
    manager.on_register(register(slots=slots), 0)
    return manager


def sent(instructions: list[Any], kind: type) -> list[Any]:
    return [i.message for i in instructions if isinstance(i, Send) and isinstance(i.message, kind)]


def test_registering_twice_is_answered_twice_and_counted_once() -> None:
    manager = ResourceManager(CONFIG)
    for now_ms in (0, 5):
        out = manager.on_register(register(), now_ms)
        assert out == [Send("a:1", RegistrationAccepted("a#0", 1000, 3000))]
    assert [(t.task_manager_id, t.free_slots) for t in manager.overview()] == [("a#0", 2)]


def test_another_protocol_version_is_refused() -> None:
    out = ResourceManager(CONFIG).on_register(register(version=99), 0)
    assert sent(out, RegistrationRefused)[0].error.code == "SS6007"


def test_a_job_gets_all_its_slots_or_none() -> None:
    manager = with_task_manager(slots=2)
    assert manager.on_request_slots("j1", 3, 0) == []
    out = manager.on_register(register(resource="b", slots=1), 10)
    assert sorted(m.allocation_id for m in sent(out, RequestSlot)) == ["rm-1", "rm-2", "rm-3"]


def test_a_job_that_never_fits_delays_no_other() -> None:
    manager = with_task_manager(slots=2)
    manager.on_request_slots("big", 3, 0)
    out = manager.on_request_slots("small", 1, 0)
    assert [m.job_id for m in sent(out, RequestSlot)] == ["small"]


def test_in_a_full_cluster_free_slots_are_kept_for_the_first_job_in_line() -> None:
    """A wide job runs although narrow ones keep coming; those that came later wait for it."""
    manager = with_task_manager(slots=3)
    manager.on_request_slots("running", 2, 0)
    manager.on_request_slots("wide", 3, 1)
    assert sent(manager.on_request_slots("narrow", 1, 2), RequestSlot) == []
    manager.on_release_slots("running", 3)
    freed = [manager.on_task_manager_message(SlotFreed("a#0", f"rm-{n}"), 4) for n in (1, 2)]
    assert [m.job_id for out in freed for m in sent(out, RequestSlot)] == ["wide"] * 3
    manager.on_release_slots("wide", 5)
    out = manager.on_task_manager_message(SlotFreed("a#0", "rm-3"), 6)
    assert [m.job_id for m in sent(out, RequestSlot)] == ["narrow"]


def test_many_jobs_of_one_owner_keep_nobody_else_waiting() -> None:
    manager = with_task_manager(slots=8)
    leased = [
        m.job_id
        for n in range(75)
        for m in sent(manager.on_request_slots(f"ann {n}", 1, 0, owner="ann"), RequestSlot)
    ]
    # The last slot is left to others.
    assert leased == [f"ann {n}" for n in range(7)]
    (lease,) = sent(manager.on_request_slots("bob 1", 1, 1, owner="bob"), RequestSlot)
    assert lease.job_id == "bob 1"
    assert sent(manager.on_request_slots("bob 2", 1, 2, owner="bob"), RequestSlot) == []
    assert sent(manager.on_request_slots("cid", 1, 3, owner="cid"), RequestSlot) == []
    # Whoever holds the least goes first, and only then who came first.
    order = []
    for lease_number, job in ((1, "ann 0"), (2, "ann 1"), (3, "ann 2")):
        manager.on_release_slots(job, 4)
        out = manager.on_task_manager_message(SlotFreed("a#0", f"rm-{lease_number}"), 5)
        order += [m.job_id for m in sent(out, RequestSlot)]
    assert order == ["cid", "bob 2", "ann 7"]


def test_a_job_may_have_all_slots_where_its_owner_has_no_other() -> None:
    manager = with_task_manager(slots=8)
    out = manager.on_request_slots("wide", 8, 0, owner="ann")
    assert len(sent(out, RequestSlot)) == 8


@pytest.mark.parametrize(("slots_max", "count"), [(2, 2), (OWNER_SLOTS_ANY, 8)])
def test_how_many_slots_one_owner_has_is_set(slots_max: int, count: int) -> None:
    manager = ResourceManager(dataclasses.replace(CONFIG, owner_slots_max=slots_max))
    manager.on_register(register(slots=8), 0)
    for n in range(9):
        manager.on_request_slots(f"j{n}", 1, 0, owner="ann")
    assert sum(s.is_leased for t in manager.task_managers.values() for s in t.slots) == count


def test_gathered_jobs_meet_in_the_first_task_manager_and_others_spread() -> None:
    manager = with_task_manager(slots=3)
    manager.on_register(register(resource="b", slots=3), 10)

    def place(job: str, is_gathered: bool) -> str:
        (lease,) = sent(manager.on_request_slots(job, 1, 20, is_gathered), RequestSlot)
        return str(lease.task_manager_id)

    assert [place(f"gathered {n}", True) for n in range(2)] == ["a#0", "a#0"]
    assert [place(f"spread {n}", False) for n in range(2)] == ["b#0", "b#0"]
    assert [place(f"late {n}", True) for n in range(2)] == ["a#0", "b#0"]


def test_a_job_that_asks_again_gets_slots_under_ids_never_used_before() -> None:
    manager = with_task_manager(slots=1)
    ids = []
    for now_ms in (0, 10, 20):
        out = manager.on_request_slots("j1", 1, now_ms)
        ids += [m.allocation_id for m in sent(out, RequestSlot)]
        manager.on_release_slots("j1", now_ms + 1)
        manager.on_task_manager_message(SlotFreed("a#0", ids[-1]), now_ms + 2)
    assert ids == ["rm-1", "rm-2", "rm-3"]


def test_a_released_slot_is_handed_on_when_its_task_manager_says_that_it_is_free() -> None:
    manager = with_task_manager(slots=1)
    manager.on_request_slots("j1", 1, 0)
    manager.on_task_manager_message(OfferSlots("a#0", "j1", (SlotOffer(0, "rm-1"),)), 5)
    manager.on_request_slots("j2", 1, 10)
    assert sent(manager.on_release_slots("j1", 20), FreeSlot) == [FreeSlot("a#0", "rm-1")]
    assert sent(manager.on_tick(600), FreeSlot) == [FreeSlot("a#0", "rm-1")]
    out = manager.on_task_manager_message(SlotFreed("a#0", "rm-1"), 700)
    assert sent(out, RequestSlot) == [RequestSlot("a#0", 0, "rm-2", "j2")]


def test_a_slot_request_is_repeated_until_the_slot_is_offered() -> None:
    manager = with_task_manager()
    manager.on_request_slots("j1", 1, 0)
    assert sent(manager.on_tick(500), RequestSlot) == [RequestSlot("a#0", 0, "rm-1", "j1")]
    manager.on_task_manager_message(OfferSlots("a#0", "j1", (SlotOffer(0, "rm-1"),)), 600)
    assert sent(manager.on_tick(1500), RequestSlot) == []
    assert manager.allocated("a#0", "rm-1")


def test_a_refused_lease_ends_and_the_job_gets_another() -> None:
    manager = with_task_manager(slots=2)
    manager.on_request_slots("j1", 1, 0)
    out = manager.on_task_manager_message(SlotRefused("a#0", 0, "rm-1"), 5)
    assert sent(out, FreeSlot) == [FreeSlot("a#0", "rm-1")]
    assert sent(out, RequestSlot) == [RequestSlot("a#0", 1, "rm-2", "j1")]


def test_an_offer_of_a_lease_that_ended_is_turned_down() -> None:
    manager = with_task_manager()
    out = manager.on_task_manager_message(OfferSlots("a#0", "j1", (SlotOffer(0, "rm-1"),)), 5)
    assert out == [Send("a:1", FreeSlot("a#0", "rm-1"))]


def test_a_lease_that_nobody_holds_is_freed_when_a_heartbeat_reports_it() -> None:
    manager = with_task_manager()
    out = manager.on_task_manager_message(HeartbeatReply("a#0", 1, (SlotStatus(0, "old/1", "old"),)), 5)
    assert out == [Send("a:1", FreeSlot("a#0", "old/1"))]


def test_a_silent_task_manager_is_lost_and_told_so_when_it_speaks_again() -> None:
    manager = with_task_manager()
    assert sent(manager.on_tick(0), Heartbeat) == [Heartbeat("a#0", 1)]
    assert manager.on_message_from("a#0", 2000) == "a:1"
    assert not any(isinstance(i, TaskManagerLost) for i in manager.on_tick(5000))
    lost = manager.on_tick(5001)
    assert isinstance(lost[0], TaskManagerLost)
    assert lost[0].error.reason is FailureReason.TASK_MANAGER_LOST
    assert manager.on_message_from("a#0", 5002) is None
    unknown = [Send("a:1", UnknownTaskManager("a#0"))]
    assert manager.on_stranger("a#0") == unknown
    assert manager.on_register(register(), 5003) == unknown


def test_one_that_disconnects_is_lost_at_once_unless_its_provider_reports_its_end() -> None:
    manager = with_task_manager()
    manager.on_request_slots("j1", 1, 10)
    out = manager.on_disconnect("a#0", 20)
    (lost,) = (i for i in out if isinstance(i, TaskManagerLost))
    assert (lost.error.code, lost.error.message) == ("SS6165", "TaskManager a#0 at a:1 was stopped")
    assert manager.overview() == ()
    assert manager.on_disconnect("a#0", 30) == []
    assert sent(manager.on_register(register(incarnation=1), 40), RequestSlot) != []

    provided = ResourceManager(dataclasses.replace(CONFIG, provisioning=ProvisioningConfig("a", 2, 2, 1)))
    provided.on_tick(0)
    provided.on_register(register(resource="a-1"), 10)
    assert provided.on_disconnect("a-1#0", 20) == []
    assert [t.task_manager_id for t in provided.overview()] == ["a-1#0"]


def test_a_task_manager_with_a_stuck_task_is_lost_with_all_of_its_slots() -> None:
    manager = with_task_manager()
    manager.on_request_slots("j1", 1, 10)
    out = manager.on_given_up("a#0", 20)
    assert sent(out, UnknownTaskManager) == [UnknownTaskManager("a#0")]
    assert [i.error.code for i in out if isinstance(i, TaskManagerLost)] == ["SS6005"]
    assert manager.overview() == ()
    assert manager.on_given_up("a#0", 30) == []


def test_the_next_incarnation_replaces_the_one_before_and_a_late_registration_does_not() -> None:
    manager = with_task_manager()
    out = manager.on_register(register(incarnation=1), 10)
    assert isinstance(out[0], TaskManagerLost)
    manager.on_register(register(incarnation=0), 20)
    assert list(manager.task_managers) == ["a#1"]


def test_the_slots_of_a_process_that_ended_are_replaced_unless_the_job_wants_no_more() -> None:
    manager = with_task_manager(slots=1)
    manager.on_register(register(resource="b", slots=1), 0)
    manager.on_request_slots("j1", 1, 0)
    held = next(t for t in manager.task_managers.values() if t.slots[0].state is not SlotState.FREE)
    gone = ErrorInfo(code="SS6001", message="killed", reason=FailureReason.TASK_MANAGER_LOST)
    out = manager.on_exited(held.registration.resource_id, gone, 5)
    assert out[0] == TaskManagerLost(held.id, gone)
    assert [m.allocation_id for m in sent(out, RequestSlot)] == ["rm-2"]
    manager.on_withdraw_request("j1", 6)
    other = next(iter(manager.task_managers.values()))
    manager.on_register(register(resource="c", slots=1), 7)
    assert sent(manager.on_exited(other.registration.resource_id, gone, 8), RequestSlot) == []


def test_a_heartbeat_is_sent_once_an_interval() -> None:
    manager = with_task_manager()
    beats = []
    for now_ms in (0, 999, 1000, 1001, 1999, 2000):
        manager.on_message_from("a#0", now_ms)
        beats += [(now_ms, m.sequence) for m in sent(manager.on_tick(now_ms), Heartbeat)]
    assert beats == [(0, 1), (1000, 2), (2000, 3)]


def test_an_earlier_registration_that_arrives_late_changes_nothing() -> None:
    manager = ResourceManager(CONFIG)
    manager.on_register(register(incarnation=1), 0)
    assert manager.on_register(register(incarnation=0), 1) == []
    assert [t.task_manager_id for t in manager.overview()] == ["a#1"]


def test_a_slot_request_is_sent_again_after_its_time_and_no_sooner() -> None:
    manager = with_task_manager(slots=1)
    manager.on_request_slots("j1", 1, 1000)
    manager.on_message_from("a#0", 1499)
    assert sent(manager.on_tick(1499), RequestSlot) == []
    assert [m.allocation_id for m in sent(manager.on_tick(1500), RequestSlot)] == ["rm-1"]
    manager.on_release_slots("j1", 1600)
    assert sent(manager.on_tick(2099), FreeSlot) == []
    assert [m.allocation_id for m in sent(manager.on_tick(2100), FreeSlot)] == ["rm-1"]


def test_only_the_slot_that_is_being_released_becomes_free() -> None:
    manager = with_task_manager(slots=2)
    manager.on_request_slots("j1", 1, 0)
    manager.on_request_slots("j2", 1, 0)
    manager.on_release_slots("j1", 1)
    manager.on_task_manager_message(SlotFreed("a#0", "rm-2"), 2)
    manager.on_task_manager_message(SlotFreed("a#0", "rm-9"), 2)
    (found,) = manager.task_managers.values()
    assert [(s.state, s.allocation_id) for s in found.slots] == [
        (SlotState.RELEASING, "rm-1"),
        (SlotState.REQUESTED, "rm-2"),
    ]


def test_slots_that_come_together_go_to_all_jobs_that_wait() -> None:
    manager = ResourceManager(CONFIG)
    for job_id in ("j1", "j2", "j3"):
        manager.on_request_slots(job_id, 1, 0)
    out = manager.on_register(register(slots=2), 1)
    assert [m.job_id for m in sent(out, RequestSlot)] == ["j1", "j2"]


def test_the_latest_of_the_lost_registrations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.jobmanager.resources.resource_manager.GONE_MAX", 2)
    manager = ResourceManager(CONFIG)
    for resource in "abc":
        manager.on_register(register(resource=resource), 0)
        manager.on_given_up(f"{resource}#0", 1)
    answered = [sent(manager.on_stranger(f"{resource}#0"), UnknownTaskManager) for resource in "abc"]
    assert answered == [[], [UnknownTaskManager("b#0")], [UnknownTaskManager("c#0")]]


def test_a_job_that_can_do_with_fewer_slots_gets_what_no_other_job_waits_for() -> None:
    manager = with_task_manager(slots=4)
    out = manager.on_request_slots("elastic", 8, 0, least=1)
    assert len(sent(out, RequestSlot)) == 4
    # One that waits gets the next slots before it.
    assert sent(manager.on_request_slots("fixed", 2, 1), RequestSlot) == []
    out = manager.on_register(register(resource="b", slots=3), 2)
    assert [m.job_id for m in sent(out, RequestSlot)] == ["fixed", "fixed", "elastic"]


def test_a_job_that_can_do_with_fewer_slots_waits_for_the_least_together() -> None:
    manager = with_task_manager(slots=1)
    assert sent(manager.on_request_slots("elastic", 8, 0, least=2), RequestSlot) == []
    out = manager.on_register(register(resource="b", slots=2), 1)
    assert [m.job_id for m in sent(out, RequestSlot)] == ["elastic"] * 3


def test_two_jobs_that_can_do_with_fewer_slots_both_run() -> None:
    manager = ResourceManager(CONFIG)
    for job_id in ("j1", "j2"):
        manager.on_request_slots(job_id, 128, 0, least=1)
    out = manager.on_register(register(slots=4), 1)
    assert {m.job_id for m in sent(out, RequestSlot)} == {"j1", "j2"}


def test_one_owner_leaves_slots_to_others_also_with_jobs_that_take_more() -> None:
    manager = with_task_manager(slots=8)
    manager.on_request_slots("ann 1", 4, 0, owner="ann")
    out = manager.on_request_slots("ann 2", 8, 1, owner="ann", least=1)
    assert len(sent(out, RequestSlot)) == 3
    assert len(sent(manager.on_request_slots("bob", 1, 2, owner="bob"), RequestSlot)) == 1
