"""Runs one job: gets slots, deploys, follows its tasks, commits its sinks, ends it (Flink: JobMaster)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings
from runtime.jobmanager.checkpoints.completed_checkpoints import CompletedCheckpoint
from runtime.jobmanager.checkpoints.job_checkpoints import JobCheckpoints
from runtime.jobmanager.checkpoints.pending_checkpoint import task_name
from runtime.jobmanager.checkpoints.restored_state import (
    commits_by_checkpoint,
    enumerators_of,
    restored_checkpoints,
    source_states,
)
from runtime.jobmanager.deployment import Deployment, describe_tasks
from runtime.jobmanager.events import (
    CancelRequested,
    CheckpointAcknowledged,
    CheckpointDeclined,
    CheckpointStored,
    CheckpointStoreFailed,
    DiscoveryFailed,
    GiveUpTaskManager,
    JobFinished,
    JobMasterEvent,
    JobMasterInstruction,
    JobStored,
    JobStoreFailed,
    LoadedCheckpoint,
    MetricsReceived,
    MetricsRequested,
    NoTaskManagerLeft,
    ReleaseSlots,
    RequestSlots,
    SavepointRequested,
    Send,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    SlotsOffered,
    SplitsDiscovered,
    SplitsRequested,
    StopEnumerators,
    SuspendRequested,
    TaskManagerLost,
    TaskStateChanged,
    Tick,
    WithdrawRequest,
)
from runtime.jobmanager.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from runtime.jobmanager.job_invariants import broken_rule, broken_rule_of_checkpoints
from runtime.jobmanager.job_output import JobOutput
from runtime.jobmanager.job_phase import ACTIVE, JobPhase, check_phase_transition, status_in
from runtime.jobmanager.job_sources import JobSources
from runtime.jobmanager.pipelined_region import PipelinedRegion, RegionPhase, regions_of
from runtime.jobmanager.restart_history import RestartHistory
from runtime.jobmanager.restart_strategy import NoRestart, RestartStrategy, restart_strategy_of
from runtime.jobmanager.scheduler import assign_slots, slots_needed
from runtime.jobmanager.slot_pool import SlotPool
from runtime.story import Story
from sqlstream.errors import ErrorInfo, FailureReason, InternalError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    AcceptSlots,
    AssignSplits,
    CancelTask,
    DeployTask,
    FreeSlot,
    RequestMetrics,
    TaskDeploymentDescriptor,
    TaskStateAck,
    ToTaskManager,
)
from sqlstream.spi.connector import AssignedSplits

METRICS_REQUEST_INTERVAL_MS = 1000
"""Interval between requests for figures, however often clients read them: each lasts for several seconds."""

_SETTLED = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED)
"""States of an execution in which no answer of its TaskManager is due."""

_ENDING_TASKS = (JobPhase.FAILING, JobPhase.CANCELLING, JobPhase.STOPPING)

_NOT_YET_DEPLOYED = (ExecutionState.CREATED, ExecutionState.SCHEDULED)
_STARTING = (*_NOT_YET_DEPLOYED, ExecutionState.DEPLOYING, ExecutionState.INITIALIZING)

Handler = Callable[["JobMaster", Any, int], None]


@dataclass(frozen=True)
class JobMasterConfig:
    """`result_address` is where sinks send rows for the client. A task that does not end within
    `cancellation_timeout_ms` is given up; its TaskManager ends itself for the same reason. `restart_strategy` makes one for
    each job; without one, the job's settings name it. `enumerates` says of a connector by its name whether its readers are
    assigned their splits. Checkpoints of jobs whose settings name no directory are below `checkpoint_directory`."""

    result_address: str = ""
    slot_request_timeout_ms: int = 300_000
    cancellation_timeout_ms: int = 230_000
    resend_ms: int = 500
    restart_strategy: Callable[[], RestartStrategy] | None = None
    enumerates: Callable[[str], bool] = lambda connector: False
    checkpoint_directory: str = ""


class JobMaster:
    """Takes one job from STORING to a final phase, and there only once no task of it can be running.

    What an event does depends on the phase, by the table at the end of this file; after it, the job goes on as far as it can
    (`_advance`). A failure restarts the regions that it hits, or fails the job if its RestartStrategy says so: then all
    tasks are cancelled and the first cause is kept (a failed task or a lost TaskManager replaces the broken connections that
    it caused). A region starts again from the newest completed checkpoint, without one from the beginning. Sinks are committed
    with each checkpoint, and when every task has FINISHED, before the job is FINISHED; a cancellation during that last commit
    is too late: the commit may succeed. A commit that fails is repeated as the RestartStrategy says, until such a cancellation.
    Committables of no completed checkpoint are aborted when the job does not finish, and so are those of attempts that were not
    the last.
    State: the phase, the ExecutionGraph and its regions, the slots, the cause. Forgotten with the job.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        config: JobMasterConfig,
        now_ms: int,
        restored: tuple[LoadedCheckpoint, ...] = (),
    ) -> None:
        self.job_graph = job_graph
        self.job_id = job_graph.job_id
        self.config = config
        self.story = Story()
        self.phase = JobPhase.STORING
        self.status = JobStatus.INITIALIZING
        self.timestamps_ms = {JobStatus.INITIALIZING.value: now_ms}
        self.error: ErrorInfo | None = None
        self.graph = ExecutionGraph(job_graph, now_ms, self.story)
        self.regions = regions_of(self.graph)
        self.slots = SlotPool(slots_needed(job_graph))
        self._region_of = {s: region for region in self.regions for s in region.subtasks}
        self._sources = JobSources(job_graph, config.enumerates)
        make_strategy = config.restart_strategy
        if job_graph.is_query:
            # Rows that were sent cannot be recalled, and those of another attempt would come after them.
            self._restarts: RestartStrategy = NoRestart()
        elif make_strategy:
            self._restarts = make_strategy()
        else:
            self._restarts = restart_strategy_of(job_graph.config, job_graph.job_id)
        self.restarts = RestartHistory()
        self._descriptors: dict[str, TaskDeploymentDescriptor] = {}
        self._instructions: list[JobMasterInstruction] = []
        self._output = JobOutput(self.graph, self._emit)
        self._settings = checkpoint_settings(job_graph, config.checkpoint_directory)
        self.checkpoints = JobCheckpoints(
            self._settings,
            self.graph,
            self._output.commits,
            self._sources,
            self._emit,
            self.story,
            now_ms,
            restored_checkpoints(restored, job_graph, self._settings.directory),
        )
        # Where the savepoint is with which the job ends.
        self._savepoint_path = ""
        self._going_back_to: CompletedCheckpoint | None = None
        # Whether the job ends with a savepoint.
        self._is_stopped = False
        # Whether it was cancelled when only its last commits were left.
        self._is_cancelled_late = False
        self._slots_deadline_ms = 0
        self._metrics_requested_ms = 0

    def handle(self, event: JobMasterEvent, now_ms: int) -> list[JobMasterInstruction]:
        """Take one event in and return the instructions. InternalError when the machine's own rules are broken."""
        self._instructions = []
        handler = TRANSITIONS[self.phase].get(type(event))
        if handler is not None:
            handler(self, event, now_ms)
            self._advance(now_ms)
        self.check()
        return self._instructions

    def is_settled(self) -> bool:
        """Whether a Tick changes nothing: all tasks are deployed, and none has to end."""
        is_deployed = self.phase in (JobPhase.DEPLOYING, JobPhase.RUNNING)
        is_waiting = (
            self.checkpoints.is_pending or self.checkpoints.requests.are_waiting or self._output.retry_ms
        )
        return is_deployed and not is_waiting and all(e.state in _SETTLED for e in self.graph.executions())

    def due_ms(self) -> int | None:
        """When a Tick has something to do although the job is settled."""
        return self.checkpoints.due_ms() if self.phase is JobPhase.RUNNING else None

    def check(self) -> None:
        """Check the invariants that hold after every step; InternalError with the story when one is broken."""
        problem = broken_rule(
            self.phase, self.status, self.error, self.graph, self.regions, self._is_stopped
        ) or broken_rule_of_checkpoints(self.checkpoints, self._output.commits)
        if problem:
            raise InternalError(f"job {self.job_id} {problem}", story=self.story.lines())

    # --- how far the job gets

    def _advance(self, now_ms: int) -> None:
        """Go on as far as the present state allows."""
        if self.phase in ACTIVE:
            self._advance_regions(now_ms)
        if self.phase in ACTIVE or self.phase is JobPhase.COMMITTING:
            self._output.commit_next(now_ms)
        if self.phase is JobPhase.COMMITTING and not self._output.commits.open:
            self._clean_up(now_ms)
        if self.phase in _ENDING_TASKS and self.graph.are_all_terminal() and not self.checkpoints.is_storing:
            # What belongs to a completed checkpoint is committed also when the job ends otherwise.
            self._output.commit_next(now_ms)
            if self._output.is_settled:
                self._end_output(now_ms)

    def _advance_regions(self, now_ms: int) -> None:
        for region in self.regions:
            if region.phase is RegionPhase.STOPPING and region.are_all_terminal():
                region.phase = RegionPhase.DELAYED
            is_due = region.phase is RegionPhase.DELAYED and now_ms >= region.restart_ms
            if is_due and self._going_back_to is None and not self.checkpoints.is_storing:
                self._start_anew(region, now_ms)
            if region.phase is RegionPhase.DEPLOYED and region.are_all(ExecutionState.FINISHED):
                region.phase = RegionPhase.FINISHED
        if self._going_back_to is not None:
            self._go_back(self._going_back_to, now_ms)
        waiting = self._waiting_regions()
        if waiting and self.slots.is_complete and self._sources.are_discovered:
            self._deploy(waiting, now_ms)
        target = self._active_phase()
        if target is not self.phase:
            self._transition(target, now_ms)
        if target is JobPhase.COMMITTING:
            self._output.commit_last()

    def _active_phase(self) -> JobPhase:
        """The phase that follows from those of the regions."""
        if all(r.phase is RegionPhase.FINISHED for r in self.regions) and not self.checkpoints.is_storing:
            return JobPhase.COMMITTING
        if any(r.is_under_restart for r in self.regions):
            return JobPhase.RESTARTING
        if self._waiting_regions():
            return JobPhase.SCHEDULING
        is_starting = any(e.state in _STARTING for e in self.graph.executions())
        return JobPhase.DEPLOYING if is_starting else JobPhase.RUNNING

    # --- slots and deployment

    def _on_stored(self, event: JobStored, now_ms: int) -> None:
        self._transition(JobPhase.CREATED, now_ms)
        self._transition(JobPhase.SCHEDULING, now_ms)
        for execution in self.graph.executions():
            execution.transition(ExecutionState.SCHEDULED, now_ms)
        self._go_on_from_restored(now_ms)
        self._request_slots(now_ms)
        self._instructions += self._sources.start()

    def _go_on_from_restored(self, now_ms: int) -> None:
        """From what another JobManager, or another job, has saved: its commits are repeated first."""
        restored = self.checkpoints.completed.newest
        if restored is None:
            return
        self._output.is_unclean = True
        for checkpoint_id, saved in commits_by_checkpoint(restored.manifest, self.job_graph).items():
            self._output.repeat(checkpoint_id, saved)
        self._restore_sources(restored)
        for subtask in self.graph.subtasks():
            self._restore(subtask, restored)
        self.checkpoints.restored(restored, now_ms)
        self.story.add(now_ms, f"job {self.job_id} goes on from {restored.path}")

    def _restore_sources(self, checkpoint: CompletedCheckpoint) -> None:
        manifest, job = checkpoint.manifest, self.job_graph
        states = source_states(manifest, job)
        self._sources.restore(manifest.checkpoint_id, enumerators_of(manifest, job), states)

    def _restore(self, subtask: ExecutionVertex, checkpoint: CompletedCheckpoint | None) -> None:
        """The attempt, which is not deployed yet, goes on from this checkpoint. What a finished subtask left for the end of the
        job stands in it."""
        if checkpoint is None:
            return
        execution, vertex_id = subtask.execution, subtask.vertex.id
        execution.restored_id = checkpoint.checkpoint_id
        execution.add_committables(checkpoint.committables_of(vertex_id, subtask.subtask), 0)

    def _request_slots(self, now_ms: int) -> None:
        self._slots_deadline_ms = now_ms + self.config.slot_request_timeout_ms
        self._instructions.append(RequestSlots(self.job_id, self.slots.needed, self.job_graph.is_on_spark))

    def _on_slots_offered(self, event: SlotsOffered, now_ms: int) -> None:
        accepted = []
        for offer in event.offers:
            if self.slots.offer(event.task_manager_id, event.address, offer):
                accepted.append(offer.allocation_id)
            else:
                self._send(event.address, FreeSlot(event.task_manager_id, offer.allocation_id))
        if accepted:
            self._send(event.address, AcceptSlots(event.task_manager_id, self.job_id, tuple(accepted)))

    def _refuse_slots(self, event: SlotsOffered, now_ms: int) -> None:
        for offer in event.offers:
            self._send(event.address, FreeSlot(event.task_manager_id, offer.allocation_id))

    def _deploy(self, regions: Iterable[PipelinedRegion], now_ms: int) -> None:
        self._instructions.append(WithdrawRequest(self.job_id))
        assignment = assign_slots(self.job_graph, self.slots.slots())
        subtasks = [s for region in regions for s in region.subtasks]
        for s in subtasks:
            slot = assignment[s.vertex.id, s.subtask]
            s.execution.task_manager_id, s.execution.address = slot.task_manager_id, slot.address
            s.execution.allocation_id = slot.allocation_id
        restored = self.checkpoints.completed.newest
        self._descriptors |= describe_tasks(
            self.graph,
            subtasks,
            Deployment(
                self.config.result_address,
                self._sources.first,
                self._settings.directory if self._settings.is_enabled else "",
                restored,
            ),
        )
        for region in regions:
            region.phase = RegionPhase.DEPLOYED
        for s in subtasks:
            s.execution.transition(ExecutionState.DEPLOYING, now_ms)
            self._send_deployment(s.execution, now_ms)

    def _send_deployment(self, execution: Execution, now_ms: int) -> None:
        execution.sent_ms = now_ms
        descriptor = self._descriptors[execution.execution_id]
        self._send(execution.address, DeployTask(execution.task_manager_id, descriptor))

    # --- splits

    def _on_splits_discovered(self, event: SplitsDiscovered, now_ms: int) -> None:
        for subtask, number, assigned in self._sources.on_discovered(event):
            execution = self.graph.vertices[event.vertex_id][subtask].execution
            self._send_splits(execution, number, assigned)

    def _on_discovery_failed(self, event: DiscoveryFailed, now_ms: int) -> None:
        error = self._sources.on_failed(event)
        readers = self.graph.vertices[event.vertex_id]
        self._on_failure(error, list(dict.fromkeys(self._region_of[s] for s in readers)), now_ms)

    def _on_splits_requested(self, event: SplitsRequested, now_ms: int) -> None:
        request = event.request
        subtask = self.graph.find(request.execution_id)
        if subtask is None or subtask.execution.task_manager_id != request.task_manager_id:
            return
        assigned, give_back = self._sources.on_request(subtask, request)
        if give_back is not None:
            self._instructions.append(give_back)
        if assigned is not None:
            self._send_splits(subtask.execution, request.number, assigned)

    def _send_splits(self, execution: Execution, number: int, assigned: AssignedSplits) -> None:
        message = AssignSplits(execution.task_manager_id, execution.execution_id, number, assigned)
        self._send(execution.address, message)

    # --- tasks

    def _on_task_state(self, event: TaskStateChanged, now_ms: int) -> None:
        update = event.update
        subtask = self.graph.find(update.execution_id)
        execution = subtask.execution if subtask else self.graph.find_earlier(update.execution_id)
        if execution is None or execution.task_manager_id != update.task_manager_id:
            return
        ack = TaskStateAck(update.task_manager_id, update.execution_id, update.sequence)
        self._send(execution.address, ack)
        if subtask is None or update.sequence <= execution.last_sequence or execution.is_terminal:
            return
        execution.last_sequence = update.sequence
        execution.metrics = update.metrics or execution.metrics
        completed_id = self.checkpoints.coordinator.newest_completed_id
        if update.state is ExecutionState.FINISHED:
            execution.add_committables(update.committables, completed_id)
        was_cancelling = execution.state is ExecutionState.CANCELING
        execution.follow(update.state, now_ms)
        if execution.state is ExecutionState.FAILED:
            execution.error = update.error or _no_cause(subtask)
            self._on_task_failure(subtask, execution.error, now_ms)
        elif update.state is ExecutionState.CANCELED and not was_cancelling:
            self._on_task_failure(subtask, _cancelled_elsewhere(subtask), now_ms)
        elif execution.state is ExecutionState.FINISHED:
            self.checkpoints.on_finished(execution.execution_id, now_ms)

    def _on_task_failure(self, subtask: ExecutionVertex, error: ErrorInfo, now_ms: int) -> None:
        if error.reason is FailureReason.CHECKPOINT_CORRUPT and subtask.execution.restored_id:
            self._fall_back(subtask, error, now_ms)
        else:
            self._on_failure(error, [self._region_of[subtask]], now_ms, task_name(subtask))

    def _on_metrics(self, event: MetricsReceived, now_ms: int) -> None:
        for metrics in event.metrics:
            subtask = self.graph.find(metrics.execution_id)
            # The last figures of an ended task came with its final state; this delayed report is older.
            if subtask is not None and not subtask.execution.is_terminal:
                subtask.execution.metrics = metrics

    def _request_metrics(self, event: MetricsRequested, now_ms: int) -> None:
        if now_ms - self._metrics_requested_ms < METRICS_REQUEST_INTERVAL_MS:
            return
        self._metrics_requested_ms = now_ms
        running = (e for e in self.graph.executions() if e.state is ExecutionState.RUNNING)
        for task_manager_id, address in dict.fromkeys((e.task_manager_id, e.address) for e in running):
            self._send(address, RequestMetrics(task_manager_id))

    def _on_task_manager_lost(self, event: TaskManagerLost, now_ms: int) -> None:
        self.slots.remove_task_manager(event.task_manager_id)
        placed = [s for s in self.graph.subtasks() if s.execution.task_manager_id == event.task_manager_id]
        if placed:
            self._replace_broken_connection(event.error)
        hit = [s for s in placed if not s.execution.is_terminal]
        for s in hit:
            if s.execution.state is ExecutionState.CANCELING:
                s.execution.transition(ExecutionState.CANCELED, now_ms)
            else:
                s.execution.error = event.error
                s.execution.transition(ExecutionState.FAILED, now_ms)
        if hit:
            # It has not cleaned up after its tasks.
            self._output.is_unclean = True
            self._on_failure(event.error, list(dict.fromkeys(self._region_of[s] for s in hit)), now_ms)

    # --- checkpoints

    def _on_acknowledged(self, event: CheckpointAcknowledged, now_ms: int) -> None:
        ack = event.acknowledgement
        subtask = self.graph.find(ack.execution_id)
        if subtask is None or subtask.execution.is_terminal:
            # A finished attempt has said at its end what it wrote, and all of that may be committed. What others wrote is removed
            # with all that their job has staged.
            has_finished = subtask is not None and subtask.execution.state is ExecutionState.FINISHED
            self._output.is_unclean |= bool(ack.committables) and not has_finished
            return
        if subtask.execution.task_manager_id != ack.task_manager_id:
            return
        self._after_checkpoint(self.checkpoints.acknowledge(ack, subtask.execution, now_ms), now_ms)

    def _on_declined(self, event: CheckpointDeclined, now_ms: int) -> None:
        decline = event.decline
        subtask = self.graph.find(decline.execution_id)
        if subtask is not None and subtask.execution.task_manager_id == decline.task_manager_id:
            self._after_checkpoint(self.checkpoints.decline(decline, subtask, now_ms), now_ms)

    def _on_checkpoint_stored(self, event: CheckpointStored, now_ms: int) -> None:
        completed = self.checkpoints.on_stored(event, now_ms)
        is_last = completed is not None and completed.kind is CheckpointKind.SYNC_SAVEPOINT
        if is_last:
            self._output.last_id = event.checkpoint_id
        if is_last and self.phase in ACTIVE:
            self._is_stopped, self._savepoint_path = True, event.path
            self._transition(JobPhase.STOPPING, now_ms)
            self._end_all_tasks(now_ms)

    def _on_checkpoint_store_failed(self, event: CheckpointStoreFailed, now_ms: int) -> None:
        self._after_checkpoint(self.checkpoints.on_store_failed(event, now_ms), now_ms)

    def _on_savepoint_requested(self, event: SavepointRequested, now_ms: int) -> None:
        self.checkpoints.requests.add(event)

    def _after_checkpoint(self, failure: ErrorInfo | None, now_ms: int) -> None:
        """Too many checkpoints have failed: the job starts again from the last that has not."""
        if failure is not None:
            self._on_failure(failure, self._unfinished_regions(), now_ms)

    def _unfinished_regions(self) -> list[PipelinedRegion]:
        return [r for r in self.regions if r.phase is not RegionPhase.FINISHED]

    # --- failures and restarts

    def _on_failure(
        self, error: ErrorInfo, regions: list[PipelinedRegion], now_ms: int, task: str = ""
    ) -> None:
        """Restart what the failure has hit, or fail the job. What fails in a region that is being ended for its restart
        follows from the first failure, and does not count."""
        self._replace_broken_connection(error)
        hit = [r for r in regions if not r.is_under_restart]
        if self.phase not in ACTIVE or not hit:
            return
        delay_ms = self._restarts.restart_after_ms(error, now_ms)
        if delay_ms is None:
            self._fail(error, now_ms)
            return
        self._restart(hit, error, delay_ms, now_ms, task)

    def _restart(
        self, hit: list[PipelinedRegion], error: ErrorInfo, delay_ms: int, now_ms: int, task: str
    ) -> None:
        self.story.add(
            now_ms,
            f"job {self.job_id} restarts {len(hit)} of {len(self.regions)} regions in {delay_ms} ms: "
            f"{error.code} {error.message}",
        )
        self.restarts.add(error, task, now_ms)
        self.checkpoints.break_off("a task has failed", now_ms)
        if self.phase is not JobPhase.RESTARTING:
            self._transition(JobPhase.RESTARTING, now_ms)
        for region in hit:
            region.phase, region.restart_ms = RegionPhase.STOPPING, now_ms + delay_ms
            self._end_tasks((s.execution for s in region.subtasks), now_ms)

    def _fall_back(self, subtask: ExecutionVertex, error: ErrorInfo, now_ms: int) -> None:
        """The checkpoint that an attempt went on from cannot be read: the whole job goes back to the one before, unless what
        sinks have committed since then would be written again."""
        corrupt_id = subtask.execution.restored_id
        is_found = self.checkpoints.mark_unusable(corrupt_id, error, now_ms)
        older = self.checkpoints.completed.newest
        hit = [r for r in self._unfinished_regions() if not r.is_under_restart]
        # Also a job whose regions are all under restart, for another reason, would go on from the older one.
        if self.phase not in ACTIVE or not (is_found or hit):
            return
        if older is None or not self._can_go_back(older):
            self._fail(error, now_ms)
            return
        self.story.add(now_ms, f"job {self.job_id} goes back to checkpoint {older.checkpoint_id}")
        self._going_back_to = older
        self._output.withdraw(older.checkpoint_id)
        if hit:
            self._restart(hit, error, 0, now_ms, task_name(subtask))

    def _can_go_back(self, older: CompletedCheckpoint) -> bool:
        """Whether no sink has committed what would be written again, and no part of the job has finished since."""
        finished = (s for r in self.regions if r.phase is RegionPhase.FINISHED for s in r.subtasks)
        return self._output.commits.newest_begun_id <= older.checkpoint_id and all(
            older.has_finished(s.vertex.id, s.subtask) for s in finished
        )

    def _go_back(self, older: CompletedCheckpoint, now_ms: int) -> None:
        """Start the whole job again from an older checkpoint than the newest that was complete, once no task runs any more."""
        hit = self._unfinished_regions()
        if self.checkpoints.is_storing or any(r.phase is not RegionPhase.DELAYED for r in hit):
            return
        self._going_back_to = None
        self._restore_sources(older)
        for region in hit:
            self._start_anew(region, now_ms)
        self._instructions += self._sources.start()

    def _start_anew(self, region: PipelinedRegion, now_ms: int) -> None:
        checkpoint = self.checkpoints.completed.newest
        self.restarts.went_on(checkpoint.checkpoint_id if checkpoint is not None else 0)
        if checkpoint is not None:
            self.checkpoints.restored(checkpoint, now_ms)
        for s in region.subtasks:
            self._descriptors.pop(s.execution.execution_id, None)
            restored = checkpoint.committables_of(s.vertex.id, s.subtask) if checkpoint is not None else ()
            self._output.discard(s, restored)
            restore = checkpoint.restore_of(s.vertex.id, s.subtask) if checkpoint is not None else None
            if (enumerator := self._sources.start_anew(s, restore)) is not None:
                self._instructions.append(enumerator)
            self.graph.start_anew(s, now_ms)
            self._restore(s, checkpoint)
            s.execution.transition(ExecutionState.SCHEDULED, now_ms)
        self.checkpoints.discarded()
        region.phase = RegionPhase.WAITING
        if not self.slots.is_complete:
            self._request_slots(now_ms)

    def _fail(self, error: ErrorInfo, now_ms: int) -> None:
        self.story.add(now_ms, f"job {self.job_id} fails: {error.code} {error.message}")
        self.error = error
        self.checkpoints.break_off("the job fails", now_ms)
        self._transition(JobPhase.FAILING, now_ms)
        self._end_all_tasks(now_ms)

    def _replace_broken_connection(self, error: ErrorInfo) -> None:
        """A failed producer breaks its consumers' connections, and their failures may be reported first."""
        is_effect = self.error is not None and self.error.reason is FailureReason.PARTITION_LOST
        if is_effect and error.reason is not FailureReason.PARTITION_LOST:
            self.error = error

    def _on_no_task_manager_left(self, event: NoTaskManagerLeft, now_ms: int) -> None:
        self._on_failure(event.error, self._waiting_regions(), now_ms)

    def _waiting_regions(self) -> list[PipelinedRegion]:
        return [r for r in self.regions if r.phase is RegionPhase.WAITING]

    # --- ending

    def _on_store_failed(self, event: JobStoreFailed, now_ms: int) -> None:
        """The job could not be stored, so it does not run."""
        self.error = event.error
        self._end_all_tasks(now_ms)
        self._finish(JobPhase.FAILED, now_ms)

    def _on_cancel(self, event: CancelRequested, now_ms: int) -> None:
        self.checkpoints.break_off("the job is cancelled", now_ms)
        self._transition(JobPhase.CANCELLING, now_ms)
        self._end_all_tasks(now_ms)

    def _on_late_cancel(self, event: CancelRequested, now_ms: int) -> None:
        """Nothing but commits is left, which may succeed; one that fails is not repeated any more."""
        self._is_cancelled_late = True
        if self._output.retry_ms is not None and self._output.retry_error is not None:
            self._give_up_commits(self._output.retry_error, now_ms)

    def _on_suspend(self, event: SuspendRequested, now_ms: int) -> None:
        """Leave the job to another JobManager. Its tasks are told to end, and nobody waits until they have."""
        self._end_all_tasks(now_ms)
        self._finish(JobPhase.SUSPENDED, now_ms)

    def _end_all_tasks(self, now_ms: int) -> None:
        self._instructions.append(WithdrawRequest(self.job_id))
        self._end_tasks(self.graph.executions(), now_ms)

    def _end_tasks(self, executions: Iterable[Execution], now_ms: int) -> None:
        # A task may have prepared a commit for a checkpoint, and not be heard any more.
        self._output.is_unclean |= self.checkpoints.coordinator.history.counts.total > 0
        for execution in executions:
            if execution.state in _NOT_YET_DEPLOYED:
                execution.transition(ExecutionState.CANCELED, now_ms)
            elif not execution.is_terminal and execution.state is not ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELING, now_ms)
                self._send_cancel(execution, now_ms)

    def _send_cancel(self, execution: Execution, now_ms: int) -> None:
        execution.sent_ms = now_ms
        self._send(
            execution.address, CancelTask(execution.task_manager_id, self.job_id, execution.execution_id)
        )

    def _on_committed(self, event: SinksCommitted, now_ms: int) -> None:
        if self._output.commits.committed(event.checkpoint_id):
            self.checkpoints.requests.committed(event.checkpoint_id)

    def _clean_up(self, now_ms: int) -> None:
        if self._output.remove_leftovers():
            self._transition(JobPhase.CLEANING_UP, now_ms)
        else:
            self._finish(JobPhase.FINISHED, now_ms)

    def _on_commit_failed(self, event: SinksCommitFailed, now_ms: int) -> None:
        """Repeat the commit, unless the job fails for it, or is over anyway."""
        if not self._output.commits.failed(event.checkpoint_id):
            return
        is_ending = self.phase in (JobPhase.FAILING, JobPhase.CANCELLING)
        is_given_up = is_ending or self._is_cancelled_late
        delay_ms = None if is_given_up else self._restarts.restart_after_ms(event.error, now_ms)
        if delay_ms is not None:
            self.story.add(now_ms, f"the commit of {event.checkpoint_id} is repeated in {delay_ms} ms")
            self.restarts.add(event.error, "", now_ms)
            self._output.retry_ms, self._output.retry_error = now_ms + delay_ms, event.error
            return
        self._give_up_commits(event.error, now_ms)

    def _give_up_commits(self, error: ErrorInfo, now_ms: int) -> None:
        # All of them are aborted: a sink that was committed before the one that failed must not stay visible.
        self._output.is_unclean = self._output.is_given_up = True
        if self.phase not in (JobPhase.FAILING, JobPhase.CANCELLING):
            self._fail(error, now_ms)

    def _on_cleaned_up(self, event: SinksAborted, now_ms: int) -> None:
        self._finish(JobPhase.FINISHED, now_ms)

    def _end_output(self, now_ms: int) -> None:
        """All tasks have ended before the job was done, and all that is complete is committed, or cannot be."""
        if self.phase is JobPhase.STOPPING:
            self._clean_up(now_ms)
            return
        if not self.output_kept_for() and self._output.remove_leftovers():
            self._transition(JobPhase.ABORTING, now_ms)
        else:
            self._end_unfinished(None, now_ms)

    def output_kept_for(self) -> tuple[str, ...]:
        """The checkpoints and the savepoint that stay when the job ends as its status says, and that have rows to commit: those
        rows must not be removed."""
        if not self._output.commits.open:
            return ()
        kept = (self._savepoint_path,) if self._is_stopped else ()
        if self._settings.is_enabled and self._settings.retention.keeps(self.status):
            kept = (*kept, self._settings.directory)
        return kept

    def _end_unfinished(self, event: SinksAborted | None, now_ms: int) -> None:
        is_failure = self.status is JobStatus.FAILING
        self._finish(JobPhase.FAILED if is_failure else JobPhase.CANCELED, now_ms)

    def _finish(self, phase: JobPhase, now_ms: int) -> None:
        self._transition(phase, now_ms)
        self.checkpoints.end(self.status)
        self.slots.clear()
        if not self._sources.is_empty:
            self._instructions.append(StopEnumerators(self.job_id))
        self._instructions.append(ReleaseSlots(self.job_id))
        self._instructions.append(JobFinished(self.job_id, self.status, self.error))

    # --- time

    def _on_tick(self, event: Tick, now_ms: int) -> None:
        waiting = self._waiting_regions()
        if waiting and not self.slots.is_complete and now_ms >= self._slots_deadline_ms:
            self._on_failure(self._no_slots(), waiting, now_ms)
        self._after_checkpoint(self.checkpoints.expire(now_ms), now_ms)
        if self.phase is JobPhase.RUNNING:
            self.checkpoints.resend(now_ms, self.config.resend_ms)
            self.checkpoints.begin_due(now_ms)
        self._give_up_tasks(now_ms)
        for execution in self.graph.executions():
            if now_ms - execution.sent_ms < self.config.resend_ms:
                continue
            if execution.state is ExecutionState.DEPLOYING:
                self._send_deployment(execution, now_ms)
            elif execution.state is ExecutionState.CANCELING:
                self._send_cancel(execution, now_ms)

    def _give_up_tasks(self, now_ms: int) -> None:
        lost: dict[str, None] = {}
        for execution in self.graph.executions():
            since_ms = execution.timestamps_ms.get(ExecutionState.CANCELING.value, now_ms)
            is_late = now_ms - since_ms >= self.config.cancellation_timeout_ms
            if execution.state is ExecutionState.CANCELING and is_late:
                self.story.add(now_ms, f"{execution.execution_id} did not end in time and is given up")
                lost[execution.task_manager_id] = None
                execution.transition(ExecutionState.FAILED, now_ms)

        # The stuck task still uses its slot, so no other task may get it: the TaskManager has to restart.
        self._output.is_unclean = self._output.is_unclean or bool(lost)
        for task_manager_id in lost:
            self.slots.remove_task_manager(task_manager_id)
            self._instructions.append(GiveUpTaskManager(task_manager_id))

    def _no_slots(self) -> ErrorInfo:
        seconds = self.config.slot_request_timeout_ms / 1000
        return ErrorInfo(
            code="SS6003",
            message=f"job needs {self.slots.needed} slots and got {len(self.slots)} within {seconds:g} s",
            reason=FailureReason.NO_RESOURCES,
            hint="start more TaskManagers, raise taskmanager.numberOfTaskSlots or lower parallelism.default",
        )

    # --- small things

    def _emit(self, instruction: JobMasterInstruction) -> None:
        self._instructions.append(instruction)

    def _send(self, address: str, message: ToTaskManager) -> None:
        self._emit(Send(address, message))

    def _transition(self, target: JobPhase, now_ms: int) -> None:
        check_phase_transition(self.phase, target, self.job_id, self.story)
        self.story.add(now_ms, f"job {self.job_id} {self.phase.value} -> {target.value}")
        status = status_in(target, self.status)
        if status is not self.status:
            self.timestamps_ms[status.value] = now_ms
        self.phase, self.status = target, status


def _no_cause(subtask: ExecutionVertex) -> ErrorInfo:
    return ErrorInfo(
        code="SS9001",
        message="a task failed without reporting a cause",
        reason=FailureReason.INTERNAL,
        vertex=subtask.vertex.name,
        attempt=subtask.execution.attempt,
    )


def _cancelled_elsewhere(subtask: ExecutionVertex) -> ErrorInfo:
    return ErrorInfo(
        code="SS6011",
        message="a task was cancelled by its TaskManager, not by its job",
        reason=FailureReason.TASK_MANAGER_LOST,
        vertex=subtask.vertex.name,
        attempt=subtask.execution.attempt,
    )


_FOLLOWING: dict[type, Handler] = {
    TaskStateChanged: JobMaster._on_task_state,
    MetricsReceived: JobMaster._on_metrics,
    MetricsRequested: JobMaster._request_metrics,
    TaskManagerLost: JobMaster._on_task_manager_lost,
    SuspendRequested: JobMaster._on_suspend,
    Tick: JobMaster._on_tick,
    CheckpointAcknowledged: JobMaster._on_acknowledged,
    CheckpointDeclined: JobMaster._on_declined,
    CheckpointStored: JobMaster._on_checkpoint_stored,
    CheckpointStoreFailed: JobMaster._on_checkpoint_store_failed,
    SavepointRequested: JobMaster._on_savepoint_requested,
    SinksCommitted: JobMaster._on_committed,
    SinksCommitFailed: JobMaster._on_commit_failed,
}
"""What every phase does in which there may be tasks."""

_ACTIVE: dict[type, Handler] = {
    **_FOLLOWING,
    SlotsOffered: JobMaster._on_slots_offered,
    SplitsDiscovered: JobMaster._on_splits_discovered,
    DiscoveryFailed: JobMaster._on_discovery_failed,
    SplitsRequested: JobMaster._on_splits_requested,
    CancelRequested: JobMaster._on_cancel,
}

_ENDING: dict[type, Handler] = {**_FOLLOWING, SlotsOffered: JobMaster._refuse_slots}

TRANSITIONS: dict[JobPhase, dict[type, Handler]] = {
    JobPhase.STORING: {
        JobStored: JobMaster._on_stored,
        JobStoreFailed: JobMaster._on_store_failed,
        CancelRequested: JobMaster._on_cancel,
        SuspendRequested: JobMaster._on_suspend,
        SavepointRequested: JobMaster._on_savepoint_requested,
    },
    JobPhase.CREATED: {},
    JobPhase.SCHEDULING: {**_ACTIVE, NoTaskManagerLeft: JobMaster._on_no_task_manager_left},
    JobPhase.DEPLOYING: _ACTIVE,
    JobPhase.RUNNING: _ACTIVE,
    JobPhase.RESTARTING: {**_ACTIVE, NoTaskManagerLeft: JobMaster._on_no_task_manager_left},
    JobPhase.STOPPING: {**_ENDING, CancelRequested: JobMaster._on_late_cancel},
    JobPhase.COMMITTING: {**_ENDING, CancelRequested: JobMaster._on_late_cancel},
    JobPhase.CLEANING_UP: {**_ENDING, SinksAborted: JobMaster._on_cleaned_up},
    JobPhase.FAILING: _ENDING,
    JobPhase.CANCELLING: _ENDING,
    JobPhase.ABORTING: {**_ENDING, SinksAborted: JobMaster._end_unfinished},
    JobPhase.FINISHED: {},
    JobPhase.FAILED: {},
    JobPhase.CANCELED: {},
    JobPhase.SUSPENDED: {},
}
"""What an event does in a phase. An event that is not listed changes nothing: it comes late, or twice."""
