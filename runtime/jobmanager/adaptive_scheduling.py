"""A job whose parallelism follows the slots that there are (Flink: AdaptiveScheduler)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.parallelism import has_open_parallelism, rescaled_job_graph
from sqlstream.messages.rescale import RescaleStatus
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import awaited_executions
from sqlstream.runtime.jobmanager.checkpoints.restored_state import rescaled_checkpoint, restored_checkpoints
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.runtime.jobmanager.rescaling import JobRescaling
from sqlstream.runtime.jobmanager.resources.slot_pool import highest_parallelism, slots_needed

SETTLING_MS = 1000
"""Slots that come within this time come together: those of one TaskManager are offered one after the other."""

FOREVER_MS = 365 * 86_400_000

_WAIT = "jobmanager.adaptive-scheduler.submission.resource-wait-timeout"
_STABILIZATION = "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout"


@dataclass(frozen=True)
class AdaptiveSettings:
    """How long a job waits for the first slots, for further ones before it starts (`stabilization_ms`) and while it runs
    (`executing_stabilization_ms`), and between two changes. `is_reactive`: it wants all slots that there are."""

    is_reactive: bool
    wait_ms: int
    stabilization_ms: int
    executing_stabilization_ms: int
    cooldown_ms: int
    increase_min: int
    checkpoint_failures_max: int
    fills_task_managers: bool


def adaptive_settings(job: JobGraph) -> AdaptiveSettings | None:
    """None for a job that has another scheduler, sends its rows to a client, is one of a batch engine, or in which every operator
    has a fixed parallelism."""
    config = job.config
    is_reactive = options.get(config, "scheduler-mode") == "REACTIVE"
    # UserError for the value that is refused: there is always a checkpoint.
    options.get(config, "jobmanager.adaptive-scheduler.rescale-trigger.active-checkpoint.enabled")
    if options.get(config, "jobmanager.scheduler") != "Adaptive" and not is_reactive:
        return None
    if job.is_query or job.is_batch or job.scaling is None or not has_open_parallelism(job.scaling):
        return None
    wait_ms, stabilization_ms = options.get(config, _WAIT), options.get(config, _STABILIZATION)
    if is_reactive:
        wait_ms = wait_ms if _WAIT in config else FOREVER_MS
        stabilization_ms = stabilization_ms if _STABILIZATION in config else 0
    return AdaptiveSettings(
        is_reactive,
        wait_ms,
        stabilization_ms,
        options.get(config, "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout"),
        options.get(config, "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"),
        options.get(config, "jobmanager.adaptive-scheduler.min-parallelism-increase"),
        options.get(config, "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures"),
        options.get(config, "jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers"),
    )


def desired_graph(job: JobGraph, settings: AdaptiveSettings | None) -> JobGraph:
    """At the parallelism that the job has with as many slots as it wants."""
    if settings is None or not settings.is_reactive:
        return job
    assert job.scaling is not None, "adaptive_settings has looked"
    return rescaled_job_graph(job, job.vertices[0].max_parallelism)


def graph_to_begin_with(
    desired: JobGraph, settings: AdaptiveSettings | None, restored: Sequence[events.LoadedCheckpoint]
) -> JobGraph:
    """The desired one; or that of the newest checkpoint if it has rows in flight that only as many subtasks can go on from."""
    if settings is None or not restored or not restored[0].manifest.has_in_flight:
        return desired
    saved = sorted({v.parallelism for v in restored[0].manifest.vertices}, reverse=True)
    fitting = Fitting(desired)
    graphs = (graph for parallelism in saved for graph in fitting.all_at(parallelism))
    for graph in itertools.chain((desired,), graphs):
        with contextlib.suppress(UserError):
            restored_checkpoints(restored[:1], graph, "")
            return graph
    # Whoever begins with it says what is wrong.
    return desired


class Fitting:
    """One job at each parallelism up to the desired one; at 1 also with the vertices of many subtasks, in which rows that were in
    flight between these go on. State: the graphs that were asked for."""

    def __init__(self, desired: JobGraph) -> None:
        assert desired.scaling is not None, "a job without open parallelism is not adaptive"
        self.desired = desired
        self.parallelism: int = desired.scaling.parallelism
        self._graphs: dict[int, JobGraph] = {self.parallelism: desired}
        self._single: JobGraph | None = None

    def at(self, parallelism: int) -> JobGraph:
        if parallelism not in self._graphs:
            self._graphs[parallelism] = rescaled_job_graph(self.desired, parallelism)
        return self._graphs[parallelism]

    def all_at(self, parallelism: int) -> Iterator[JobGraph]:
        """The usual one, and the other, which is made when it is needed."""
        yield self.at(parallelism)
        if parallelism == 1:
            if self._single is None:
                self._single = rescaled_job_graph(self.desired, 1, is_chained_as_many=True)
            yield self._single

    def least_slots(self) -> int:
        return slots_needed(self.at(1))

    def fit(self, slots: int) -> int:
        """The highest parallelism that needs no more slots; 0 when there are too few for 1."""
        return highest_parallelism(self.at, self.parallelism, slots)


class AdaptiveScheduling:
    """A job that waits starts with fewer slots than it wants, once those that it has suffice for a lower parallelism and no
    further ones have come for a while. A job that runs is rescaled when further slots have come, from a checkpoint: at once when
    they are all that it wants, else when no others come for a while, and not before a cool-down. After so many checkpoints that
    failed it goes on from the last one that is complete. A job that has lost slots starts again with those that are left, as at
    its beginning.

    A checkpoint with rows in flight that are of one subtask fits no other parallelism: then the job waits for the slots it had.

    The store keeps the graph that was asked for, so that another JobManager begins with what it finds, or, behind such a
    checkpoint, with the slots of that.

    State: the graphs of the job; how many slots it had, and when that changed; since when it could start; when it was rescaled
    last; how many checkpoints in a row have failed for that; and which graphs the last one fits."""

    def __init__(
        self, parts: JobParts, rescaling: JobRescaling, settings: AdaptiveSettings, desired: JobGraph
    ) -> None:
        self._parts = parts
        self._rescaling = rescaling
        self._settings = settings
        self._fitting = Fitting(desired)
        self._seen = 0
        self._changed_ms = 0
        self._enough_since_ms: int | None = None
        self._running_since_ms: int | None = None
        self._trigger_id = ""
        self._triggers = 0
        self._failed_checkpoints = 0
        self._tried_id = 0
        self._are_fit: dict[tuple[int, int], bool] = {}
        self._aim()

    @property
    def desired(self) -> JobGraph:
        return self._fitting.desired

    def advance(self, now_ms: int) -> None:
        """Go on as far as the slots of the job allow. To be called while the job is active."""
        self._note_kept(now_ms)
        self._note_end()
        slots, phase = self._parts.tasks.slots, self._parts.progress.phase
        if len(slots) != self._seen:
            has_fewer = len(slots) < self._seen
            self._seen, self._changed_ms = len(slots), now_ms
            if has_fewer and not slots.has_all:
                self._parts.tasks.request_slots(now_ms)
        is_running = phase is JobPhase.RUNNING and not self._rescaling.is_under_way
        if not is_running:
            self._running_since_ms = None
        elif self._running_since_ms is None:
            self._running_since_ms = now_ms
        if is_running:
            self._take_more(now_ms)
        if phase is not JobPhase.SCHEDULING or slots.is_complete:
            self._enough_since_ms = None
        else:
            self._start_with_fewer(now_ms)

    def start_at_deadline(self, now_ms: int) -> bool:
        """The time to wait for slots is over. Whether the job goes on with those that it has."""
        parallelism = self._fitting.fit(len(self._parts.tasks.slots))
        return bool(parallelism) and self._go_back(parallelism, now_ms)

    # --- steps

    def _start_with_fewer(self, now_ms: int) -> None:
        parallelism = self._fitting.fit(self._seen)
        if not parallelism:
            self._enough_since_ms = None
            return
        if self._enough_since_ms is None:
            self._enough_since_ms = now_ms
        stabilized_ms = self._enough_since_ms + self._settings.stabilization_ms
        if now_ms >= max(stabilized_ms, self._changed_ms + SETTLING_MS):
            self._go_back(parallelism, now_ms)

    def _take_more(self, now_ms: int) -> None:
        parallelism, fitting, settings = self._fitting.fit(self._seen), self._fitting, self._settings
        increase = parallelism - self._present_parallelism()
        is_all = parallelism == fitting.parallelism
        is_worth_it = increase >= settings.increase_min or (is_all and increase > 0)
        if not is_worth_it or self._running_since_ms is None:
            return
        stabilization_ms = 0 if is_all else max(settings.executing_stabilization_ms, SETTLING_MS)
        ready_ms = max(self._running_since_ms + settings.cooldown_ms, self._changed_ms + stabilization_ms)
        if now_ms < ready_ms or not self._can_take_checkpoint():
            return
        is_hopeless = self._failed_checkpoints >= settings.checkpoint_failures_max
        if is_hopeless and self._parts.checkpoints.completed.newest is not None:
            self._go_back(parallelism, now_ms)
            return
        self._note(f"goes on with {self._parallelism_of_slots(parallelism)}")
        self._triggers += 1
        self._trigger_id = f"adaptive-{self._triggers}"
        graph = fitting.at(parallelism)
        request = events.RescaleRequested(graph.job_id, self._trigger_id, graph, is_kept=False)
        self._rescaling.begin(request, now_ms)

    def _go_back(self, parallelism: int, now_ms: int) -> bool:
        graphs = self._fitting.all_at(parallelism)
        graph = next((graph for graph in graphs if self._can_go_back_with(graph)), None)
        if graph is None:
            return False
        trigger_id = f"adaptive-{self._triggers + 1}"
        has_begun = self._rescaling.go_back(graph, trigger_id, now_ms)
        if has_begun:
            self._triggers, self._trigger_id = self._triggers + 1, trigger_id
            self._failed_checkpoints = 0
            self._note(f"starts with {self._parallelism_of_slots(parallelism)}")
        return has_begun

    def _can_go_back_with(self, graph: JobGraph) -> bool:
        """Whether the last checkpoint can be gone on from with that graph. One with rows in flight may not be."""
        newest, committed_id = (
            self._parts.checkpoints.completed.newest,
            self._parts.output.commits.newest_begun_id,
        )
        if newest is None:
            return not committed_id
        if self._tried_id != newest.checkpoint_id:
            self._tried_id, self._are_fit = newest.checkpoint_id, {}
        tried = slots_needed(graph), len(graph.vertices)
        if tried not in self._are_fit:
            self._are_fit[tried] = rescaled_checkpoint(newest, graph).is_usable
        return self._are_fit[tried]

    def _can_take_checkpoint(self) -> bool:
        parts = self._parts
        return bool(parts.checkpoints.settings.directory) and awaited_executions(parts.graph) is not None

    # --- small things

    def _aim(self) -> None:
        self._parts.tasks.slots.aim_at(
            slots_needed(self.desired), self._fitting.least_slots(), self._settings.fills_task_managers
        )

    def _note_kept(self, now_ms: int) -> None:
        """A client may have asked for another parallelism."""
        kept = self._rescaling.kept
        if kept is not None and kept is not self.desired:
            self._fitting = Fitting(kept)
            self._aim()
            self._rescaling.keep_slots(now_ms)

    def _note_end(self) -> None:
        """Of a rescale that was begun here."""
        if not self._trigger_id or self._rescaling.is_under_way:
            return
        status: RescaleStatus = self._rescaling.status(self._trigger_id)
        has_no_checkpoint = status.error is not None and status.error.code == "SS6234"
        self._failed_checkpoints = self._failed_checkpoints + 1 if has_no_checkpoint else 0
        self._trigger_id = ""

    def _present_parallelism(self) -> int:
        scaling = self._parts.job_graph.scaling
        assert scaling is not None, "a job without open parallelism is not adaptive"
        return int(scaling.parallelism)

    def _parallelism_of_slots(self, parallelism: int) -> str:
        desired = "" if self._settings.is_reactive else f" of {self._fitting.parallelism}"
        return f"the parallelism {parallelism}{desired}, since it has {self._seen} slots"

    def _note(self, text: str) -> None:
        self._parts.emit(events.Noted(f"the job {text}", self._parts.progress.job_id, is_warning=False))
