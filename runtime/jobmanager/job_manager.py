"""One JobManager: its Dispatcher, ResourceManager and JobMasters, and which of them receives which event."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from typing import Any

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, InternalError
from sqlstream.messages import rpc
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.dispatcher import Dispatcher
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.resources.resource_manager import (
    ENDS_IN_ORDER,
    ResourceManager,
    ResourceManagerConfig,
)

TICK_MS = 50
"""Interval between ticks while something has to be sent again, started or ended."""

STORY_LINES_SHOWN_MAX = 20
"""How many of the last events of a broken job stand in its error; the log has all that are known."""

OnBroken = Callable[[str, InternalError, Exception], None]
"""Told of a job that is broken: its id, the error that it fails with, and what that stands for."""

SETTLED_TICK_MS = 1000
"""Interval between ticks while all jobs run and all messages are acknowledged: only heartbeats are due then."""


@dataclass(frozen=True)
class JobManagerConfig:
    """`slots_max` is the most slots that the cluster can have: a job that needs more is refused at once instead of waiting
    for slot.request.timeout. None is for a cluster whose TaskManagers come by themselves."""

    resource_manager: ResourceManagerConfig = field(default_factory=ResourceManagerConfig)
    job_master: JobMasterConfig = field(default_factory=JobMasterConfig)
    archive_max: int = 200
    archive_ms: int | None = None
    slots_max: int | None = None


class JobManager:
    """Takes one event in, passes events between its machines until none is left, and returns the instructions for
    the shell.

    A JobMaster whose own rules are broken fails its job and no other, when there is an `on_broken` to tell of it; without one the
    error is raised.

    State: that of its machines, per TaskManager the number of the last metrics report, the time of the last event, the job
    that is being dealt with, and which instructions are of which job.
    """

    def __init__(self, config: JobManagerConfig, on_broken: OnBroken | None = None) -> None:
        self._on_broken = on_broken
        # With the instruction: the address of one that is gone may become that of another.
        self._owners: dict[int, tuple[str, Any]] = {}
        self.at_work_for = ""
        self.resource_manager = ResourceManager(config.resource_manager)
        self.dispatcher = Dispatcher(
            replace_fields(config.job_master, describe_slots=self.resource_manager.describe_slots),
            config.archive_max,
            config.slots_max,
            config.resource_manager.heartbeat_timeout_ms,
            config.archive_ms,
        )
        self._metrics_sequence: dict[str, int] = {}
        self._now_ms = 0

    def handle(self, event: events.JobManagerEvent, now_ms: int) -> list[events.JobManagerInstruction]:
        """The instructions for the shell, in order. InternalError when a machine's own rules are broken."""
        self._now_ms = now_ms
        self._owners.clear()
        self.at_work_for = job_of(event)
        pending: deque[Any] = deque(self._on_event(event, now_ms))
        out: list[events.JobManagerInstruction] = []
        while pending:
            instruction = pending.popleft()
            self.at_work_for = job_of(instruction)
            inside = self._carry_out_inside(instruction, now_ms)
            if isinstance(instruction, events.RemoveJob):
                out = _with_removals(instruction, out)
            elif inside is None:
                out.append(instruction)
            else:
                pending.extend(inside)
                if isinstance(instruction, events.JobFinished):
                    out.append(instruction)
        return out

    def owner_of(self, instruction: events.JobManagerInstruction) -> str:
        """The id of the job whose JobMaster has given an instruction of the last `handle`; empty for those of others."""
        return self._owners.get(id(instruction), ("", None))[0]

    def tick_after_ms(self) -> int:
        """How long after the last event the next Tick is due, at the latest."""
        masters = self.dispatcher.masters.values()
        if not self.resource_manager.is_settled() or not all(self._is_settled(m) for m in masters):
            return TICK_MS
        # Heartbeats and silence are noticed up to a tick late, so a tick is at most a tenth of the timeout.
        heartbeats = self.resource_manager.config
        shortest_ms = min(heartbeats.heartbeat_interval_ms, heartbeats.heartbeat_timeout_ms)
        settled_ms = max(TICK_MS, min(SETTLED_TICK_MS, shortest_ms // 10))
        due = [due_ms - self._now_ms for m in masters if (due_ms := m.due_ms()) is not None]
        # What is overdue waits for something else.
        return min([settled_ms, *(ms if ms > 0 else TICK_MS for ms in due)])

    def _is_settled(self, master: JobMaster) -> bool:
        try:
            return master.is_settled()
        except Exception:  # the boundary of a job, which its next Tick ends
            if self._on_broken is None:
                raise
            return False

    def _on_event(self, event: events.JobManagerEvent, now_ms: int) -> list[Any]:
        dispatcher = self.dispatcher
        match event:
            case events.MessageReceived(message):
                return self._on_message(message, now_ms)
            case events.SubmitRequested(job_graph, restored, is_recovered):
                return list(dispatcher.on_submit(job_graph, now_ms, restored, is_recovered))
            case (
                # Of a job that was cancelled while it was being stored there is no JobMaster: it never starts.
                events.JobStored()
                | events.JobStoreFailed()
                | events.CancelRequested()
                | events.SuspendRequested()
                | events.MetricsRequested()
                | events.SinksCommitted()
                | events.SinksCommitFailed()
                | events.SinksAborted()
                | events.SplitsDiscovered()
                | events.DiscoveryFailed()
                | events.CheckpointStored()
                | events.CheckpointStoreFailed()
                | events.SavepointRequested()
                | events.RescaleRequested()
            ):
                return self._tell_master(event.job_id, event, now_ms)
            case events.JobBroken(job_id, broken):
                master = dispatcher.masters.get(job_id)
                return self._break_off(master, broken) if master is not None else []
            case events.TaskManagerExited(resource_id, error):
                return list(self.resource_manager.on_exited(resource_id, error, now_ms))
            case events.Tick():
                dispatcher.forget_expired(now_ms)
                return [*self.resource_manager.on_tick(now_ms), *self._tell_masters(event, now_ms)]

    def _carry_out_inside(self, instruction: Any, now_ms: int) -> list[Any] | None:
        """The results of an instruction from one machine to another; None when it is for the shell."""
        match instruction:
            case events.RequestSlots(job_id, slots, is_gathered, owner, least):
                return list(
                    self.resource_manager.on_request_slots(job_id, slots, now_ms, is_gathered, owner, least)
                )
            case events.WithdrawRequest(job_id):
                return list(self.resource_manager.on_withdraw_request(job_id, now_ms))
            case events.KeepSlots(job_id, allocation_ids, slots):
                return list(self.resource_manager.on_keep_slots(job_id, allocation_ids, slots, now_ms))
            case events.ReleaseSlots(job_id):
                return list(self.resource_manager.on_release_slots(job_id, now_ms))
            case events.GiveUpTaskManager(task_manager_id):
                return list(self.resource_manager.on_given_up(task_manager_id, now_ms))
            case events.TaskFailed(task_manager_id, job_id):
                return list(self.resource_manager.on_task_failed(task_manager_id, job_id, now_ms))
            case events.SlotsTaken(job_id, task_manager_id, error):
                lost = events.TaskManagerLost(task_manager_id, error)
                return [events.Noted(error.line), *self._tell_master(job_id, lost, now_ms)]
            case events.TaskManagerLost(task_manager_id, error):
                self._metrics_sequence.pop(task_manager_id, None)
                noted = events.Noted(error.line, is_warning=error.code not in ENDS_IN_ORDER)
                return [noted, *self._tell_masters(instruction, now_ms)]
            case events.NoTaskManagerLeft():
                return self._tell_masters(instruction, now_ms)
            case events.JobFinished():
                return self._on_finished(instruction, now_ms)
        return None

    # --- messages

    def _on_message(self, message: Any, now_ms: int) -> list[Any]:
        if isinstance(message, rpc.RegisterTaskManager):
            return list(self.resource_manager.on_register(message, now_ms))
        address = self.resource_manager.on_message_from(message.task_manager_id, now_ms)
        if address is None:
            return list(self.resource_manager.on_stranger(message.task_manager_id))
        match message:
            case rpc.OfferSlots():
                return self._on_offers(message, address, now_ms)
            case rpc.HeartbeatReply() | rpc.SlotRefused() | rpc.SlotFreed():
                return list(self.resource_manager.on_task_manager_message(message, now_ms))
            case rpc.TaskStateUpdate():
                return self._on_update(message, address, now_ms)
            case rpc.RequestSplits():
                return self._tell_master(message.job_id, events.SplitsRequested(message), now_ms)
            case rpc.ReportWatermark():
                return self._tell_master(message.job_id, events.WatermarkReported(message), now_ms)
            case rpc.AcknowledgeCheckpoint():
                return self._tell_master(message.job_id, events.CheckpointAcknowledged(message), now_ms)
            case rpc.DeclineCheckpoint():
                return self._tell_master(message.job_id, events.CheckpointDeclined(message), now_ms)
            case rpc.MetricsReport():
                return self._on_metrics(message, now_ms)
            case rpc.DisconnectTaskManager():
                return list(self.resource_manager.on_disconnect(message.task_manager_id, now_ms))
        return []

    def _on_offers(self, message: rpc.OfferSlots, address: str, now_ms: int) -> list[Any]:
        instructions: list[Any] = list(self.resource_manager.on_task_manager_message(message, now_ms))
        tm = message.task_manager_id
        offers = tuple(o for o in message.offers if self.resource_manager.allocated(tm, o.allocation_id))
        if message.job_id in self.dispatcher.masters:
            event = events.SlotsOffered(tm, address, offers)
            return instructions + self._tell_master(message.job_id, event, now_ms)
        return instructions + [events.Send(address, rpc.FreeSlot(tm, o.allocation_id)) for o in offers]

    def _on_update(self, message: rpc.TaskStateUpdate, address: str, now_ms: int) -> list[Any]:
        if message.job_id in self.dispatcher.masters:
            return self._tell_master(message.job_id, events.TaskStateChanged(message), now_ms)
        # The job has ended and its slots are being freed: acknowledge, so that the report stops.
        return [
            events.Send(
                address, rpc.TaskStateAck(message.task_manager_id, message.execution_id, message.sequence)
            )
        ]

    def _on_metrics(self, message: rpc.MetricsReport, now_ms: int) -> list[Any]:
        if message.sequence <= self._metrics_sequence.get(message.task_manager_id, 0):
            return []
        self._metrics_sequence[message.task_manager_id] = message.sequence
        instructions: list[Any] = []
        for job_id, metrics in message.jobs.items():
            instructions += self._tell_master(job_id, events.MetricsReceived(metrics), now_ms)
        return instructions

    def _tell_master(self, job_id: str, event: events.JobMasterEvent, now_ms: int) -> list[Any]:
        master = self.dispatcher.masters.get(job_id)
        if master is None:
            return []
        self.at_work_for = job_id
        try:
            instructions = list(master.handle(event, now_ms))
        except Exception as error:  # the boundary of a job: others go on
            return self._break_off(master, error)
        self._owners.update((id(given), (job_id, given)) for given in instructions)
        return instructions

    def _tell_masters(self, event: events.JobMasterEvent, now_ms: int) -> list[Any]:
        return [
            i for job_id in list(self.dispatcher.masters) for i in self._tell_master(job_id, event, now_ms)
        ]

    def _break_off(self, master: JobMaster, error: Exception) -> list[Any]:
        """Fail the job without asking its JobMaster anything: its slots are taken from it, which ends its tasks. What it has
        staged and saved stays, as nobody knows which of it counts."""
        if self._on_broken is None:
            raise error
        story = master.story.lines()
        told = InternalError(
            f"the control of the job broke off: {ErrorInfo.of(error).message}",
            story=story,
            detail="\n".join(story[-STORY_LINES_SHOWN_MAX:]),
        )
        self._on_broken(master.job_id, told, error)
        instructions = [
            events.StopEnumerators(master.job_id),
            events.ReleaseSlots(master.job_id),
            events.JobFinished(master.job_id, JobStatus.FAILED, ErrorInfo.of(told), is_broken=True),
        ]
        self._owners.update((id(given), (master.job_id, given)) for given in instructions)
        return instructions

    def _on_finished(self, finished: events.JobFinished, now_ms: int) -> list[Any]:
        master = self.dispatcher.masters[finished.job_id]
        try:
            return list(self.dispatcher.on_finished(finished, now_ms))
        except Exception as error:  # the boundary of a job
            if finished.is_broken:
                raise
            self.dispatcher.masters[finished.job_id] = master
            return self._break_off(master, error)


def job_of(subject: Any) -> str:
    """The id of the job that an event or an instruction is about; empty when it is about none, or about several."""
    match subject:
        case events.MessageReceived(message) | events.Send(_, message):
            return job_of(message)
        case rpc.DeployTask(descriptor=descriptor):
            return descriptor.job_id
        case events.SubmitRequested(job_graph) | events.StoreJob(job_graph):
            return job_graph.job_id
    job_id: str = getattr(subject, "job_id", "")
    return job_id


def _with_removals(
    removal: events.RemoveJob, out: list[events.JobManagerInstruction]
) -> list[events.JobManagerInstruction]:
    """The instructions and this one, in which the removals of the job's checkpoints now stand."""
    removals: list[events.DiscardCheckpoint | events.RemoveCheckpoints] = []
    others: list[events.JobManagerInstruction] = []
    for instruction in out:
        if (
            isinstance(instruction, events.DiscardCheckpoint | events.RemoveCheckpoints)
            and instruction.job_id == removal.job_id
        ):
            removals.append(instruction)
        else:
            others.append(instruction)
    return [*others, replace(removal, removals=tuple(removals))]
