"""The checkpoints of one job, from the trigger to the removal: what its JobMaster does about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobVertex
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.checkpoint_statistics import CheckpointKind, CheckpointStatistics, RestoredCheckpoint
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.ledger import JobLedger
from sqlstream.messages.manifest import CheckpointManifest, paths_of
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.checkpoints.build_manifest import build_manifest, restorable_vertices
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_coordinator import (
    CheckpointCoordinator,
    PendingCheckpoint,
    broken_off,
    expired_error,
    not_begun_error,
    task_name,
)
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import CheckpointSettings
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import (
    CompletedCheckpoint,
    CompletedCheckpoints,
)
from sqlstream.runtime.jobmanager.checkpoints.ledger import differences_of, final_states, job_ledger
from sqlstream.runtime.jobmanager.checkpoints.restored_state import rescaled_checkpoint
from sqlstream.runtime.jobmanager.checkpoints.savepoint_requests import SavepointRequests
from sqlstream.runtime.jobmanager.deployment import consumers_of
from sqlstream.runtime.jobmanager.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.sink_commits import SinkCommits, sink_commits
from sqlstream.runtime.jobmanager.sources.job_sources import JobSources
from sqlstream.runtime.story import Story
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

REMOVED_MAX = 100_000


class JobCheckpoints:
    """Triggers the checkpoints of a job, stores those that all its subtasks have acknowledged, adds their commits, tells the
    tasks, and removes what nobody goes on from any more. `emit` takes its instructions.

    Methods that end a checkpoint return the failure of the job, when the checkpoint was one failure too many.
    State: the coordinator, the completed checkpoints, the manifests that are being stored, the requests of clients, and the
    latest ledger."""

    def __init__(
        self,
        settings: CheckpointSettings,
        graph: ExecutionGraph,
        commits: SinkCommits,
        sources: JobSources,
        emit: Callable[[events.JobMasterInstruction], None],
        story: Story,
        now_ms: int,
        restored: tuple[CompletedCheckpoint, ...] = (),
    ) -> None:
        self.settings = settings
        self.completed = CompletedCheckpoints(settings.retained_max, restored)
        self.coordinator = CheckpointCoordinator(settings, now_ms, self.completed.newest_id)
        job_id = graph.job_graph.job_id
        self.requests = SavepointRequests(lambda: emit(events.StopGivenUp(job_id)))
        self._graph = graph
        self._commits = commits
        self._sources = sources
        self._emit = emit
        self._story = story
        newest = self.completed.newest
        self._restored_from = newest.path if newest else ""
        self._left_out = newest.left_out if newest else ()
        self._begun_empty = newest.begun_empty if newest else ()
        self._is_drained = newest is not None and newest.manifest.is_drained
        self._storing: dict[int, CheckpointManifest] = {}
        # The last REMOVED_MAX files, without which a checkpoint that refers to them is worth nothing.
        self._removed: dict[str, None] = {}
        self.ledger: JobLedger | None = None
        # The last one is a savepoint with which the job stops, and rows wait in it that nobody counts afterwards.
        self._holds_rows = False

    @property
    def is_storing(self) -> bool:
        """Whether it is not known yet if a checkpoint is complete: nothing may be restarted from an older one meanwhile."""
        return self.coordinator.is_storing

    @property
    def are_taken(self) -> bool:
        """Whether the job has checkpoints of its own, or will."""
        is_begun = self.coordinator.history.counts.total > 0
        own = self.settings.directory
        return self.settings.is_enabled or (
            bool(own) and (is_begun or any(c.directory == own for c in self.completed))
        )

    @property
    def is_pending(self) -> bool:
        return bool(self.coordinator.pending)

    # --- beginning

    def begin_due(self, now_ms: int) -> None:
        """Begin what is due. To be called while every task runs or has finished."""
        is_requested = self.requests.are_waiting
        # One that is asked for is taken alone, so that none begins before it.
        if self.coordinator.pending if is_requested else not self.coordinator.is_due(now_ms):
            return
        # Sinks that are slower than the checkpoints would be committed later and later.
        awaited = awaited_executions(self._graph) if not self._commits.are_waiting else None
        if awaited is not None:
            self._begin(awaited, now_ms, self.requests.next() if is_requested else None)

    def due_ms(self) -> int | None:
        """When the next checkpoint is due, were the tasks ready; None while one is pending, and without an interval."""
        return self.coordinator.due_ms()

    def _begin(
        self, awaited: dict[str, ExecutionVertex], now_ms: int, request: events.SavepointRequested | None
    ) -> None:
        if request is None:
            pending = self.coordinator.begin(awaited, now_ms)
        else:
            pending = self.coordinator.begin(
                awaited,
                now_ms,
                request.kind,
                request.trigger_id,
                request.directory,
                request.is_drain,
                request.is_last,
            )
            self.requests.begun(request.trigger_id, pending.checkpoint_id)
        self._story.add(now_ms, f"{pending.kind.value.lower()} {pending.checkpoint_id} begins")
        self._trigger(pending, now_ms)

    def resend(self, now_ms: int, resend_ms: int) -> None:
        for pending in self.coordinator.pending.values():
            if not pending.is_storing and now_ms - pending.sent_ms >= resend_ms:
                self._trigger(pending, now_ms)

    def _trigger(self, pending: PendingCheckpoint, now_ms: int) -> None:
        pending.sent_ms = now_ms
        for subtask in pending.awaited.values():
            if self._graph.job_graph.inputs_of(subtask.vertex.id):
                continue
            execution = subtask.execution
            message = rpc.TriggerCheckpoint(
                execution.task_manager_id,
                execution.execution_id,
                pending.checkpoint_id,
                pending.started_ms,
                pending.directory,
                pending.is_drain,
                self.coordinator.newest_completed_id,
                pending.is_last,
            )
            self._emit(events.Send(execution.address, message))

    # --- answers of tasks

    def acknowledge(
        self, ack: rpc.AcknowledgeCheckpoint, execution: Execution, now_ms: int
    ) -> ErrorInfo | None:
        """An answer of a present attempt. Its committables count whatever becomes of the checkpoint."""
        execution.add_committables(ack.committables, self.coordinator.newest_completed_id)
        pending = self.coordinator.pending.get(ack.checkpoint_id)
        if pending is None:
            self._tell_fate(execution, ack.checkpoint_id)
            return None
        if pending.is_storing or ack.execution_id not in pending.awaited:
            return None
        if missing := self._missing_file(ack):
            error = broken_off(f'it refers to a file that was removed: "{missing}"')
            return self.abort(pending, error, now_ms, is_counted=False)
        if self.coordinator.acknowledge(ack, now_ms):
            self._store_next(now_ms)
        return None

    def _missing_file(self, ack: rpc.AcknowledgeCheckpoint) -> str:
        """A file that is removed: the task has not heard yet of a checkpoint that was completed, and that needs it no more."""
        return next((path for path in paths_of([ack.state]) if path in self._removed), "")

    def decline(
        self, decline: rpc.DeclineCheckpoint, subtask: ExecutionVertex, now_ms: int
    ) -> ErrorInfo | None:
        pending = self.coordinator.pending.get(decline.checkpoint_id)
        if pending is None:
            self._tell_fate(subtask.execution, decline.checkpoint_id)
            return None
        if decline.execution_id not in pending.awaited:
            return None
        # A task that could not take it because of another checkpoint is not at fault.
        is_counted = decline.error.reason is not FailureReason.CANCELLED
        return self.abort(pending, decline.error, now_ms, task_name(subtask), is_counted)

    def _tell_fate(self, execution: Execution, checkpoint_id: int) -> None:
        """The answer to a message about a checkpoint that has ended: a later one that is complete says the same."""
        newest = self.coordinator.newest_completed_id
        if checkpoint_id <= newest:
            self._tell(execution, rpc.CheckpointCompleted, newest)
        else:
            self._tell(execution, rpc.CheckpointAborted, checkpoint_id)

    def _tell(
        self,
        execution: Execution,
        kind: type[rpc.CheckpointCompleted | rpc.CheckpointAborted],
        checkpoint_id: int,
        is_base_gone: bool = False,
    ) -> None:
        if execution.state is not ExecutionState.RUNNING:
            return
        ids = (execution.task_manager_id, execution.execution_id, checkpoint_id)
        earlier = tuple(n for n in self.coordinator.pending if n < checkpoint_id)
        is_aborted = kind is rpc.CheckpointAborted
        message = rpc.CheckpointAborted(*ids, earlier, is_base_gone) if is_aborted else kind(*ids)
        self._emit(events.Send(execution.address, message))

    # --- completion

    def _store_next(self, now_ms: int) -> None:
        pending = self.coordinator.store_next()
        if pending is not None:
            self._store(pending, now_ms)

    def _store(self, pending: PendingCheckpoint, now_ms: int) -> None:
        acknowledged = {
            vertex_id: tuple(pending.assignment_of(s.execution.execution_id) for s in subtasks)
            for vertex_id, subtasks in self._graph.vertices.items()
        }
        commits = dict(self._commits.open)
        if own := sink_commits(self._graph, pending.checkpoint_id, self._finished_before(pending)):
            commits[pending.checkpoint_id] = own
        enumerators = self._sources.snapshot(pending.checkpoint_id, acknowledged)
        begun_id = self._commits.newest_begun_id
        manifest = build_manifest(
            pending, self._graph, enumerators, commits, begun_id, self._restored_from, now_ms
        )
        self._storing[pending.checkpoint_id] = manifest
        directory = pending.directory or self.settings.directory
        self._emit(events.StoreCheckpoint(manifest.job_id, directory, manifest))

    def on_stored(self, event: events.CheckpointStored, now_ms: int) -> PendingCheckpoint | None:
        """The checkpoint that is complete; None for an answer that comes twice."""
        manifest = self._storing.pop(event.checkpoint_id, None)
        if manifest is None:
            return None
        completed = self._complete(event, manifest, now_ms)
        self._store_next(now_ms)
        return completed

    def _complete(
        self, event: events.CheckpointStored, manifest: CheckpointManifest, now_ms: int
    ) -> PendingCheckpoint:
        pending = self.coordinator.complete(event.checkpoint_id, now_ms, event.path)
        self._balance({v.vertex_id: v.subtasks for v in manifest.vertices}, event.checkpoint_id, now_ms)
        self._holds_rows = pending.kind is CheckpointKind.SYNC_SAVEPOINT and not pending.is_drain
        self._story.add(now_ms, f"{pending.kind.value.lower()} {event.checkpoint_id} is complete")
        if done_with := self._done_with(pending, manifest):
            self.requests.stored(pending.trigger_id, done_with, event.path)
        else:
            self.requests.completed(pending.trigger_id, event.path)
        if pending.kind is CheckpointKind.SAVEPOINT:
            # What it has saved belongs to the user: the next checkpoint has the same changes, and brings their commit.
            self._sources.forget(event.checkpoint_id)
            self._tell_all(rpc.CheckpointAborted, event.checkpoint_id)
            if done_with or self.settings.is_enabled:
                self.coordinator.hurry(now_ms)
            return pending
        self._sources.on_completed(event.checkpoint_id)
        self._add_commits(pending)
        self._tell_all(rpc.CheckpointCompleted, event.checkpoint_id)
        if not pending.kind.is_savepoint:
            self._keep(manifest, event.path)
            for older in self.coordinator.subsumed(event.checkpoint_id):
                self.abort(
                    older, broken_off("a later checkpoint was completed before it"), now_ms, is_counted=False
                )
        return pending

    def _balance(self, states: Mapping[str, Sequence[SubtaskState]], checkpoint_id: int, now_ms: int) -> None:
        """Whether the rows up to this checkpoint add up, 0: to the end of the job. What does not is noted when it changes."""
        before = differences_of(self.ledger)
        self.ledger = job_ledger(self._graph.job_graph, states, checkpoint_id, now_ms) or self.ledger
        for operator_id, difference in differences_of(self.ledger).items():
            if before.get(operator_id) != difference:
                when = f"at checkpoint {checkpoint_id}" if checkpoint_id else "at its end"
                said = f"the rows of the job do not add up {when}: {difference}"
                self._story.add(now_ms, said)
                self._emit(events.Noted(said, self._graph.job_graph.job_id))

    def _balance_end(self, now_ms: int) -> None:
        states = None if self._holds_rows else final_states(self._graph)
        if states is not None:
            self._balance(states, 0, now_ms)

    def _done_with(self, pending: PendingCheckpoint, manifest: CheckpointManifest) -> int:
        """The checkpoint with whose commit all is visible that this one has to commit; 0 when all is already."""
        if pending.kind is CheckpointKind.SYNC_SAVEPOINT:
            return LAST_CHECKPOINT_ID
        if any(c.checkpoint_id == pending.checkpoint_id for c in manifest.commits):
            return pending.checkpoint_id
        return max(self._commits.open, default=0)

    def discarded(self) -> None:
        """What a part of the job has written for no open commit is discarded."""
        error = broken_off("a task has failed before the rows of the savepoint were committed")
        self.requests.discarded(max(self._commits.open, default=0), error)

    def _finished_before(self, pending: PendingCheckpoint) -> frozenset[str]:
        """The attempts that had ended when it began: what they wrote for the end of the job is committed with it, as nobody that
        goes on from it has those rows any more."""
        ids = (e.execution_id for e in self._graph.executions())
        return frozenset(i for i in ids if i not in pending.acknowledged)

    def _add_commits(self, pending: PendingCheckpoint) -> None:
        finished = self._finished_before(pending)
        if commits := sink_commits(self._graph, pending.checkpoint_id, finished):
            self._commits.add(pending.checkpoint_id, commits)
        for execution in self._graph.executions():
            is_finished = execution.execution_id in finished
            execution.drop_committables(LAST_CHECKPOINT_ID if is_finished else pending.checkpoint_id)

    def _keep(self, manifest: CheckpointManifest, path: str) -> None:
        directory = self.settings.directory
        kept = CompletedCheckpoint(manifest, directory, path, restorable_vertices(manifest))
        for subsumed in self.completed.add(kept):
            needed = self._needed(subsumed.directory) if subsumed.directory == directory else None
            if needed is not None:
                self._note_removed(subsumed.manifest.paths() - needed)
            self._emit(
                events.DiscardCheckpoint(
                    manifest.job_id, subsumed.directory, subsumed.manifest, needed, manifest.config
                )
            )
            self.coordinator.history.discarded(subsumed.checkpoint_id)

    def _note_removed(self, paths: Iterable[str]) -> None:
        self._removed |= dict.fromkeys(paths)
        excess = len(self._removed) - REMOVED_MAX
        for forgotten in list(itertools.islice(self._removed, max(0, excess))):
            del self._removed[forgotten]

    def _needed(self, directory: str) -> frozenset[str]:
        pending = [p.paths() for p in self.coordinator.pending.values()]
        return self.completed.needed_paths(directory).union(*pending)

    def on_store_failed(self, event: events.CheckpointStoreFailed, now_ms: int) -> ErrorInfo | None:
        if self._storing.pop(event.checkpoint_id, None) is None:
            return None
        self._sources.forget(event.checkpoint_id)
        pending = self.coordinator.pending[event.checkpoint_id]
        if event.error.reason is FailureReason.CHECKPOINT_CORRUPT and not pending.kind.is_savepoint:
            self._begin_whole(pending, event.error, now_ms)
            failure = None
        else:
            failure = self.abort(pending, event.error, now_ms)
        if failure is None:
            self._store_next(now_ms)
        return failure

    def _begin_whole(self, pending: PendingCheckpoint, error: ErrorInfo, now_ms: int) -> None:
        """Files of earlier checkpoints are gone, so that no increment can follow them. A restart of the job would need them, so
        this is no failure that counts: the next checkpoint is whole, and comes soon."""
        said = f"checkpoint {pending.checkpoint_id} is given up, and the next one is whole: {error.line}"
        self._emit(events.Noted(said, self._graph.job_graph.job_id))
        self.abort(pending, error, now_ms, is_counted=False, is_base_gone=True)
        self.coordinator.hurry(now_ms)

    # --- abortion

    def expire(self, now_ms: int) -> ErrorInfo | None:
        failure, overdue_ms = None, now_ms - self.settings.timeout_ms
        expired = self.coordinator.expired(now_ms)
        for pending in expired:
            error = expired_error(pending, self.settings.timeout_ms)
            failure = self.abort(pending, error, now_ms, pending.first_missing()) or failure
        # A request that waited for one of those can begin now.
        for request in () if expired else self.requests.overdue(overdue_ms):
            self.requests.failed(request.trigger_id, self._not_begun(request.kind))
        return failure

    def _not_begun(self, kind: CheckpointKind) -> ErrorInfo:
        if self._commits.open:
            cause = "the commit of an earlier one is not done"
            hint = "look at the failures of the job for what its sinks cannot commit, and ask again once they can"
        elif self.is_pending:
            cause = "an earlier one was not complete"
            hint = "look for the slow task in SHOW CHECKPOINTS, and ask again once that one is complete"
        else:
            cause, hint = obstacle(self._graph)
        return not_begun_error(kind, self.settings.timeout_ms, cause, hint)

    def break_off(self, cause: str, now_ms: int) -> None:
        """Something else has ended all pending checkpoints, but those that are being stored."""
        for pending in [p for p in self.coordinator.pending.values() if not p.is_storing]:
            self.abort(pending, broken_off(cause), now_ms, is_counted=False)

    def on_finished(self, execution_id: str, now_ms: int) -> None:
        """A task that ends before it has acknowledged sends no barrier of the checkpoint."""
        for pending in [p for p in self.coordinator.pending.values() if execution_id in p.awaited]:
            self.abort(pending, broken_off("a task has finished before it"), now_ms, is_counted=False)

    def mark_unusable(self, checkpoint_id: int, error: ErrorInfo, now_ms: int) -> bool:
        """An attempt could not read it. False when that was known, or it is not kept any more."""
        if not self.completed.mark_unusable(checkpoint_id):
            return False
        self._story.add(now_ms, f"checkpoint {checkpoint_id} cannot be used: {error.message}")
        self.coordinator.history.unusable(checkpoint_id, error)
        return True

    def abort(
        self,
        pending: PendingCheckpoint,
        error: ErrorInfo,
        now_ms: int,
        failed_task: str = "",
        is_counted: bool = True,
        is_base_gone: bool = False,
    ) -> ErrorInfo | None:
        checkpoint_id, job_id = pending.checkpoint_id, self._graph.job_graph.job_id
        if is_counted:
            cause = f'{error.line} (task "{failed_task}")' if failed_task else error.line
            self._emit(
                events.Noted(f"{pending.kind.value.lower()} {checkpoint_id} has failed: {cause}", job_id)
            )
        if not self.settings.is_enabled:
            self._on_aborted_out_of_turn(error, now_ms, is_counted)
            # A job that takes none by itself does not fail for one that somebody asked for.
            is_counted = False
        failure = self.coordinator.abort(checkpoint_id, error, now_ms, failed_task, is_counted)
        self._story.add(now_ms, f"{pending.kind.value.lower()} {checkpoint_id} is aborted: {error.message}")
        self.requests.failed(pending.trigger_id, error)
        self._tell_all(rpc.CheckpointAborted, checkpoint_id, is_base_gone)
        self._note_removed(pending.paths() - self._needed(self.settings.directory))
        job = self._graph.job_graph
        directory = pending.directory or self.settings.directory
        self._emit(events.RemoveAborted(job.job_id, directory, checkpoint_id, job.config))
        return failure

    def _on_aborted_out_of_turn(self, error: ErrorInfo, now_ms: int, is_failure: bool) -> None:
        """Savepoints whose commit the checkpoint would have brought have failed with it, or wait for another."""
        if is_failure:
            self.requests.discarded(self.coordinator.newest_completed_id, error)
        elif self.requests.are_uncommitted:
            self.coordinator.hurry(now_ms)

    def _tell_all(
        self,
        kind: type[rpc.CheckpointCompleted | rpc.CheckpointAborted],
        checkpoint_id: int,
        is_base_gone: bool = False,
    ) -> None:
        for execution in self._graph.executions():
            self._tell(execution, kind, checkpoint_id, is_base_gone)

    # --- restarts and ends

    def rescale(self) -> None:
        """The graph has other subtasks from here on, which go on from what is kept."""
        job_graph = self._graph.job_graph
        self.completed.rescale(lambda kept: rescaled_checkpoint(kept, job_graph))

    def restored(self, checkpoint: CompletedCheckpoint, now_ms: int) -> None:
        """A part of the job goes on from it."""
        manifest = checkpoint.manifest
        found = RestoredCheckpoint(manifest.checkpoint_id, manifest.kind, now_ms, checkpoint.path)
        self.coordinator.history.restored(found)

    def stay(self, end: JobStatus, error: ErrorInfo | None) -> bool:
        """Whether a job that ends so leaves its checkpoints: as its settings say, and when it fails for a damaged one, since
        an older one may be all that is left of its state."""
        is_damaged = error is not None and error.reason is FailureReason.CHECKPOINT_CORRUPT
        is_failure = end in (JobStatus.FAILING, JobStatus.FAILED)
        return (is_damaged and is_failure) or self.settings.retention.keeps(end)

    def end(self, status: JobStatus, error: ErrorInfo | None, now_ms: int) -> None:
        """The job has ended so: remove what nobody goes on from."""
        if status is JobStatus.FINISHED:
            self._balance_end(now_ms)
            self.requests.committed(LAST_CHECKPOINT_ID)
        self.requests.fail_all(status)
        if status is JobStatus.SUSPENDED or not self.are_taken:
            return
        job_id = self._graph.job_graph.job_id
        if not self.stay(status, error):
            config = self._graph.job_graph.config
            self._discard_claimed(job_id, config)
            self._emit(events.RemoveCheckpoints(job_id, self.settings.directory, config))
            for kept in self.completed:
                self.coordinator.history.discarded(kept.checkpoint_id)

    def _discard_claimed(self, job_id: str, config: dict[str, str]) -> None:
        for kept in self.completed:
            if kept.is_owned and kept.directory != self.settings.directory:
                self._emit(events.DiscardCheckpoint(job_id, kept.directory, kept.manifest, None, config))

    def statistics(self) -> CheckpointStatistics:
        coordinator = self.coordinator
        job_id = self._graph.job_graph.job_id
        found = coordinator.history.statistics(
            job_id, self.settings.interval_ms, coordinator.pending.values()
        )
        found = replace(
            found,
            left_out=self._left_out,
            begun_empty=self._begun_empty,
            is_drained=self._is_drained,
            ledger=self.ledger,
        )
        if found.latest_restored is None:
            return found
        return replace(found, latest_restored=self._with_bytes_read(found.latest_restored))

    def _with_bytes_read(self, restored: RestoredCheckpoint) -> RestoredCheckpoint:
        attempts = (e for e in self._graph.executions() if e.restored_id == restored.id)
        read = [e.metrics.task for e in attempts if e.metrics is not None]
        local_bytes, store_bytes = (
            int(sum(figures.get(name, 0) for figures in read))
            for name in (rpc.RESTORED_LOCALLY, rpc.RESTORED_FROM_STORE)
        )
        return replace(restored, local_bytes=local_bytes, store_bytes=store_bytes)


# Which tasks take part in a checkpoint, and whether there can be one.


def awaited_executions(graph: ExecutionGraph) -> dict[str, ExecutionVertex] | None:
    """All that have not finished, by execution id. None while there can be no checkpoint: a task is not running yet, all sources
    have finished, a vertex that reads other tasks has finished in part, whose state could not be shared out, or a task has to
    finish because all that it reads have, so that no barrier reaches it. Operators without state and sinks may have finished in
    part: subtasks of a source without splits end, and so do those that read no others."""
    awaited: dict[str, ExecutionVertex] = {}
    has_source = False
    for vertex_id, subtasks in graph.vertices.items():
        running = [s for s in subtasks if s.execution.state is ExecutionState.RUNNING]
        finished = [s for s in subtasks if s.execution.state is ExecutionState.FINISHED]
        if len(running) + len(finished) < len(subtasks):
            return None
        is_source = not graph.job_graph.inputs_of(vertex_id)
        if not is_source and running and not _are_fed(graph, running):
            return None
        if not is_source and running and finished and keeps_state(running[0].vertex):
            return None
        has_source = has_source or (is_source and bool(running))
        awaited.update((s.execution.execution_id, s) for s in running)
    return awaited if has_source else None


def obstacle(graph: ExecutionGraph) -> tuple[str, str]:
    """Why `awaited_executions` finds that there can be no checkpoint, and what to do about it."""
    vertices = list(graph.vertices.items())
    finished = ExecutionState.FINISHED
    if any(
        s.execution.state not in (ExecutionState.RUNNING, finished) for _, tasks in vertices for s in tasks
    ):
        return "not all tasks of the job ran", "look at the failures of the job, and ask again when it runs"
    ended = [(id, sum(s.execution.state is finished for s in tasks), tasks) for id, tasks in vertices]
    if all(count == len(tasks) for id, count, tasks in ended if not graph.job_graph.inputs_of(id)):
        return "its sources have read all that there is", "wait for the end of the job"
    for id, count, tasks in ended:
        if graph.job_graph.inputs_of(id) and 0 < count < len(tasks) and keeps_state(tasks[0].vertex):
            cause = f'{count} of {len(tasks)} subtasks of "{tasks[0].vertex.name}" have finished'
            return cause, "ask again once its other subtasks have finished, too"
    return "some of its tasks are about to finish", "ask again once they have"


def keeps_state(vertex: JobVertex) -> bool:
    """Whether what a subtask has kept ends with it; what sinks have written is committed nevertheless."""
    return any(o.state is not None and not isinstance(o.spec, SinkSpec) for o in vertex.operators)


def _are_fed(graph: ExecutionGraph, subtasks: list[ExecutionVertex]) -> bool:
    """Whether each of these subtasks of one vertex reads a task that has not finished."""
    vertex = subtasks[0].vertex
    fed: set[int] = set()
    for edge in graph.job_graph.inputs_of(vertex.id):
        producers = graph.vertices[edge.source]
        for producer in producers:
            if producer.execution.state is not ExecutionState.FINISHED:
                kind = edge.exchange.kind
                fed.update(consumers_of(kind, producer.subtask, len(producers), vertex.parallelism))
    return fed.issuperset(s.subtask for s in subtasks)
