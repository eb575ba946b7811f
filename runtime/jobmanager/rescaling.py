"""Takes a running job to another parallelism (Flink: the rescale of its AdaptiveScheduler)."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, FailureReason, error_info
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.rescale import RescaleStatus, RescaleStep
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_coordinator import PendingCheckpoint
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase
from sqlstream.runtime.jobmanager.job_regions import JobRegions
from sqlstream.runtime.jobmanager.resources.slot_pool import slots_needed

REMEMBERED_MAX = 100

STORE_RETRY_MS = 1000
"""Pause before a job that turns back is stored again."""


@dataclass
class _Rescale:
    """The one that is under way. `target` is the graph that the job gets next, `origin` the one that it has until then.
    `deadline_ms`: until when its slots are awaited. `store_retry_ms`: when it is stored with `target` again; None while an answer
    of the store is due. `store_error`: why it was not stored with `target`; from then on it is stored as it is. One that is not
    `is_kept` is not stored: the store has the graph that was asked for."""

    trigger_id: str
    target: JobGraph
    origin: JobGraph
    deadline_ms: int
    turned_back: ErrorInfo | None = None
    store_retry_ms: int | None = None
    store_error: ErrorInfo | None = None
    is_kept: bool = True

    @property
    def checkpoint_trigger_id(self) -> str:
        return f"rescale-{self.trigger_id}"


class JobRescaling:
    """The job runs on until it has the slots that it needs next. Then it takes an aligned checkpoint, behind which its sources
    read nothing; once this is complete, all tasks end. When they have, and all that is complete is committed, the job is stored
    with its other graph, and only then the graph takes the place of the present one: whoever takes the job up after a crash has
    the checkpoint, and one graph or the other.

    What fails before the tasks end leaves the job as it was, and so does the loss of slots that it has: a restart then waits for
    those of the present graph alone. When there are no slots for the other graph, although there were,
    the job goes back to the one that it had, in the same way; this is stored again until it is, as the job cannot run with the
    other. All other failures of its tasks are failures as at any time.
    State: the rescale that is under way, the last graph that was stored, and how the last REMEMBERED_MAX are."""

    def __init__(self, parts: JobParts, regions: JobRegions) -> None:
        self._parts = parts
        self._regions = regions
        self._present: _Rescale | None = None
        self._status: dict[str, RescaleStatus] = {}
        self.kept: JobGraph | None = None

    @property
    def is_under_way(self) -> bool:
        return self._present is not None

    def known(self) -> tuple[RescaleStatus, ...]:
        return tuple(self._status.values())

    def knows(self, trigger_id: str) -> bool:
        return trigger_id in self._status

    # --- steps

    def begin(self, event: events.RescaleRequested, now_ms: int) -> None:
        """A repetition changes nothing."""
        if self.knows(event.trigger_id):
            return
        parts, target = self._parts, event.job_graph
        origin = parts.job_graph
        self._remember(
            RescaleStatus(
                event.job_id, event.trigger_id, _parallelism(target), _parallelism(origin), RescaleStep.SLOTS
            )
        )
        if self._present is not None:
            self._change(event.trigger_id, RescaleStep.DONE, _is_rescaled(event.job_id))
            return
        if parts.progress.phase not in ACTIVE:
            self._change(event.trigger_id, RescaleStep.DONE, _ended())
            return
        if target.vertices == origin.vertices:
            self._change(event.trigger_id, RescaleStep.DONE)
            return
        deadline_ms = now_ms + parts.config.slot_request_timeout_ms
        self._present = _Rescale(event.trigger_id, target, origin, deadline_ms, is_kept=event.is_kept)
        parts.story.add(
            now_ms,
            f"job {event.job_id} is rescaled from {_parallelism(origin)} to {_parallelism(target)}",
        )
        parts.tasks.slots.reserve(slots_needed(target))
        if not self._has_slots(self._present):
            parts.tasks.request_slots(now_ms)

    def _has_slots(self, present: _Rescale) -> bool:
        slots = self._parts.tasks.slots
        return len(slots) >= max(slots.needed, slots_needed(present.target))

    def go_back(self, target: JobGraph, trigger_id: str, now_ms: int) -> bool:
        """Go on with another graph from the last checkpoint, or from the beginning, since the slots are no longer those of the
        present one. False while another rescale is at a step that has to end first."""
        parts, present = self._parts, self._present
        if present is not None:
            if self.status(present.trigger_id).step is not RescaleStep.STARTING:
                return False
            self._change(present.trigger_id, RescaleStep.DONE, _slots_lost())
        origin = parts.job_graph
        self._remember(
            RescaleStatus(
                origin.job_id, trigger_id, _parallelism(target), _parallelism(origin), RescaleStep.STOPPING
            )
        )
        self._present = _Rescale(trigger_id, target, origin, now_ms, is_kept=False)
        self._regions.hold(now_ms)
        return True

    def status(self, trigger_id: str) -> RescaleStatus:
        return self._status[trigger_id]

    def advance(self, now_ms: int) -> None:
        """Go on as far as the present state of the job allows. To be called while the job is active."""
        present = self._present
        if present is None:
            return
        match self._status[present.trigger_id].step:
            case RescaleStep.SLOTS:
                self._await_slots(present, now_ms)
            case RescaleStep.CHECKPOINT:
                self._await_checkpoint(present, now_ms)
            case RescaleStep.STOPPING if self._has_stopped() and not present.is_kept:
                self._start(present, now_ms)
            case RescaleStep.STOPPING if self._has_stopped():
                self._change(present.trigger_id, RescaleStep.STORING)
                self._parts.emit(events.StoreJob(present.target, is_rescaled=True))
            case RescaleStep.STORING if (
                present.store_retry_ms is not None and now_ms >= present.store_retry_ms
            ):
                present.store_retry_ms = None
                self._parts.emit(events.StoreJob(present.target, is_rescaled=True))
            case RescaleStep.STARTING if self._parts.progress.phase is JobPhase.RUNNING:
                self._end(present.turned_back, now_ms)

    def _await_slots(self, present: _Rescale, now_ms: int) -> None:
        parts = self._parts
        if self._has_slots(present) and parts.progress.phase is JobPhase.RUNNING:
            self._change(present.trigger_id, RescaleStep.CHECKPOINT)
            parts.checkpoints.requests.add(
                events.SavepointRequested(
                    parts.progress.job_id,
                    present.checkpoint_trigger_id,
                    CheckpointKind.CHECKPOINT,
                    is_last=True,
                ),
                now_ms,
            )
        elif self._is_short():
            self._end(_slots_lost(), now_ms)
        elif now_ms >= present.deadline_ms:
            wanted, found = slots_needed(present.target), len(parts.tasks.slots)
            seconds, there = parts.config.slot_request_timeout_ms / 1000, parts.config.describe_slots()
            is_not_running = self._has_slots(present)
            self._end(
                _not_running(seconds) if is_not_running else _no_slots(wanted, found, seconds, there), now_ms
            )

    def _await_checkpoint(self, present: _Rescale, now_ms: int) -> None:
        requests = self._parts.checkpoints.requests
        status = requests.status(present.checkpoint_trigger_id)
        if status is not None and status.error is not None:
            self._end(_not_taken(status.error), now_ms)
        elif self._is_short() and requests.withdraw(present.checkpoint_trigger_id):
            self._end(_slots_lost(), now_ms)

    def _is_short(self) -> bool:
        """Whether a restart has to wait for slots: those for the other graph may be more than there are."""
        parts = self._parts
        return not parts.tasks.slots.is_complete and parts.progress.phase is not JobPhase.RUNNING

    def on_checkpoint(self, completed: PendingCheckpoint, now_ms: int) -> None:
        """A checkpoint is complete."""
        present = self._present
        if present is not None and completed.trigger_id == present.checkpoint_trigger_id:
            self._change(present.trigger_id, RescaleStep.STOPPING)
            self._regions.hold(now_ms)

    def _has_stopped(self) -> bool:
        parts = self._parts
        is_storing = parts.checkpoints.is_storing
        return parts.graph.are_all_terminal() and not is_storing and not parts.output.commits.open

    def on_stored(self, now_ms: int) -> None:
        """The job is kept with the graph that it gets or, after a failure of that, with the one that it has."""
        present = self._present
        if present is None or self._status[present.trigger_id].step is not RescaleStep.STORING:
            return
        if present.store_error is not None:
            self._go_on_as_before(present.store_error, now_ms)
            return
        self._start(present, now_ms)

    def _start(self, present: _Rescale, now_ms: int) -> None:
        if present.is_kept:
            self.kept = present.target
        self._replace_graph(present.target, now_ms)
        self._change(present.trigger_id, RescaleStep.STARTING)

    def on_store_failed(self, error: ErrorInfo, now_ms: int) -> None:
        """The job cannot be kept with another graph than it has. What failed may have been the last step of the store, behind
        which the other graph is there: the present one is stored over it before any task runs."""
        present = self._present
        if present is None or self._status[present.trigger_id].step is not RescaleStep.STORING:
            return
        if present.turned_back is not None:
            self._parts.story.add(now_ms, f"job {self._parts.progress.job_id} is not stored: {error.message}")
            present.store_retry_ms = now_ms + STORE_RETRY_MS
        elif present.store_error is None:
            present.store_error = error
            self._parts.emit(events.StoreJob(self._parts.job_graph, is_rescaled=True))
        else:
            self._go_on_as_before(present.store_error, now_ms)

    def _go_on_as_before(self, error: ErrorInfo, now_ms: int) -> None:
        self._regions.release()
        self._end(error, now_ms)

    def turn_back(self, error: ErrorInfo, now_ms: int) -> bool:
        """There are no slots for the job. Whether it goes back to the parallelism for which there were."""
        present = self._present
        is_starting = present is not None and self._status[present.trigger_id].step is RescaleStep.STARTING
        if present is None or not is_starting or present.turned_back is not None:
            return False
        self._parts.story.add(now_ms, f"job {self._parts.progress.job_id} turns back: {error.message}")
        present.turned_back = error
        present.target, present.origin = present.origin, present.target
        self._change(present.trigger_id, RescaleStep.STOPPING)
        self._regions.hold(now_ms)
        return True

    def on_no_task_manager(self, error: ErrorInfo, now_ms: int) -> None:
        """No TaskManager is on its way, so slots that are missing are not waited for."""
        present, slots = self._present, self._parts.tasks.slots
        if present is None:
            return
        match self._status[present.trigger_id].step:
            case RescaleStep.SLOTS if not self._has_slots(present):
                self._end(_none_comes(slots_needed(present.target), len(slots), error), now_ms)
            case RescaleStep.STARTING if not slots.is_complete:
                self.turn_back(error, now_ms)

    def on_end(self) -> None:
        """The job has ended."""
        if self._present is not None:
            self._change(self._present.trigger_id, RescaleStep.DONE, _ended())
            self._present = None

    def _end(self, error: ErrorInfo | None, now_ms: int) -> None:
        """The job runs with the graph that it has; slots beyond it are returned."""
        assert self._present is not None
        job = self._parts.job_graph
        said = f"was not rescaled: {error.message}" if error is not None else "is rescaled"
        self._parts.story.add(now_ms, f"job {job.job_id} {said}")
        self._change(self._present.trigger_id, RescaleStep.DONE, error)
        self._present = None
        self.keep_slots(now_ms)
        if self._is_short():
            self._parts.tasks.request_slots(now_ms)
        self._parts.emit(events.RescaleEnded(job.job_id, _parallelism(job), error))

    # --- the graph

    def _replace_graph(self, target: JobGraph, now_ms: int) -> None:
        """All tasks of the present graph have ended, and nothing is open that they have left."""
        parts, regions = self._parts, self._regions
        for subtask in parts.graph.subtasks():
            parts.tasks.forget(subtask.execution)
            parts.output.discard(subtask)
        parts.graph.rescale(target, now_ms)
        parts.sources.rescale(target)
        parts.output.rescale()
        parts.checkpoints.rescale()
        self.keep_slots(now_ms)
        regions.rescale(now_ms)

    def keep_slots(self, now_ms: int) -> None:
        """Return the slots that the job does not want."""
        slots, job = self._parts.tasks.slots, self._parts.job_graph
        needed = slots_needed(job)
        if slots.wanted == slots.needed == needed and len(slots) <= needed:
            return
        slots.resize(needed)
        self._parts.emit(events.KeepSlots(job.job_id, frozenset(slots.allocation_ids), slots.wanted))
        if slots.aim and not slots.has_all:
            self._parts.tasks.request_slots(now_ms)

    # --- what is remembered

    def _remember(self, status: RescaleStatus) -> None:
        self._status[status.trigger_id] = status
        for forgotten in list(self._status)[:-REMEMBERED_MAX]:
            del self._status[forgotten]

    def _change(self, trigger_id: str, step: RescaleStep, error: ErrorInfo | None = None) -> None:
        self._status[trigger_id] = replace(self._status[trigger_id], step=step, error=error)


def _parallelism(job: JobGraph) -> int:
    return job.scaling.parallelism if job.scaling is not None else max(v.parallelism for v in job.vertices)


def _is_rescaled(job_id: str) -> ErrorInfo:
    return error_info(
        "SS6232", f'job "{job_id}" is being rescaled', hint="rescale it again once its tasks run"
    )


def _no_slots(wanted: int, found: int, seconds: float, there: str) -> ErrorInfo:
    return error_info(
        "SS6233",
        f"the job was not rescaled: it would need {wanted} slots and got {found} within {seconds:g} s"
        f"{f'; {there}' if there else ''}",
        hint="start more TaskManagers, raise taskmanager.numberOfTaskSlots or give a lower parallelism",
    )


def _not_running(seconds: float) -> ErrorInfo:
    return error_info(
        "SS6234",
        f"the job was not rescaled: its slots were there, but not all of its tasks ran within {seconds:g} s",
        hint="look at the failures of the job, and rescale it again once its tasks run",
    )


def _none_comes(wanted: int, found: int, cause: ErrorInfo) -> ErrorInfo:
    return replace(
        cause,
        code="SS6233",
        message=f"the job was not rescaled: it needs {wanted} slots, has {found}, and no further TaskManager "
        f"comes: {cause.message}",
        reason=FailureReason.NO_RESOURCES,
    )


def _slots_lost() -> ErrorInfo:
    return error_info(
        "SS6233",
        "the job was not rescaled: it lost slots that it has before it could begin",
        hint="rescale it again once its tasks run",
    )


def _not_taken(cause: ErrorInfo) -> ErrorInfo:
    return replace(
        cause,
        code="SS6234",
        message=f"the job was not rescaled, since its checkpoint failed: {cause.message}",
    )


def _ended() -> ErrorInfo:
    return error_info("SS6235", "the job ended before it was rescaled")
