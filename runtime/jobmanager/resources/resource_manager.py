"""The registered TaskManagers, and which job each slot is leased to (Flink: ResourceManager, SlotManager)."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlstream.errors import ErrorInfo, InternalError, error_info
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
    SlotRefused,
    TaskManagerOverview,
    ToTaskManager,
    UnknownTaskManager,
)
from sqlstream.runtime.jobmanager.events import (
    Noted,
    ResourceManagerInstruction,
    Send,
    SlotsTaken,
    TaskManagerLost,
)
from sqlstream.runtime.jobmanager.resources.hosts import (
    BlockedHosts,
    BlocklistConfig,
    LoadBalance,
    choose_task_manager,
    describe_hosts,
    host_of,
)
from sqlstream.runtime.jobmanager.resources.provisioning import (
    Provisioning,
    ProvisioningConfig,
    RegisteredTaskManager,
    Slot,
    SlotState,
)
from sqlstream.runtime.story import Story

OWNER_SLOTS_AUTO, OWNER_SLOTS_ANY = 0, -1
"""Values of `owner_slots_max`: all slots but a part that is left to others, and all slots."""

SHARE_OF_OTHERS = 8
"""One of so many slots is left to others."""

RELEASED = "SS6051"
"""The code of a TaskManager that no job has used for long: it has not failed."""

STOPPED = "SS6165"
"""The code of a TaskManager that has joined and was told to end."""

ENDS_IN_ORDER = (RELEASED, STOPPED)
"""They say nothing about the host."""

GONE_MAX = 4096
"""How many lost registrations are remembered, so that their messages are answered with a request to register anew."""


@dataclass(frozen=True)
class ResourceManagerConfig:
    """`resource_manager_id` differs between any two ResourceManagers that one TaskManager can meet (Flink:
    ResourceManagerId). Without `provisioning` nobody starts TaskManagers: jobs wait for those that register (Flink: a
    standalone cluster)."""

    heartbeat_interval_ms: int = 10_000
    heartbeat_timeout_ms: int = 50_000
    resend_ms: int = 500
    resource_manager_id: str = "rm"
    provisioning: ProvisioningConfig | None = None
    owner_slots_max: int = OWNER_SLOTS_AUTO
    load_balance: LoadBalance = LoadBalance.NONE
    blocklist: BlocklistConfig = field(default_factory=BlocklistConfig)

    def slots_of_one_owner(self, possible: int) -> int:
        """How many of the slots that the cluster may have jobs of one owner have at most, beside the first of them."""
        if self.owner_slots_max == OWNER_SLOTS_AUTO:
            return possible - possible // SHARE_OF_OTHERS
        return possible if self.owner_slots_max == OWNER_SLOTS_ANY else self.owner_slots_max


@dataclass
class Requirement:
    """The slots that a job of `owner` requested. A job whose requirement is not open gets no more slots. `is_gathered`: they are
    leased from the TaskManager that registered first, as long as it has free ones. With `least` the job waits for so many of
    them, and gets the others as far as no job waits for them; with 0 it waits for all."""

    slots: int
    is_gathered: bool = False
    is_open: bool = True
    owner: str = ""
    least: int = 0

    def missing(self, leased: int) -> int:
        """For how many slots the job waits as any other, all at once."""
        if not self.is_open:
            return 0
        return (self.least or self.slots) - leased


class ResourceManager:
    """Allocates all slots of a job at once. Of the jobs that wait, those go first whose owner (a user, or a session where users
    have no names) holds the fewest slots; among jobs of one owner, who came first. So many jobs of one owner delay those of
    another by one job at most. Beside its first job, an owner gets no more slots than `slots_of_one_owner`.

    A job takes free slots before one that goes first and waits only while the cluster can still grow by what the earlier one
    needs; in a full cluster slots that come free are kept for the first job in line. A job that needs more slots than the
    cluster can have delays no other. A slot is leased to a job from the moment it is requested until its
    TaskManager reports it freed; no allocation id is used twice, by whatever job. A TaskManager is lost, with all its slots,
    when it is silent for `heartbeat_timeout_ms`, holds a task that does not end, registers anew, disconnects or exits.
    State: TaskManagers, slots, requirements of live jobs, blocked hosts, and the ids of lost registrations up to a bound.
    """

    def __init__(self, config: ResourceManagerConfig) -> None:
        self.config = config
        self.story = Story()
        self.task_managers: dict[str, RegisteredTaskManager] = {}
        self.requirements: dict[str, Requirement] = {}
        self._gone: OrderedDict[str, str] = OrderedDict()
        self.provisioning = Provisioning(config.provisioning) if config.provisioning else None
        self._leases = 0
        self._waiting_slots = 0
        self._blocked = BlockedHosts(config.blocklist)
        self._now_ms = 0
        self._instructions: list[ResourceManagerInstruction] = []

    # --- events

    def on_register(self, message: RegisterTaskManager, now_ms: int) -> list[ResourceManagerInstruction]:
        self._begin()
        if message.protocol_version != PROTOCOL_VERSION:
            self._refuse(message, _other_version(message))
        elif self.provisioning is not None and not self.provisioning.is_expected(message.resource_id):
            self._refuse(message, _not_requested(message))
        elif message.task_manager_id in self._gone or self._is_of_another(message):
            self._send(message.address, UnknownTaskManager(message.task_manager_id))
        elif not self._is_overtaken(message):
            self._register(message, now_ms)
        return self._end(now_ms)

    def on_task_manager_message(
        self, message: HeartbeatReply | OfferSlots | SlotRefused | SlotFreed, now_ms: int
    ) -> list[ResourceManagerInstruction]:
        """Handle a message of a registered TaskManager; the caller has checked `is_registered`."""
        self._begin()
        found = self.task_managers[message.task_manager_id]
        match message:
            case HeartbeatReply():
                self._free_unknown(found, message, now_ms)
            case OfferSlots():
                self._on_offers(found, message)
            case SlotRefused():
                self._on_refused(found, message, now_ms)
            case SlotFreed():
                self._on_freed(found, message, now_ms)
        return self._end(now_ms)

    def on_request_slots(
        self,
        job_id: str,
        slots: int,
        now_ms: int,
        is_gathered: bool = False,
        owner: str = "",
        least: int = 0,
    ) -> list[ResourceManagerInstruction]:
        self._begin()
        self.requirements[job_id] = Requirement(slots, is_gathered, owner=owner, least=least)
        if self.provisioning is not None:
            self.provisioning.on_job()
        return self._end(now_ms)

    def on_withdraw_request(self, job_id: str, now_ms: int) -> list[ResourceManagerInstruction]:
        self._begin()
        if job_id in self.requirements:
            self.requirements[job_id].is_open = False
        return self._end(now_ms)

    def on_keep_slots(
        self, job_id: str, allocation_ids: frozenset[str], slots: int, now_ms: int
    ) -> list[ResourceManagerInstruction]:
        """The job needs this many slots from here on, and of those that it has, or was about to get, these alone."""
        self._begin()
        for found in self.task_managers.values():
            for slot in found.slots:
                if slot.job_id == job_id and slot.is_leased and slot.allocation_id not in allocation_ids:
                    self._release(found, slot, now_ms)
        requirement = self.requirements.get(job_id)
        if requirement is not None:
            self.requirements[job_id] = replace(requirement, slots=slots, is_open=False)
        return self._end(now_ms)

    def on_release_slots(self, job_id: str, now_ms: int) -> list[ResourceManagerInstruction]:
        self._begin()
        self.requirements.pop(job_id, None)
        for found in self.task_managers.values():
            for slot in found.slots:
                if slot.job_id == job_id and slot.state is not SlotState.FREE:
                    self._release(found, slot, now_ms)
        return self._end(now_ms)

    def on_exited(self, resource_id: str, error: ErrorInfo, now_ms: int) -> list[ResourceManagerInstruction]:
        self._begin()
        for found in list(self.task_managers.values()):
            if found.resource_id == resource_id:
                self._lose(found, error, now_ms)
        if self.provisioning is not None:
            self.provisioning.on_exited(resource_id, error)
        return self._end(now_ms)

    def on_disconnect(self, task_manager_id: str, now_ms: int) -> list[ResourceManagerInstruction]:
        """It was stopped in order. The end of one that was asked for here is reported by its provider."""
        self._begin()
        found = self.task_managers.get(task_manager_id)
        if found is not None and self.provisioning is None:
            self._lose(found, _stopped(found), now_ms)
        return self._end(now_ms)

    def on_given_up(self, task_manager_id: str, now_ms: int) -> list[ResourceManagerInstruction]:
        """A task in it does not end: none of its slots may be leased again before the process has restarted."""
        self._begin()
        found = self.task_managers.get(task_manager_id)
        if found is not None:
            self._send(found.address, UnknownTaskManager(found.id))
            self._give_up(found, _stuck(found), now_ms)
        return self._end(now_ms)

    def on_task_failed(
        self, task_manager_id: str, job_id: str, now_ms: int
    ) -> list[ResourceManagerInstruction]:
        """A task of the job has failed there, for a reason that may be that of its host."""
        self._begin()
        found = self.task_managers.get(task_manager_id)
        if found is not None:
            self._count_failure(found, now_ms)
            self._leave_blocked(found, job_id, now_ms)
        return self._end(now_ms)

    def on_tick(self, now_ms: int) -> list[ResourceManagerInstruction]:
        self._begin()
        for host in self._blocked.forget(now_ms):
            self._note(f"host {host} is not blocked any more", now_ms, is_warning=False)
        for found in list(self.task_managers.values()):
            if now_ms - found.last_message_ms > self.config.heartbeat_timeout_ms:
                self._give_up(found, _silent(found, self.config.heartbeat_timeout_ms), now_ms)
                continue
            if now_ms >= found.next_heartbeat_ms:
                found.heartbeat_sequence += 1
                found.next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
                self._send(found.address, Heartbeat(found.id, found.heartbeat_sequence))
            self._resend(found, now_ms)
        if self.provisioning is not None:
            self._instructions += self.provisioning.release_overdue(now_ms)
            self._release_idle(self.provisioning, now_ms)
        return self._end(now_ms)

    def is_settled(self) -> bool:
        """Whether no answer of a TaskManager about a slot is due."""
        owed = (SlotState.REQUESTED, SlotState.RELEASING)
        return not any(s.state in owed for t in self.task_managers.values() for s in t.slots)

    def on_message_from(self, task_manager_id: str, now_ms: int) -> str | None:
        """Record the time of a message; returns the sender's address, None when it is not registered."""
        found = self.task_managers.get(task_manager_id)
        if found is None:
            return None
        found.last_message_ms = now_ms
        return found.address

    def on_stranger(self, task_manager_id: str) -> list[ResourceManagerInstruction]:
        """Answer a message of a registration that is not in force: a lost one is requested to register anew."""
        address = self._gone.get(task_manager_id)
        return [Send(address, UnknownTaskManager(task_manager_id))] if address is not None else []

    def allocated(self, task_manager_id: str, allocation_id: str) -> bool:
        """Whether the lease is in force; it is not when it ended before this offer arrived."""
        found = self.task_managers[task_manager_id]
        return any(s.allocation_id == allocation_id and s.state is SlotState.ALLOCATED for s in found.slots)

    def overview(self) -> tuple[TaskManagerOverview, ...]:
        return tuple(
            t.overview(self._blocked.is_blocked(t.address, self._now_ms)) for t in self.task_managers.values()
        )

    def describe_slots(self) -> str:
        return describe_hosts(self.task_managers.values(), self._blocked, self._now_ms)

    def check(self) -> None:
        """Check the invariants that hold after every step; InternalError with the story when one is broken."""
        leased: dict[str, int] = {}
        for found in self.task_managers.values():
            for slot in found.slots:
                if (slot.state is SlotState.FREE) == bool(slot.allocation_id):
                    raise InternalError(
                        f"slot {slot.index} of {found.id} is half free", story=self.story.lines()
                    )
                if slot.is_leased:
                    leased[slot.job_id] = leased.get(slot.job_id, 0) + 1
        for job_id, count in leased.items():
            if job_id not in self.requirements or count > self.requirements[job_id].slots:
                raise InternalError(f"job {job_id} holds {count} slots, too many", story=self.story.lines())
        if self.provisioning is not None:
            self.provisioning.check({t.resource_id for t in self.task_managers.values()})

    # --- registration

    def _refuse(self, message: RegisterTaskManager, error: ErrorInfo) -> None:
        self._send(message.address, RegistrationRefused(message.task_manager_id, error))

    def _is_overtaken(self, message: RegisterTaskManager) -> bool:
        """Whether a later registration of the same process is in force, so that this message is a delayed one."""
        return any(
            t.resource_id == message.resource_id and t.registration.incarnation > message.incarnation
            for t in self.task_managers.values()
        )

    def _is_of_another(self, message: RegisterTaskManager) -> bool:
        """Whether its slots are those that an earlier JobManager leased."""
        return message.is_held and message.task_manager_id not in self.task_managers

    def _register(self, message: RegisterTaskManager, now_ms: int) -> None:
        if message.task_manager_id not in self.task_managers:
            for found in list(self.task_managers.values()):
                if found.resource_id == message.resource_id:
                    self._lose(found, _registered_anew(found), now_ms)
            slots = [Slot(i) for i in range(message.slots)]
            self.task_managers[message.task_manager_id] = RegisteredTaskManager(
                message, now_ms, now_ms, slots
            )
            if self.provisioning is not None:
                self.provisioning.on_registered(message.resource_id)
            self.story.add(now_ms, f"{message.task_manager_id} registered with {message.slots} slots")
        self.task_managers[message.task_manager_id].last_message_ms = now_ms
        config = self.config
        self._send(
            message.address,
            RegistrationAccepted(
                message.task_manager_id, config.heartbeat_interval_ms, config.heartbeat_timeout_ms
            ),
        )

    def _lose(self, found: RegisteredTaskManager, error: ErrorInfo, now_ms: int) -> None:
        self.story.add(now_ms, f"{found.id} lost: {error.message}")
        del self.task_managers[found.id]
        self._gone[found.id] = found.address
        while len(self._gone) > GONE_MAX:
            self._gone.popitem(last=False)
        self._instructions.append(TaskManagerLost(found.id, error))
        if error.code not in ENDS_IN_ORDER:
            self._count_failure(found, now_ms)

    def _count_failure(self, found: RegisteredTaskManager, now_ms: int) -> None:
        hosts = {host_of(t.address) for t in self.task_managers.values()}
        if hosts - {host_of(found.address)} and self._blocked.on_failure(found.address, now_ms):
            config = self.config.blocklist
            self._note(
                f"host {host_of(found.address)} gets no tasks for {config.duration_ms / 1000:g} s unless no other is free: "
                f"{config.failures} tasks or TaskManagers have failed there within {config.window_ms / 1000:g} s",
                now_ms,
            )

    def _leave_blocked(self, found: RegisteredTaskManager, job_id: str, now_ms: int) -> None:
        """A job keeps its slots when its tasks fail: it would restart them on the blocked host for ever. Where others have room
        for all of it that runs there, they get it. What the host runs of other jobs, which may not fail, stays."""
        if not self._blocked.is_blocked(found.address, now_ms):
            return
        others = (t for t in self.task_managers.values() if not self._blocked.is_blocked(t.address, now_ms))
        leased = [slot for slot in found.slots if slot.is_leased and slot.job_id == job_id]
        if leased and sum(len(t.free_slots()) for t in others) >= len(leased):
            for slot in leased:
                self._release(found, slot, now_ms)
            self._instructions.append(SlotsTaken(job_id, found.id, _blocked(found)))

    def _give_up(self, found: RegisteredTaskManager, error: ErrorInfo, now_ms: int) -> None:
        """Lose a TaskManager whose process may still run, and let its provider end it."""
        self._lose(found, error, now_ms)
        if self.provisioning is not None:
            self._instructions.append(self.provisioning.release_lost(found.resource_id, error))

    def _release_idle(self, provisioning: Provisioning, now_ms: int) -> None:
        """Release TaskManagers that no job has used for long, the latest first, unless a job waits."""
        config = provisioning.config
        surplus = len(self.task_managers) - config.task_managers_kept
        if self._waiting_slots > 0:
            return
        for found in list(reversed(self.task_managers.values())):
            idle_since_ms = found.idle_since_ms
            if surplus > 0 and idle_since_ms is not None and now_ms - idle_since_ms >= config.idle_timeout_ms:
                surplus -= 1
                self._lose(found, _idle(found, config.idle_timeout_ms), now_ms)
                self._instructions.append(provisioning.release_idle(found.resource_id))

    # --- slots

    def _on_offers(self, found: RegisteredTaskManager, message: OfferSlots) -> None:
        held = {s.allocation_id: s for s in found.slots if s.is_leased}
        for offer in message.offers:
            slot = held.get(offer.allocation_id)
            if slot is not None:
                slot.state = SlotState.ALLOCATED
            else:
                self._send(found.address, FreeSlot(found.id, offer.allocation_id))

    def _on_refused(self, found: RegisteredTaskManager, message: SlotRefused, now_ms: int) -> None:
        for slot in found.slots:
            if slot.allocation_id == message.allocation_id and slot.state is SlotState.REQUESTED:
                self._release(found, slot, now_ms)

    def _on_freed(self, found: RegisteredTaskManager, message: SlotFreed, now_ms: int) -> None:
        for slot in found.slots:
            if slot.allocation_id == message.allocation_id and slot.state is SlotState.RELEASING:
                self.story.add(now_ms, f"slot {slot.index} of {found.id} free ({slot.allocation_id} ended)")
                slot.state, slot.allocation_id, slot.job_id = SlotState.FREE, "", ""

    def _free_unknown(self, found: RegisteredTaskManager, message: HeartbeatReply, now_ms: int) -> None:
        """A lease that is not in force here has ended: allocation ids are never used twice."""
        held = {s.allocation_id for s in found.slots}
        for status in message.slots:
            if status.allocation_id and status.allocation_id not in held:
                self._send(found.address, FreeSlot(found.id, status.allocation_id))

    def _release(self, found: RegisteredTaskManager, slot: Slot, now_ms: int) -> None:
        if slot.state is SlotState.RELEASING:
            return
        slot.state, slot.sent_ms = SlotState.RELEASING, now_ms
        self.story.add(now_ms, f"slot {slot.index} of {found.id} releasing ({slot.allocation_id})")
        self._send(found.address, FreeSlot(found.id, slot.allocation_id))

    def _resend(self, found: RegisteredTaskManager, now_ms: int) -> None:
        for slot in found.slots:
            if now_ms - slot.sent_ms < self.config.resend_ms:
                continue
            if slot.state is SlotState.REQUESTED:
                slot.sent_ms = now_ms
                self._send(found.address, RequestSlot(found.id, slot.index, slot.allocation_id, slot.job_id))
            elif slot.state is SlotState.RELEASING:
                slot.sent_ms = now_ms
                self._send(found.address, FreeSlot(found.id, slot.allocation_id))

    def _allocate(self, now_ms: int) -> None:
        free = sum(len(t.free_slots()) for t in self.task_managers.values())
        total = sum(len(t.slots) for t in self.task_managers.values())
        possible = total if self.provisioning is None else max(total, self.provisioning.slots_possible)
        growth = possible - total
        # `claimed` slots are for jobs that wait and go first.
        self._waiting_slots = claimed = 0
        for job_id, requirement, wanted in self._in_turn(possible):
            if wanted <= free and claimed + wanted <= free + growth:
                free -= wanted
                for _ in range(wanted):
                    self._lease_one(job_id, requirement.is_gathered, now_ms)
                continue
            self._waiting_slots += wanted
            if (requirement.least or requirement.slots) <= possible:
                claimed += wanted
        self._grow(free, free + growth - claimed, possible, now_ms)

    def _grow(self, free: int, unclaimed: int, possible: int, now_ms: int) -> None:
        """Lease what no job waits for to those that can do with fewer than they get."""
        leased = self._leased_by_job()
        for job_id, requirement in self.requirements.items():
            wanted = requirement.slots - leased[job_id]
            is_elastic = 0 < requirement.least <= leased[job_id]
            if not (is_elastic and requirement.is_open and wanted > 0):
                continue
            held = sum(n for j, n in leased.items() if self._is_other_of_owner(j, job_id))
            room = self.config.slots_of_one_owner(possible) - held - leased[job_id] if held else wanted
            granted = max(0, min(wanted, free, unclaimed, room))
            for _ in range(granted):
                self._lease_one(job_id, requirement.is_gathered, now_ms)
            free, unclaimed = free - granted, unclaimed - granted
            self._waiting_slots += wanted - granted

    def _is_other_of_owner(self, other: str, job_id: str) -> bool:
        owner = self.requirements[job_id].owner
        return (
            bool(owner)
            and other != job_id
            and other in self.requirements
            and self.requirements[other].owner == owner
        )

    def _in_turn(self, possible: int) -> Iterator[tuple[str, Requirement, int]]:
        """The jobs that wait, and for how many slots. The one that goes next depends on whether the last got its slots."""
        leased = self._leased_by_job()
        held: Counter[str] = Counter()
        for job_id, count in leased.items():
            if job_id in self.requirements:
                held[self.requirements[job_id].owner] += count
        waiting: dict[str, deque[tuple[int, str, int]]] = {}
        for number, (job_id, requirement) in enumerate(self.requirements.items()):
            wanted = requirement.missing(leased[job_id])
            if wanted > 0:
                waiting.setdefault(requirement.owner, deque()).append((number, job_id, wanted))
        most = self.config.slots_of_one_owner(possible)
        turns = [(held[owner], line[0][0], owner) for owner, line in waiting.items()]
        heapq.heapify(turns)
        while turns:
            _, _, owner = heapq.heappop(turns)
            line = waiting[owner]
            _, job_id, wanted = line.popleft()
            if not owner or not held[owner] or held[owner] + wanted <= most:
                held[owner] += wanted
                yield job_id, self.requirements[job_id], wanted
            if line:
                heapq.heappush(turns, (held[owner], line[0][0], owner))

    def _lease_one(self, job_id: str, is_gathered: bool, now_ms: int) -> None:
        found = choose_task_manager(
            self.task_managers.values(), self.config.load_balance, self._blocked, now_ms, is_gathered
        )
        slot = found.free_slots()[0]
        self._leases += 1
        slot.state, slot.job_id, slot.sent_ms = SlotState.REQUESTED, job_id, now_ms
        slot.allocation_id = f"{self.config.resource_manager_id}-{self._leases}"
        self.story.add(
            now_ms, f"slot {slot.index} of {found.id} requested as {slot.allocation_id} for {job_id}"
        )
        self._send(found.address, RequestSlot(found.id, slot.index, slot.allocation_id, job_id))

    def _leased_by_job(self) -> Counter[str]:
        return Counter(s.job_id for t in self.task_managers.values() for s in t.slots if s.is_leased)

    def _provision(self, provisioning: Provisioning, now_ms: int) -> None:
        # Slots that are being released come free within a message, sooner than a TaskManager could start.
        unused = sum(not s.is_leased for t in self.task_managers.values() for s in t.slots)
        for instruction in provisioning.request(max(0, self._waiting_slots - unused), now_ms):
            self.story.add(now_ms, str(instruction))
            self._instructions.append(instruction)
        for found in self.task_managers.values():
            found.note_idleness(now_ms)

    # --- small things

    def _begin(self) -> None:
        self._instructions = []

    def _end(self, now_ms: int) -> list[ResourceManagerInstruction]:
        self._now_ms = now_ms
        self._allocate(now_ms)
        if self.provisioning is not None:
            self._provision(self.provisioning, now_ms)
        self.check()
        return self._instructions

    def _send(self, address: str, message: ToTaskManager) -> None:
        self._instructions.append(Send(address, message))

    def _note(self, text: str, now_ms: int, is_warning: bool = True) -> None:
        self.story.add(now_ms, text)
        self._instructions.append(Noted(text, is_warning=is_warning))


def _silent(found: RegisteredTaskManager, timeout_ms: int) -> ErrorInfo:
    return error_info(
        "SS6001", f"TaskManager {found.id} at {found.address} sent nothing for {timeout_ms / 1000:g} s"
    )


def _stuck(found: RegisteredTaskManager) -> ErrorInfo:
    return error_info(
        "SS6005",
        f"TaskManager {found.id} at {found.address} was given up: a task does not react to its cancellation",
        hint="look at its log; task.cancellation.timeout sets how long a task may take to end",
    )


def _blocked(found: RegisteredTaskManager) -> ErrorInfo:
    return error_info(
        "SS6002",
        f"TaskManager {found.id} at {found.address} gave its slots up to others: tasks fail again and again on its host",
    )


def _registered_anew(found: RegisteredTaskManager) -> ErrorInfo:
    return error_info(
        "SS6002", f"TaskManager {found.id} at {found.address} lost its connection and registered anew"
    )


def _idle(found: RegisteredTaskManager, timeout_ms: int) -> ErrorInfo:
    return error_info(
        RELEASED,
        f"TaskManager {found.id} at {found.address} was released after {timeout_ms / 1000:g} s without a job",
    )


def _stopped(found: RegisteredTaskManager) -> ErrorInfo:
    return error_info(STOPPED, f"TaskManager {found.id} at {found.address} was stopped")


def _other_version(message: RegisterTaskManager) -> ErrorInfo:
    return error_info(
        "SS6007",
        f"TaskManager has protocol version {message.protocol_version}, JobManager {PROTOCOL_VERSION}",
    )


def _not_requested(message: RegisterTaskManager) -> ErrorInfo:
    return error_info(
        "SS6052", f"TaskManager {message.resource_id} was released, or was not requested by this JobManager"
    )
