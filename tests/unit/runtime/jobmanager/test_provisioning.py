"""How many TaskManagers there are: requested for jobs, replaced when their slots are needed, released when idle."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.errors import ErrorInfo, FailureReason, InternalError, UserError
from sqlstream.messages.rpc import (
    RegisterTaskManager,
    RegistrationRefused,
    RequestSlot,
    SlotFreed,
    UnknownTaskManager,
)
from sqlstream.runtime.jobmanager.events import (
    NoTaskManagerLeft,
    ReleaseTaskManager,
    RequestTaskManagers,
    Send,
)
from sqlstream.runtime.jobmanager.resources.provisioning import (
    REPLACEMENTS_MAX,
    Provisioning,
    ProvisioningConfig,
)
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManager, ResourceManagerConfig

GONE = ErrorInfo(code="SS6006", message="killed", reason=FailureReason.TASK_MANAGER_LOST)


class Provisioned:
    """A ResourceManager whose requests the test answers."""

    def __init__(self, slots: int = 1, slots_max: int = 64, minimum: int = 0) -> None:
        self.slots = slots
        bounds = ProvisioningConfig("tm", slots, slots_max, minimum, registration_timeout_ms=60_000)
        config = ResourceManagerConfig(1000, 50_000, provisioning=bounds)
        self.manager = ResourceManager(config)

    def registered(self, resource_id: str, now_ms: int = 0, incarnation: int = 0) -> list[Any]:
        tm = f"{resource_id}#{incarnation}"
        return self.manager.on_register(
            RegisterTaskManager(tm, resource_id, incarnation, f"{resource_id}:1", self.slots), now_ms
        )

    def free_all(self, job_id: str, now_ms: int = 0) -> None:
        held = [
            (t.id, s.allocation_id)
            for t in self.manager.task_managers.values()
            for s in t.slots
            if s.job_id == job_id
        ]
        self.manager.on_release_slots(job_id, now_ms)
        for task_manager_id, allocation_id in held:
            self.manager.on_task_manager_message(SlotFreed(task_manager_id, allocation_id), now_ms)

    def beat(self, now_ms: int) -> list[Any]:
        """A tick; every TaskManager has just been heard of."""
        for tm in self.manager.task_managers:
            self.manager.on_message_from(tm, now_ms)
        return self.manager.on_tick(now_ms)


def requested(instructions: list[Any]) -> list[str]:
    return [id for i in instructions if isinstance(i, RequestTaskManagers) for id in i.resource_ids]


def released(instructions: list[Any]) -> list[tuple[str, bool]]:
    return [(i.resource_id, i.is_lost) for i in instructions if isinstance(i, ReleaseTaskManager)]


def leased(instructions: list[Any]) -> list[str]:
    sent = (i.message for i in instructions if isinstance(i, Send))
    return [m.job_id for m in sent if isinstance(m, RequestSlot)]


def test_a_job_requests_what_it_lacks_and_no_tick_requests_it_again() -> None:
    cluster = Provisioned(slots=2)
    assert requested(cluster.manager.on_request_slots("j1", 3, 0)) == ["tm-1", "tm-2"]
    assert requested(cluster.manager.on_tick(50)) == []
    assert requested(cluster.registered("tm-1", 60)) == []
    assert leased(cluster.registered("tm-2", 70)) == ["j1"] * 3
    assert requested(cluster.manager.on_request_slots("j2", 1, 80)) == []
    assert requested(cluster.manager.on_request_slots("j3", 1, 90)) == ["tm-3"]


def test_two_jobs_that_ask_at_once_both_get_what_they_need() -> None:
    cluster = Provisioned()
    first = cluster.manager.on_request_slots("j1", 2, 0)
    second = cluster.manager.on_request_slots("j2", 2, 0)
    assert requested(first) + requested(second) == ["tm-1", "tm-2", "tm-3", "tm-4"]
    got = [job_id for n in (1, 2, 3, 4) for job_id in leased(cluster.registered(f"tm-{n}"))]
    assert got == ["j1", "j1", "j2", "j2"]


def test_beyond_the_maximum_jobs_wait_in_line() -> None:
    cluster = Provisioned(slots_max=3)
    assert requested(cluster.manager.on_request_slots("j1", 2, 0)) == ["tm-1", "tm-2"]
    assert requested(cluster.manager.on_request_slots("j2", 3, 0)) == ["tm-3"]
    for n in (1, 2, 3):
        cluster.registered(f"tm-{n}")
    assert requested(cluster.manager.on_request_slots("j3", 1, 0)) == []
    assert {s.job_id for t in cluster.manager.task_managers.values() for s in t.slots} == {"j1", ""}
    cluster.free_all("j1")
    assert {s.job_id for t in cluster.manager.task_managers.values() for s in t.slots} == {"j2"}


def test_a_job_passes_an_earlier_one_only_while_the_cluster_can_still_grow_by_what_that_one_needs() -> None:
    cluster = Provisioned(slots=2, slots_max=4)
    cluster.manager.on_request_slots("j1", 1, 0)
    assert leased(cluster.registered("tm-1")) == ["j1"]
    assert requested(cluster.manager.on_request_slots("wide", 2, 0)) == ["tm-2"]
    # One slot is free, and two more may come: "wide" does not need this one.
    assert leased(cluster.manager.on_request_slots("passes", 1, 0)) == ["passes"]
    cluster.free_all("passes")
    assert leased(cluster.manager.on_request_slots("waits", 2, 0)) == []
    assert leased(cluster.manager.on_request_slots("waits too", 1, 0)) == []
    assert leased(cluster.registered("tm-2")) == ["wide", "wide"]


def test_slots_that_are_being_freed_are_waited_for() -> None:
    """The next statement of a script starts while the slots of the last one come back."""
    cluster = Provisioned()
    cluster.manager.on_request_slots("j1", 1, 0)
    cluster.registered("tm-1")
    cluster.manager.on_release_slots("j1", 10)
    assert requested(cluster.manager.on_request_slots("j2", 1, 11)) == []
    out = cluster.manager.on_task_manager_message(SlotFreed("tm-1#0", "rm-1"), 12)
    assert leased(out) == ["j2"]


def test_idle_task_managers_beyond_the_first_are_released_the_latest_first() -> None:
    cluster = Provisioned()
    cluster.manager.on_request_slots("j1", 3, 0)
    for n in (1, 2, 3):
        cluster.registered(f"tm-{n}")
    cluster.free_all("j1", 1000)
    assert released(cluster.beat(30_999)) == []
    assert released(cluster.beat(31_000)) == [("tm-3", False), ("tm-2", False)]
    assert released(cluster.beat(90_000)) == []
    assert [t.task_manager_id for t in cluster.manager.overview()] == ["tm-1#0"]


def test_a_job_of_one_slot_keeps_no_second_task_manager() -> None:
    cluster = Provisioned()
    cluster.manager.on_request_slots("wide", 2, 0)
    for n in (1, 2):
        cluster.registered(f"tm-{n}")
    cluster.free_all("wide", 0)
    cluster.manager.on_request_slots("narrow", 1, 0)
    assert released(cluster.beat(30_000)) == [("tm-2", False)]
    assert released(cluster.beat(90_000)) == []


def test_the_minimum_starts_without_a_job_and_stays() -> None:
    cluster = Provisioned(minimum=2)
    assert requested(cluster.manager.on_tick(0)) == ["tm-1", "tm-2"]
    for n in (1, 2):
        cluster.registered(f"tm-{n}")
    assert released(cluster.beat(90_000)) == []
    assert requested(cluster.manager.on_exited("tm-1", GONE, 90_001)) == ["tm-3"]


def test_no_task_manager_is_released_while_a_job_waits() -> None:
    cluster = Provisioned(slots_max=3)
    cluster.manager.on_request_slots("j1", 1, 0)
    cluster.registered("tm-1")
    cluster.manager.on_request_slots("wide", 3, 0)
    for n in (2, 3):
        cluster.registered(f"tm-{n}")
    assert released(cluster.beat(90_000)) == []


def test_a_released_task_manager_counts_until_it_has_ended_and_may_not_come_back() -> None:
    cluster = Provisioned(slots_max=2)
    cluster.manager.on_request_slots("j1", 2, 0)
    for n in (1, 2):
        cluster.registered(f"tm-{n}")
    cluster.free_all("j1", 0)
    cluster.beat(30_000)
    assert cluster.manager.on_stranger("tm-2#0") == [Send("tm-2:1", UnknownTaskManager("tm-2#0"))]
    refused = cluster.registered("tm-2", 30_100, incarnation=1)
    assert [type(i.message) for i in refused] == [RegistrationRefused]
    assert refused[0].message.error.code == "SS6052"
    assert requested(cluster.manager.on_request_slots("j2", 2, 30_200)) == []
    assert requested(cluster.manager.on_exited("tm-2", GONE, 30_300)) == ["tm-3"]
    assert leased(cluster.registered("tm-3", 30_400)) == ["j2", "j2"]


def test_one_that_dies_is_replaced_only_when_its_slots_are_needed() -> None:
    cluster = Provisioned()
    cluster.manager.on_request_slots("j1", 1, 0)
    cluster.registered("tm-1")
    cluster.manager.on_withdraw_request("j1", 1)
    assert requested(cluster.manager.on_exited("tm-1", GONE, 2)) == []
    assert requested(cluster.manager.on_request_slots("j2", 1, 3)) == ["tm-2"]
    assert requested(cluster.manager.on_exited("tm-2", GONE, 4)) == ["tm-3"]


def test_one_that_does_not_register_in_time_is_ended_and_replaced() -> None:
    cluster = Provisioned()
    cluster.manager.on_request_slots("j1", 1, 0)
    assert released(cluster.manager.on_tick(60_000)) == []
    out = cluster.manager.on_tick(60_001)
    assert (released(out), requested(out)) == ([("tm-1", True)], ["tm-2"])
    assert [i.message.error.code for i in cluster.registered("tm-1", 60_100)] == ["SS6052"]
    assert leased(cluster.registered("tm-2", 60_200)) == ["j1"]


def test_a_silent_one_is_ended_by_force_and_replaced_for_the_job_that_waits() -> None:
    cluster = Provisioned(slots=2)
    cluster.manager.on_request_slots("j1", 2, 0)
    cluster.registered("tm-1")
    out = cluster.manager.on_tick(50_001)
    assert (released(out), requested(out)) == ([("tm-1", True)], ["tm-2"])


def test_replacements_are_bounded_until_the_next_job_comes() -> None:
    cluster = Provisioned()
    ids = requested(cluster.manager.on_request_slots("j1", 1, 0))
    for _ in range(REPLACEMENTS_MAX):
        ids += requested(cluster.manager.on_exited(ids[-1], GONE, 1))
    assert len(ids) == 1 + REPLACEMENTS_MAX
    (left,) = cluster.manager.on_exited(ids[-1], GONE, 2)
    assert isinstance(left, NoTaskManagerLeft)
    assert left.error.message == "no TaskManager is left and 10 replacements have ended too: killed"
    assert (left.error.code, left.error.reason) == ("SS6003", FailureReason.NO_RESOURCES)
    cluster.manager.on_release_slots("j1", 3)
    assert cluster.manager.on_tick(4) == []
    assert len(requested(cluster.manager.on_request_slots("j2", 1, 5))) == 1


def test_that_no_other_is_requested_is_told_once_while_some_are_left() -> None:
    cluster = Provisioned()
    cluster.manager.on_request_slots("j1", 1, 0)
    cluster.registered("tm-1")
    assert requested(cluster.manager.on_request_slots("j1", 2, 1)) == ["tm-2"]
    in_vain = ErrorInfo(code="SS5112", message="no master", reason=FailureReason.NO_RESOURCES)
    told = [i for i in cluster.manager.on_exited("tm-2", in_vain, 2) if isinstance(i, NoTaskManagerLeft)]
    assert told == [NoTaskManagerLeft(in_vain, 1)]
    assert [i for i in cluster.manager.on_tick(3) if isinstance(i, NoTaskManagerLeft)] == []


def test_what_would_fail_again_is_not_requested_again_until_the_next_job_comes() -> None:
    cluster = Provisioned()
    assert requested(cluster.manager.on_request_slots("job", 2, 0)) == ["tm-1", "tm-2"]
    in_vain = ErrorInfo(code="SS5112", message="no master", reason=FailureReason.NO_RESOURCES)
    assert cluster.manager.on_exited("tm-1", in_vain, 0) == []
    assert cluster.manager.on_exited("tm-2", in_vain, 0) == [NoTaskManagerLeft(in_vain)]
    cluster.manager.on_release_slots("job", 0)
    assert requested(cluster.manager.on_request_slots("other", 1, 0)) == ["tm-3"]


def test_a_loss_that_follows_does_not_replace_the_cause_for_which_no_other_is_requested() -> None:
    cluster = Provisioned()
    assert requested(cluster.manager.on_request_slots("job", 2, 0)) == ["tm-1", "tm-2"]
    in_vain = ErrorInfo(code="SS5112", message="no master", reason=FailureReason.NO_RESOURCES)
    cluster.manager.on_exited("tm-1", in_vain, 0)
    assert cluster.manager.on_exited("tm-2", GONE, 0) == [NoTaskManagerLeft(in_vain)]


def test_the_bounds_come_from_the_settings() -> None:
    settings = {
        "taskmanager.numberOfTaskSlots": "4",
        "slotmanager.number-of-slots.max": "10",
        "slotmanager.number-of-slots.min": "5",
        "resourcemanager.taskmanager-timeout": "2 s",
        "resourcemanager.taskmanager-registration.timeout": "3 s",
    }
    assert ProvisioningConfig.of(settings, "tm", None) == ProvisioningConfig("tm", 4, 8, 2, 2000, 3000)
    assert ProvisioningConfig.of({}, "tm", None) == ProvisioningConfig("tm", 1, 64, 0, 30_000, 300_000)
    assert ProvisioningConfig.of({}, "tm", 3).task_managers_min == 3
    full = {"taskmanager.numberOfTaskSlots": "2", "slotmanager.number-of-slots.max": "6"}
    assert ProvisioningConfig.of(full, "tm", 3).task_managers_max == 3
    with pytest.raises(UserError, match="too few for 4 TaskManagers of 2 slots each"):
        ProvisioningConfig.of({**full, "slotmanager.number-of-slots.max": "7"}, "tm", 4)
    with pytest.raises(UserError, match="too few for 3 TaskManagers of 2 slots each"):
        ProvisioningConfig.of({**full, "slotmanager.number-of-slots.max": "5"}, "tm", 3)


def test_the_slots_that_may_come_are_those_of_the_bounds_until_too_many_were_lost() -> None:
    provisioning = Provisioning(ProvisioningConfig("tm", 3, 12))
    assert provisioning.slots_possible == 12
    provisioning.request(4, 0)
    provisioning.on_registered("tm-1")
    in_vain = ErrorInfo(code="SS5112", message="no master", reason=FailureReason.NO_RESOURCES)
    assert provisioning.release_lost("tm-2", in_vain) == ReleaseTaskManager("tm-2", is_lost=True)
    assert (provisioning.is_given_up, provisioning.slots_possible) == (True, 3)
    provisioning.on_job()
    assert (provisioning.is_given_up, provisioning.slots_possible) == (False, 12)


def test_one_task_manager_is_lost_once() -> None:
    provisioning = Provisioning(ProvisioningConfig("tm"))
    provisioning.request(1, 0)
    for _ in range(REPLACEMENTS_MAX + 1):
        provisioning.release_lost("tm-1", GONE)
        provisioning.release_lost("tm-9", GONE)
    provisioning.on_exited("tm-1", GONE)
    assert not provisioning.is_given_up


@pytest.mark.parametrize(
    ("detail", "hint", "expected"),
    [
        ("Traceback", "own", "correct the cause in the last lines, then run the statement again"),
        ("", "own", "own"),
        ("", "", "see what else ends processes of this user, then run the statement again"),
    ],
)
def test_the_hint_of_the_last_error_follows_from_what_is_known(detail: str, hint: str, expected: str) -> None:
    gone = ErrorInfo(
        code="SS6006", message="killed", detail=detail, hint=hint, reason=FailureReason.TASK_MANAGER_LOST
    )
    cluster = Provisioned()
    ids = requested(cluster.manager.on_request_slots("j1", 1, 0))
    out: list[Any] = []
    while ids:
        out = cluster.manager.on_exited(ids[-1], gone, 1)
        ids = requested(out)
    assert [i.error.hint for i in out if isinstance(i, NoTaskManagerLeft)] == [expected]


def test_a_task_manager_that_is_registered_in_one_place_only_is_our_bug() -> None:
    cluster = Provisioned()
    cluster.manager.on_request_slots("j1", 1, 0)
    cluster.registered("tm-1")
    provisioning = cluster.manager.provisioning
    assert provisioning is not None
    provisioning._task_managers.clear()
    with pytest.raises(InternalError, match=r"TaskManagers \['tm-1'\] are registered in one place only"):
        cluster.manager.on_tick(1)


@pytest.mark.parametrize(("slots", "count"), [("4", None), ("1", 4)])
def test_bounds_that_exclude_each_other_are_refused(slots: str, count: int | None) -> None:
    settings = {"taskmanager.numberOfTaskSlots": slots, "slotmanager.number-of-slots.max": "3"}
    with pytest.raises(UserError, match=r'"slotmanager\.number-of-slots\.max" is 3, too few') as caught:
        ProvisioningConfig.of(settings, "tm", count)
    assert caught.value.code == "SS4002"
