"""The regions of one job: deployed when there are slots, and restarted, or the job failed, when a task of theirs fails."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import RESTARTS_REMEMBERED_MAX, RestartRecord
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_coordinator import task_name
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import CompletedCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.restored_state import sources_of
from sqlstream.runtime.jobmanager.deployment import Deployment, consumers_of
from sqlstream.runtime.jobmanager.events import Noted
from sqlstream.runtime.jobmanager.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase
from sqlstream.runtime.jobmanager.metrics import counted_before

_STARTING = (
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
)


class JobRegions:
    """Restarts the regions that a failure hits, from the newest completed checkpoint or, without one, from the beginning; or
    fails the job, if its RestartStrategy says so. The whole job goes back to an older checkpoint when the newest cannot be read,
    if nothing would be written twice.

    State: the regions, the strategy, the restarts so far, the checkpoint that the job is about to go back to, and whether its
    tasks were ended for a rescale."""

    def __init__(self, parts: JobParts) -> None:
        self.regions = regions_of(parts.graph)
        self.strategy = parts.config.strategy_of(parts.job_graph)
        self.history = RestartHistory()
        self._parts = parts
        self._region_of = {s: region for region in self.regions for s in region.subtasks}
        self._going_back_to: CompletedCheckpoint | None = None
        self._is_held = False

    def of(self, subtasks: Iterable[ExecutionVertex]) -> list[PipelinedRegion]:
        return list(dict.fromkeys(self._region_of[s] for s in subtasks))

    def waiting(self) -> list[PipelinedRegion]:
        return [r for r in self.regions if r.phase is RegionPhase.WAITING]

    def unfinished(self) -> list[PipelinedRegion]:
        return [r for r in self.regions if r.phase is not RegionPhase.FINISHED]

    # --- how far they get

    def advance(self, now_ms: int) -> JobPhase:
        """Go on as far as the present state allows; returns the phase of the job that follows from those of the regions."""
        parts, started = self._parts, list[PipelinedRegion]()
        for region in self.regions:
            if region.phase is RegionPhase.STOPPING and region.are_all_terminal():
                region.phase = RegionPhase.DELAYED
            is_due = region.phase is RegionPhase.DELAYED and now_ms >= region.restart_ms
            is_free = self._going_back_to is None and not self._is_held
            if is_due and is_free and not parts.checkpoints.is_storing:
                self._start_anew(region, now_ms)
                started.append(region)
            if region.phase is RegionPhase.DEPLOYED and region.are_all(ExecutionState.FINISHED):
                region.phase = RegionPhase.FINISHED
        if started:
            self._note_start(started)
        if self._going_back_to is not None and not self._is_held:
            self._go_back(self._going_back_to, now_ms)
        waiting = self.waiting()
        if waiting and parts.tasks.slots.is_complete and parts.sources.are_discovered:
            self._deploy(waiting, now_ms)
        return self._job_phase()

    def _share_of(self, regions: list[PipelinedRegion]) -> str:
        tasks, all_tasks = (sum(len(r.subtasks) for r in found) for found in (regions, self.regions))
        return f"{tasks} of {all_tasks} tasks"

    def _note_start(self, started: list[PipelinedRegion]) -> None:
        checkpoint = self._parts.checkpoints.completed.newest
        origin = f"go on from checkpoint {checkpoint.checkpoint_id}" if checkpoint else "begin anew"
        job_id = self._parts.progress.job_id
        self._parts.emit(Noted(f"{self._share_of(started)} {origin}", job_id, is_warning=False))

    def _job_phase(self) -> JobPhase:
        all_finished = all(r.phase is RegionPhase.FINISHED for r in self.regions)
        if all_finished and not self._parts.checkpoints.is_storing:
            return JobPhase.COMMITTING
        if any(r.is_under_restart for r in self.regions):
            return JobPhase.RESTARTING
        if self.waiting():
            return JobPhase.SCHEDULING
        is_starting = any(e.state in _STARTING for e in self._parts.graph.executions())
        return JobPhase.DEPLOYING if is_starting else JobPhase.RUNNING

    def _deploy(self, regions: list[PipelinedRegion], now_ms: int) -> None:
        parts = self._parts
        deployment = Deployment(
            parts.config.result_address,
            parts.sources.first,
            parts.checkpoints.settings.directory,
            parts.checkpoints.completed.newest,
        )
        for region in regions:
            region.phase = RegionPhase.DEPLOYED
        parts.tasks.deploy((s for region in regions for s in region.subtasks), deployment, now_ms)

    # --- what they go on from

    def restore_all(self, checkpoint: CompletedCheckpoint) -> None:
        """The job begins with a checkpoint."""
        self._restore_sources(checkpoint)
        for subtask in self._parts.graph.subtasks():
            self._restore(subtask, checkpoint)

    def _restore_sources(self, checkpoint: CompletedCheckpoint) -> None:
        manifest, job = checkpoint.manifest, self._parts.job_graph
        self._parts.sources.restore(manifest.checkpoint_id, *sources_of(manifest, job))

    # --- another parallelism

    def hold(self, now_ms: int) -> None:
        """End all tasks. None starts anew before `release`, which leaves the graph as it is, or `rescale`."""
        parts = self._parts
        self._is_held = True
        parts.checkpoints.break_off("the job is rescaled", now_ms)
        if parts.progress.phase is not JobPhase.RESTARTING:
            parts.progress.transition(JobPhase.RESTARTING, now_ms)
        for region in self.regions:
            if not region.is_under_restart:
                region.phase, region.restart_ms = RegionPhase.STOPPING, now_ms
                self._end_tasks((s.execution for s in region.subtasks), now_ms)

    def release(self) -> None:
        self._is_held = False

    def rescale(self, now_ms: int) -> None:
        """The graph has other subtasks from here on, which begin with the newest checkpoint, if there is one."""
        parts = self._parts
        checkpoint = parts.checkpoints.completed.newest
        self.regions = regions_of(parts.graph)
        self._region_of = {s: region for region in self.regions for s in region.subtasks}
        self._is_held, self._going_back_to = False, None
        for execution in parts.graph.executions():
            execution.transition(ExecutionState.SCHEDULED, now_ms)
        if checkpoint is None:
            parts.sources.begin_anew()
        else:
            self.restore_all(checkpoint)
            parts.checkpoints.restored(checkpoint, now_ms)
        self.history.went_on(checkpoint.checkpoint_id if checkpoint is not None else 0)
        for enumerator in parts.sources.start():
            parts.emit(enumerator)
        if not parts.tasks.slots.is_complete:
            parts.tasks.request_slots(now_ms)

    # --- failures

    def on_task_failure(self, subtask: ExecutionVertex, error: ErrorInfo, now_ms: int) -> None:
        if error.reason is FailureReason.CHECKPOINT_CORRUPT and subtask.execution.restored_id:
            self._fall_back(subtask, error, now_ms)
        else:
            self.on_failure(error, self.of([subtask]), now_ms, task_name(subtask))

    def on_failure(
        self, error: ErrorInfo, regions: list[PipelinedRegion], now_ms: int, task: str = ""
    ) -> None:
        """Restart what the failure has hit, or fail the job. What fails in a region that is being ended for its restart
        follows from the first failure, and does not count."""
        progress = self._parts.progress
        progress.replace_broken_connection(error)
        hit = [r for r in regions if not r.is_under_restart]
        if progress.phase not in ACTIVE or not hit:
            return
        delay_ms = self.strategy.restart_after_ms(error, now_ms)
        if delay_ms is None:
            self.fail(error, now_ms)
            return
        self._restart(hit, error, delay_ms, now_ms, task)

    def fail(self, error: ErrorInfo, now_ms: int) -> None:
        parts = self._parts
        parts.story.add(now_ms, f"job {parts.progress.job_id} fails: {error.code} {error.message}")
        parts.progress.error = error
        parts.checkpoints.break_off("the job fails", now_ms)
        parts.progress.transition(JobPhase.FAILING, now_ms)
        self.end_all_tasks(now_ms)

    def end_all_tasks(self, now_ms: int) -> None:
        self._note_ending()
        self._parts.tasks.end_all(now_ms)

    def _end_tasks(self, executions: Iterable[Execution], now_ms: int) -> None:
        self._note_ending()
        self._parts.tasks.end(executions, now_ms)

    def _note_ending(self) -> None:
        # A task may have prepared a commit for a checkpoint, and not be heard any more.
        total = self._parts.checkpoints.coordinator.history.counts.total
        self._parts.output.is_unclean |= total > 0

    # --- restarts

    def _restart(
        self, hit: list[PipelinedRegion], error: ErrorInfo, delay_ms: int, now_ms: int, task: str
    ) -> None:
        parts = self._parts
        parts.story.add(
            now_ms,
            f"job {parts.progress.job_id} restarts {len(hit)} of {len(self.regions)} regions in {delay_ms} ms: "
            f"{error.code} {error.message}",
        )
        cause = f'task "{task}" has failed: {error.line}' if task else error.line
        restart = f"{self._share_of(hit)} restart in {delay_ms / 1000:g} s: {cause}"
        parts.emit(Noted(restart, parts.progress.job_id))
        self.history.add(error, task, now_ms)
        parts.checkpoints.break_off("a task has failed", now_ms)
        if parts.progress.phase is not JobPhase.RESTARTING:
            parts.progress.transition(JobPhase.RESTARTING, now_ms)
        for region in hit:
            region.phase, region.restart_ms = RegionPhase.STOPPING, now_ms + delay_ms
            self._end_tasks((s.execution for s in region.subtasks), now_ms)

    def _fall_back(self, subtask: ExecutionVertex, error: ErrorInfo, now_ms: int) -> None:
        """The checkpoint that an attempt went on from cannot be read: the whole job goes back to the one before, unless what
        sinks have committed since then would be written again."""
        parts = self._parts
        corrupt_id = subtask.execution.restored_id
        is_found = parts.checkpoints.mark_unusable(corrupt_id, error, now_ms)
        older = parts.checkpoints.completed.newest
        hit = [r for r in self.unfinished() if not r.is_under_restart]
        # Also a job whose regions are all under restart, for another reason, would go on from the older one.
        if parts.progress.phase not in ACTIVE or not (is_found or hit):
            return
        if older is None or not self._can_go_back(older):
            self.fail(_with_what_stays(error, older, parts.checkpoints.settings.directory), now_ms)
            return
        parts.story.add(now_ms, f"job {parts.progress.job_id} goes back to checkpoint {older.checkpoint_id}")
        self._going_back_to = older
        parts.output.withdraw(older.checkpoint_id)
        if hit:
            self._restart(hit, error, 0, now_ms, task_name(subtask))

    def _can_go_back(self, older: CompletedCheckpoint) -> bool:
        """Whether no sink has committed what would be written again, and no part of the job has finished since."""
        finished = (s for r in self.regions if r.phase is RegionPhase.FINISHED for s in r.subtasks)
        return self._parts.output.commits.newest_begun_id <= older.checkpoint_id and all(
            older.has_finished(s.vertex.id, s.subtask) for s in finished
        )

    def _go_back(self, older: CompletedCheckpoint, now_ms: int) -> None:
        """Start the whole job again from an older checkpoint than the newest that was complete, once no task runs any more."""
        hit = self.unfinished()
        is_storing = self._parts.checkpoints.is_storing
        if is_storing or any(r.phase is not RegionPhase.DELAYED for r in hit):
            return
        self._going_back_to = None
        self._restore_sources(older)
        for region in hit:
            self._start_anew(region, now_ms)
        self._note_start(hit)
        for enumerator in self._parts.sources.start():
            self._parts.emit(enumerator)

    def _start_anew(self, region: PipelinedRegion, now_ms: int) -> None:
        parts = self._parts
        checkpoint = parts.checkpoints.completed.newest
        self.history.went_on(checkpoint.checkpoint_id if checkpoint is not None else 0)
        if checkpoint is not None:
            parts.checkpoints.restored(checkpoint, now_ms)
        for s in region.subtasks:
            parts.tasks.forget(s.execution)
            parts.output.discard(s)
            restore = checkpoint.restore_of(s.vertex.id, s.subtask) if checkpoint is not None else None
            if (enumerator := parts.sources.start_anew(s, restore)) is not None:
                parts.emit(enumerator)
            parts.graph.start_anew(s, now_ms)
            self._restore(s, checkpoint)
            s.execution.transition(ExecutionState.SCHEDULED, now_ms)
        parts.checkpoints.discarded()
        region.phase = RegionPhase.WAITING
        if not parts.tasks.slots.is_complete:
            parts.tasks.request_slots(now_ms)

    def _restore(self, subtask: ExecutionVertex, checkpoint: CompletedCheckpoint | None) -> None:
        """The attempt, which is not deployed yet, goes on from this checkpoint; None: from the beginning."""
        subtask.counted = {}
        if checkpoint is not None:
            subtask.execution.restored_id = checkpoint.checkpoint_id
            if checkpoint.manifest.job_id == self._parts.progress.job_id:
                subtask.counted = counted_before(checkpoint.manifest, subtask)


def _with_what_stays(error: ErrorInfo, older: CompletedCheckpoint | None, directory: str) -> ErrorInfo:
    """The error of a damaged checkpoint, with the place of those that the job leaves for it."""
    if older is not None:
        hint = (
            f"its checkpoints stay: SET 'execution.state-recovery.path' = '{older.path}' goes on from the one before, and writes "
            "rows again that are visible"
        )
    elif directory:
        hint = f'start from another checkpoint or savepoint; what is left of its own stays in "{directory}"'
    else:
        return error
    return replace(error, hint=hint)


# The failures after which a job went on.


class RestartHistory:
    """State: how many there were, and the last RESTARTS_REMEMBERED_MAX, newest first."""

    def __init__(self) -> None:
        self.count = 0
        self.records: tuple[RestartRecord, ...] = ()

    def add(self, error: ErrorInfo, task: str, now_ms: int) -> None:
        self.count += 1
        self.records = (RestartRecord(now_ms, error, task), *self.records)[:RESTARTS_REMEMBERED_MAX]

    def went_on(self, checkpoint_id: int) -> None:
        """The tasks of all failures that are not decided go on from this checkpoint; 0 is the beginning."""
        self.records = tuple(
            replace(r, checkpoint_id=checkpoint_id) if r.checkpoint_id < 0 else r for r in self.records
        )


# The subtasks that exchange rows while they run, so that they start, fail and restart together (Flink:
# PipelinedRegion).


class RegionPhase(enum.Enum):
    """
        WAITING ─► DEPLOYED ─► FINISHED
           ▲           │
        DELAYED ◄─ STOPPING

    WAITING for slots. STOPPING: a task of it has failed, and the others are being ended. DELAYED until its restart, which gives
    every subtask a new attempt. FINISHED: every task has, so nothing that is lost later concerns it.
    """

    WAITING = "WAITING"
    DEPLOYED = "DEPLOYED"
    STOPPING = "STOPPING"
    DELAYED = "DELAYED"
    FINISHED = "FINISHED"


class PipelinedRegion:
    """A connected part of the ExecutionGraph. State: its phase, and when it restarts at the earliest."""

    def __init__(self, subtasks: tuple[ExecutionVertex, ...]) -> None:
        self.subtasks = subtasks
        self.phase = RegionPhase.WAITING
        self.restart_ms = 0

    @property
    def is_under_restart(self) -> bool:
        return self.phase in (RegionPhase.STOPPING, RegionPhase.DELAYED)

    def are_all_terminal(self) -> bool:
        return all(s.execution.is_terminal for s in self.subtasks)

    def are_all(self, state: ExecutionState) -> bool:
        return all(s.execution.state is state for s in self.subtasks)


def regions_of(graph: ExecutionGraph) -> tuple[PipelinedRegion, ...]:
    """The connected components of the subtasks under the channels between them, in the order of their first subtasks."""
    component = {s: {s} for s in graph.subtasks()}
    for edge in graph.job_graph.edges:
        producers, consumers = graph.vertices[edge.source], graph.vertices[edge.target]
        for producer in producers:
            fed = consumers_of(edge.exchange.kind, producer.subtask, len(producers), len(consumers))
            for i in fed:
                _join(component, producer, consumers[i])
    order = {s: i for i, s in enumerate(graph.subtasks())}
    distinct = {id(members): members for members in component.values()}
    return tuple(PipelinedRegion(tuple(sorted(m, key=order.__getitem__))) for m in distinct.values())


def _join(
    component: dict[ExecutionVertex, set[ExecutionVertex]], a: ExecutionVertex, b: ExecutionVertex
) -> None:
    small, large = sorted((component[a], component[b]), key=len)
    if small is not large:
        large |= small
        component.update((s, large) for s in small)
