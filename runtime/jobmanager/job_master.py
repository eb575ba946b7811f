"""Runs one job: gets slots, deploys, follows its tasks, commits its sinks, ends it (Flink: JobMaster)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlstream.errors import ErrorInfo, InternalError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.adaptive_scheduling import (
    AdaptiveScheduling,
    adaptive_settings,
    desired_graph,
    graph_to_begin_with,
)
from sqlstream.runtime.jobmanager.autoscaling import Autoscaling, autoscaler_settings
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import JobCheckpoints
from sqlstream.runtime.jobmanager.checkpoints.restored_state import (
    commits_by_checkpoint,
    restored_checkpoints,
)
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.job_end import JobEnd
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.job_output import JobOutput
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase, JobProgress, status_in
from sqlstream.runtime.jobmanager.job_regions import JobRegions, PipelinedRegion, RegionPhase
from sqlstream.runtime.jobmanager.job_tasks import JobTasks
from sqlstream.runtime.jobmanager.latency_control import latency_control
from sqlstream.runtime.jobmanager.rescaling import JobRescaling
from sqlstream.runtime.jobmanager.resources.slot_pool import SlotPool
from sqlstream.runtime.jobmanager.sink_commits import SinkCommits
from sqlstream.runtime.jobmanager.sources.job_sources import JobSources
from sqlstream.runtime.jobmanager.state_history import StateHistory
from sqlstream.runtime.jobmanager.task_reports import TaskReports
from sqlstream.runtime.story import Story
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

_SETTLED = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED)
"""States of an execution in which no answer of its TaskManager is due."""

Handler = Callable[["JobMaster", Any, int], None]


class JobMaster:
    """Takes one job from STORING to a final phase, and there only once no task of it can be running.

    What an event does depends on the phase, by the table at the end of this file; after it, the job goes on as far as it can
    (`_advance`). A failure restarts the regions that it hits, or fails the job if its RestartStrategy says so (JobRegions): then
    all tasks are cancelled and the first cause is kept (a failed task or a lost TaskManager replaces the broken connections that
    it caused). How it ends, and what becomes of its sinks then, is with JobEnd.
    State: that of its parts (JobParts). Forgotten with the job.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        config: JobMasterConfig,
        now_ms: int,
        restored: tuple[events.LoadedCheckpoint, ...] = (),
    ) -> None:
        self.job_id = job_graph.job_id
        self.config = config
        self.story = Story()
        adaptive = adaptive_settings(job_graph)
        desired = desired_graph(job_graph, adaptive)
        job_graph = graph_to_begin_with(desired, adaptive, restored)
        self.graph = ExecutionGraph(job_graph, now_ms, self.story, config.job_manager_id)
        self._instructions: list[events.JobMasterInstruction] = []
        sources = JobSources(job_graph, config.enumerates)
        output = JobOutput(self.graph, self._emit)
        settings = checkpoint_settings(job_graph, config.checkpoint_directory)
        if config.is_recovered:
            settings = replace(settings, epoch=config.epoch)
        known = restored_checkpoints(restored, job_graph, settings.directory)
        self.checkpoints = JobCheckpoints(
            settings, self.graph, output.commits, sources, self._emit, self.story, now_ms, known
        )
        self._parts = JobParts(
            config,
            self.graph,
            JobProgress(self.job_id, self.story, now_ms, config.is_recovered),
            JobTasks(self.graph, config, self.story, self._emit),
            sources,
            output,
            self.checkpoints,
            self._emit,
        )
        self._regions = JobRegions(self._parts)
        self._reports = TaskReports(self._parts, self._regions)
        self._end = JobEnd(self._parts, self._regions)
        self.rescaling = JobRescaling(self._parts, self._regions)
        self.adaptive = (
            AdaptiveScheduling(self._parts, self.rescaling, adaptive, desired)
            if adaptive is not None
            else None
        )
        autoscaler = autoscaler_settings(job_graph)
        self.autoscaling = (
            Autoscaling(self._parts, self.rescaling, autoscaler) if autoscaler is not None else None
        )
        self.latency = latency_control(self._parts)
        self.state_history = StateHistory()
        self.restarts = self._regions.history

    @property
    def job_graph(self) -> JobGraph:
        return self.graph.job_graph

    @property
    def phase(self) -> JobPhase:
        return self._parts.progress.phase

    @property
    def status(self) -> JobStatus:
        return self._parts.progress.status

    @property
    def error(self) -> ErrorInfo | None:
        """The first cause of its failure."""
        return self._parts.progress.error

    @property
    def timestamps_ms(self) -> dict[str, int]:
        """Since when it has had each status."""
        return self._parts.progress.timestamps_ms

    @property
    def slots(self) -> SlotPool:
        return self._parts.tasks.slots

    def output_kept_for(self) -> tuple[str, ...]:
        """The checkpoints and the savepoint that stay when the job ends as its status says, and that have rows to commit."""
        return self._end.output_kept_for()

    def handle(self, event: events.JobMasterEvent, now_ms: int) -> list[events.JobMasterInstruction]:
        """Take one event in and return the instructions. InternalError when the machine's own rules are broken."""
        self._instructions = []
        handler = TRANSITIONS[self.phase].get(type(event))
        if handler is not None:
            handler(self, event, now_ms)
            if self.latency is not None and isinstance(event, _REPORTS):
                self.latency.on_report()
            self._advance(now_ms)
        self.check()
        return self._instructions

    def is_settled(self) -> bool:
        """Whether a Tick changes nothing: all tasks are deployed, and none has to end."""
        is_deployed = self.phase in (JobPhase.DEPLOYING, JobPhase.RUNNING)
        is_waiting = (
            self.checkpoints.is_pending
            or self.checkpoints.requests.are_waiting
            or self.rescaling.is_under_way
            or self._parts.output.retry_ms
        )
        return is_deployed and not is_waiting and all(e.state in _SETTLED for e in self.graph.executions())

    def due_ms(self) -> int | None:
        """When a Tick has something to do although the job is settled."""
        return self.checkpoints.due_ms() if self.phase is JobPhase.RUNNING else None

    def check(self) -> None:
        """Check the invariants that hold after every step; InternalError with the story when one is broken."""
        problem = broken_rule(
            self.phase, self.status, self.error, self.graph, self._regions.regions, self._end.is_stopped
        ) or broken_rule_of_checkpoints(self.checkpoints, self._parts.output.commits)
        if problem:
            raise InternalError(f"job {self.job_id} {problem}", story=self.story.lines())

    def _advance(self, now_ms: int) -> None:
        """Go on as far as the present state allows."""
        if self.phase in ACTIVE:
            target = self._regions.advance(now_ms)
            if target is not self.phase:
                self._parts.progress.transition(target, now_ms)
            if target is JobPhase.COMMITTING:
                self._parts.output.commit_last(self._parts.sources.read())
        self._end.advance(now_ms)
        if self.phase in ACTIVE:
            self.rescaling.advance(now_ms)
            if self.adaptive is not None:
                self.adaptive.advance(now_ms)
            if self.autoscaling is not None:
                self.autoscaling.advance(now_ms)
            if self.latency is not None:
                self.latency.advance(now_ms)
            if self.phase is JobPhase.RUNNING:
                self.state_history.advance(self.graph, now_ms)
        elif self.status.is_terminal:
            self.rescaling.on_end()

    # --- beginning

    def _on_stored(self, event: events.JobStored, now_ms: int) -> None:
        progress = self._parts.progress
        progress.transition(JobPhase.CREATED, now_ms)
        progress.transition(JobPhase.SCHEDULING, now_ms)
        for execution in self.graph.executions():
            execution.transition(ExecutionState.SCHEDULED, now_ms)
        self._go_on_from_restored(now_ms)
        self._parts.tasks.request_slots(now_ms)
        self._instructions += self._parts.sources.start()

    def _go_on_from_restored(self, now_ms: int) -> None:
        """From what another JobManager, or another job, has saved: its commits are repeated first."""
        restored = self.checkpoints.completed.newest
        if restored is None:
            return
        output = self._parts.output
        output.is_unclean = True
        # What the JobManager before has committed of older ones, this one does not see.
        output.commits.newest_begun_id = max(c.manifest.begun_id for c in self.checkpoints.completed)
        for checkpoint_id, saved in commits_by_checkpoint(restored.manifest, self.job_graph).items():
            output.repeat(checkpoint_id, saved)
        self._regions.restore_all(restored)
        self.checkpoints.restored(restored, now_ms)
        self.story.add(now_ms, f"job {self.job_id} goes on from {restored.path}")
        self._emit(events.Noted(f"the job goes on from {restored.path}", self.job_id, is_warning=False))

    def _on_slots_offered(self, event: events.SlotsOffered, now_ms: int) -> None:
        self._parts.tasks.take_slots(event)

    def _refuse_slots(self, event: events.SlotsOffered, now_ms: int) -> None:
        self._parts.tasks.refuse_slots(event)

    def _on_no_task_manager_left(self, event: events.NoTaskManagerLeft, now_ms: int) -> None:
        if event.registered:
            # A job that waits may get slots of others; one that runs is not to wait for slots that it could do without.
            self.rescaling.on_no_task_manager(event.error, now_ms)
        elif self.phase in (JobPhase.SCHEDULING, JobPhase.RESTARTING):
            self._on_no_slots(event.error, now_ms)

    def _on_no_slots(self, error: ErrorInfo, now_ms: int) -> None:
        if not self.rescaling.turn_back(error, now_ms):
            self._regions.on_failure(error, self._regions.waiting(), now_ms)

    # --- checkpoints

    def _on_acknowledged(self, event: events.CheckpointAcknowledged, now_ms: int) -> None:
        ack = event.acknowledgement
        subtask = self.graph.find(ack.execution_id)
        if subtask is None or subtask.execution.is_terminal:
            # A finished attempt has said at its end what it wrote, and all of that may be committed. What others wrote is removed
            # with all that their job has staged.
            has_finished = subtask is not None and subtask.execution.state is ExecutionState.FINISHED
            self._parts.output.is_unclean |= bool(ack.committables) and not has_finished
            return
        if subtask.execution.task_manager_id != ack.task_manager_id:
            return
        self._after_checkpoint(self.checkpoints.acknowledge(ack, subtask.execution, now_ms), now_ms)

    def _on_declined(self, event: events.CheckpointDeclined, now_ms: int) -> None:
        decline = event.decline
        subtask = self.graph.find(decline.execution_id)
        if subtask is not None and subtask.execution.task_manager_id == decline.task_manager_id:
            self._after_checkpoint(self.checkpoints.decline(decline, subtask, now_ms), now_ms)

    def _on_checkpoint_stored(self, event: events.CheckpointStored, now_ms: int) -> None:
        completed = self.checkpoints.on_stored(event, now_ms)
        if completed is not None and completed.kind is CheckpointKind.SYNC_SAVEPOINT:
            self._end.stop_with(event.checkpoint_id, event.path, now_ms)
        elif completed is not None and self.phase in ACTIVE:
            self.rescaling.on_checkpoint(completed, now_ms)

    def _on_checkpoint_store_failed(self, event: events.CheckpointStoreFailed, now_ms: int) -> None:
        self._after_checkpoint(self.checkpoints.on_store_failed(event, now_ms), now_ms)

    def _on_savepoint_requested(self, event: events.SavepointRequested, now_ms: int) -> None:
        self.checkpoints.requests.add(event, now_ms)

    def _after_checkpoint(self, failure: ErrorInfo | None, now_ms: int) -> None:
        """Too many checkpoints have failed: the job starts again from the last that has not."""
        if failure is not None:
            self._regions.on_failure(failure, self._regions.unfinished(), now_ms)

    # --- time

    def _on_tick(self, event: events.Tick, now_ms: int) -> None:
        tasks = self._parts.tasks
        is_late = self._regions.waiting() and tasks.are_slots_late(now_ms)
        if is_late and not (self.adaptive is not None and self.adaptive.start_at_deadline(now_ms)):
            self._on_no_slots(tasks.no_slots(), now_ms)
        self._after_checkpoint(self.checkpoints.expire(now_ms), now_ms)
        if self.phase is JobPhase.RUNNING:
            self.checkpoints.resend(now_ms, self.config.resend_ms)
            self.checkpoints.begin_due(now_ms)
        self._parts.output.is_unclean |= tasks.give_up(now_ms)
        tasks.resend(now_ms)

    def _emit(self, instruction: events.JobMasterInstruction) -> None:
        self._instructions.append(instruction)


_REPORTS = (events.MetricsReceived, events.TaskStateChanged)

_FOLLOWING: dict[type, Handler] = {
    events.TaskStateChanged: lambda m, e, now_ms: m._reports.on_task_state(e, now_ms),
    events.MetricsReceived: lambda m, e, now_ms: m._reports.on_metrics(e, now_ms),
    events.MetricsRequested: lambda m, e, now_ms: m._reports.request_metrics(e, now_ms),
    events.TaskManagerLost: lambda m, e, now_ms: m._reports.on_task_manager_lost(e, now_ms),
    events.SuspendRequested: lambda m, e, now_ms: m._end.on_suspend(e, now_ms),
    events.Tick: JobMaster._on_tick,
    events.CheckpointAcknowledged: JobMaster._on_acknowledged,
    events.CheckpointDeclined: JobMaster._on_declined,
    events.CheckpointStored: JobMaster._on_checkpoint_stored,
    events.CheckpointStoreFailed: JobMaster._on_checkpoint_store_failed,
    events.SavepointRequested: JobMaster._on_savepoint_requested,
    events.RescaleRequested: lambda m, e, now_ms: m.rescaling.begin(e, now_ms),
    events.SinksCommitted: lambda m, e, now_ms: m._end.on_committed(e, now_ms),
    events.SinksCommitFailed: lambda m, e, now_ms: m._end.on_commit_failed(e, now_ms),
}
"""What every phase does in which there may be tasks."""

_ACTIVE: dict[type, Handler] = {
    **_FOLLOWING,
    events.SlotsOffered: JobMaster._on_slots_offered,
    events.NoTaskManagerLeft: JobMaster._on_no_task_manager_left,
    events.SplitsDiscovered: lambda m, e, now_ms: m._reports.on_splits_discovered(e, now_ms),
    events.DiscoveryFailed: lambda m, e, now_ms: m._reports.on_discovery_failed(e, now_ms),
    events.SplitsRequested: lambda m, e, now_ms: m._reports.on_splits_requested(e, now_ms),
    events.WatermarkReported: lambda m, e, now_ms: m._reports.on_watermark_reported(e, now_ms),
    events.CancelRequested: lambda m, e, now_ms: m._end.on_cancel(e, now_ms),
    events.JobStored: lambda m, e, now_ms: m.rescaling.on_stored(now_ms),
    events.JobStoreFailed: lambda m, e, now_ms: m.rescaling.on_store_failed(e.error, now_ms),
}

_ENDING: dict[type, Handler] = {**_FOLLOWING, events.SlotsOffered: JobMaster._refuse_slots}

TRANSITIONS: dict[JobPhase, dict[type, Handler]] = {
    JobPhase.STORING: {
        events.JobStored: JobMaster._on_stored,
        events.JobStoreFailed: lambda m, e, now_ms: m._end.on_store_failed(e, now_ms),
        events.CancelRequested: lambda m, e, now_ms: m._end.on_cancel(e, now_ms),
        events.SuspendRequested: lambda m, e, now_ms: m._end.on_suspend(e, now_ms),
        events.SavepointRequested: JobMaster._on_savepoint_requested,
    },
    JobPhase.CREATED: {},
    JobPhase.SCHEDULING: _ACTIVE,
    JobPhase.DEPLOYING: _ACTIVE,
    JobPhase.RUNNING: _ACTIVE,
    JobPhase.RESTARTING: _ACTIVE,
    JobPhase.STOPPING: {
        **_ENDING,
        events.CancelRequested: lambda m, e, now_ms: m._end.on_late_cancel(e, now_ms),
    },
    JobPhase.COMMITTING: {
        **_ENDING,
        events.CancelRequested: lambda m, e, now_ms: m._end.on_late_cancel(e, now_ms),
    },
    JobPhase.CLEANING_UP: {
        **_ENDING,
        events.SinksAborted: lambda m, e, now_ms: m._end.on_cleaned_up(e, now_ms),
    },
    JobPhase.FAILING: _ENDING,
    JobPhase.CANCELLING: _ENDING,
    JobPhase.ABORTING: {**_ENDING, events.SinksAborted: lambda m, e, now_ms: m._end.on_aborted(e, now_ms)},
    JobPhase.FINISHED: {},
    JobPhase.FAILED: {},
    JobPhase.CANCELED: {},
    JobPhase.SUSPENDED: {},
}
"""What an event does in a phase. An event that is not listed changes nothing: it comes late, or twice."""


# What holds of a job after every step of its JobMaster.


_AFTER_THE_TASKS = (JobPhase.COMMITTING, JobPhase.CLEANING_UP, JobPhase.ABORTING)
_SUCCESSFUL = (JobPhase.COMMITTING, JobPhase.CLEANING_UP, JobPhase.FINISHED)
_UNPLACED = (ExecutionState.CREATED, ExecutionState.SCHEDULED)


def broken_rule(
    phase: JobPhase,
    status: JobStatus,
    error: ErrorInfo | None,
    graph: ExecutionGraph,
    regions: tuple[PipelinedRegion, ...],
    is_stopped: bool = False,
) -> str:
    """The first rule that does not hold, as the end of a sentence about the job; empty when all hold. `is_stopped`: the job ends
    with a savepoint, and not with its tasks."""
    if status_in(phase, status) is not status:
        return f"is {phase.value} and shows {status.value}"
    if (status.is_globally_terminal or phase in _AFTER_THE_TASKS) and not graph.are_all_terminal():
        return f"is {phase.value} before its tasks have ended"
    if phase in _SUCCESSFUL and not is_stopped and not graph.are_all(ExecutionState.FINISHED):
        return f"is {phase.value} without all of its tasks"
    if phase is JobPhase.FAILED and error is None:
        return "failed without a cause"
    for subtask in graph.subtasks():
        if problem := _broken_rule_of_attempts(subtask):
            return problem
    if phase in ACTIVE:
        for region in regions:
            if problem := _broken_rule_of_region(region):
                return problem
    return ""


def broken_rule_of_checkpoints(checkpoints: JobCheckpoints, commits: SinkCommits) -> str:
    """As `broken_rule`, of the job's checkpoints and their commits."""
    coordinator, newest = checkpoints.coordinator, checkpoints.completed.newest
    if newest is not None and newest.checkpoint_id > coordinator.newest_completed_id:
        return f"would go on from {newest.checkpoint_id}, which is not complete"
    if len(coordinator.pending) > coordinator.settings.concurrent_max:
        return f"has {len(coordinator.pending)} checkpoints in progress"
    if any(p.checkpoint_id <= coordinator.newest_completed_id for p in coordinator.pending.values()):
        return "awaits a checkpoint that is older than a completed one"
    early = [n for n in commits.open if coordinator.newest_completed_id < n < LAST_CHECKPOINT_ID]
    if early and not coordinator.history.counts.completed:
        return f"commits {early[0]}, which is not complete"
    return ""


def _broken_rule_of_attempts(subtask: ExecutionVertex) -> str:
    alive = [e for e in subtask.earlier if not e.is_terminal]
    if alive:
        return f"replaced {alive[0].execution_id} before it had ended"
    attempts = [e.attempt for e in (*subtask.earlier, subtask.execution)]
    if attempts != list(range(attempts[0], attempts[0] + len(attempts))):
        return f"has attempts {attempts} of one subtask"
    return ""


def _broken_rule_of_region(region: PipelinedRegion) -> str:
    states = {s.execution.state for s in region.subtasks}
    is_possible = {
        RegionPhase.WAITING: states == {ExecutionState.SCHEDULED},
        RegionPhase.DEPLOYED: states.isdisjoint(_UNPLACED),
        RegionPhase.STOPPING: all(state.is_terminal or state is ExecutionState.CANCELING for state in states),
        RegionPhase.DELAYED: all(state.is_terminal for state in states),
        RegionPhase.FINISHED: states == {ExecutionState.FINISHED},
    }[region.phase]
    if is_possible:
        return ""
    return f"has a region that is {region.phase.value} with tasks {sorted(s.value for s in states)}"
