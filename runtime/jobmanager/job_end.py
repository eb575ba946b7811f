"""How one job ends: stopped with a savepoint, cancelled, failed or finished, with its sinks committed as far as it counts."""

from __future__ import annotations

from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase
from sqlstream.runtime.jobmanager.job_regions import JobRegions

_ENDING_TASKS = (JobPhase.FAILING, JobPhase.CANCELLING, JobPhase.STOPPING)
_UNSUCCESSFUL = (JobPhase.FAILING, JobPhase.CANCELLING)


class JobEnd:
    """Sinks are committed with each checkpoint, and when every task has FINISHED, before the job is FINISHED; a cancellation
    during that last commit is too late: the commit may succeed. A commit that fails is repeated as the RestartStrategy says,
    until such a cancellation. Committables of no completed checkpoint are aborted when the job does not finish, and so are those
    of attempts that were not the last.

    State: the savepoint with which the job ends, and whether it was cancelled when only its last commits were left."""

    def __init__(self, parts: JobParts, regions: JobRegions) -> None:
        self._parts = parts
        self._progress = parts.progress
        self._output = parts.output
        self._regions = regions
        self._savepoint_path = ""
        self.is_stopped = False
        self._is_cancelled_late = False

    def advance(self, now_ms: int) -> None:
        """Go on as far as the present state allows."""
        phase, output = self._progress.phase, self._output
        if phase in ACTIVE or phase is JobPhase.COMMITTING:
            output.commit_next(now_ms)
        if phase in ACTIVE:
            output.remove_discarded()
        if phase is JobPhase.COMMITTING and not output.commits.open:
            self._clean_up(now_ms)
        is_storing = self._parts.checkpoints.is_storing
        if phase in _ENDING_TASKS and self._parts.graph.are_all_terminal() and not is_storing:
            # What belongs to a completed checkpoint is committed also when the job ends otherwise.
            output.commit_next(now_ms)
            if output.is_settled:
                self._end_output(now_ms)

    # --- why it ends

    def stop_with(self, checkpoint_id: int, path: str, now_ms: int) -> None:
        """The savepoint is complete that the job was to end with."""
        self._output.last_id = checkpoint_id
        if self._progress.phase in ACTIVE:
            self.is_stopped, self._savepoint_path = True, path
            self._progress.transition(JobPhase.STOPPING, now_ms)
            self._regions.end_all_tasks(now_ms)

    def on_store_failed(self, event: events.JobStoreFailed, now_ms: int) -> None:
        """The job could not be stored, so it does not run."""
        self._progress.error = event.error
        self._regions.end_all_tasks(now_ms)
        self._finish(JobPhase.FAILED, now_ms)

    def on_cancel(self, event: events.CancelRequested, now_ms: int) -> None:
        self._parts.checkpoints.break_off("the job is cancelled", now_ms)
        self._progress.transition(JobPhase.CANCELLING, now_ms)
        self._regions.end_all_tasks(now_ms)

    def on_late_cancel(self, event: events.CancelRequested, now_ms: int) -> None:
        """Nothing but commits is left, which may succeed; one that fails is not repeated any more."""
        self._is_cancelled_late = True
        if self._output.retry_ms is not None and self._output.retry_error is not None:
            self._give_up_commits(self._output.retry_error, now_ms)

    def on_suspend(self, event: events.SuspendRequested, now_ms: int) -> None:
        """Leave the job to another JobManager. Its tasks are told to end, and nobody waits until they have."""
        self._regions.end_all_tasks(now_ms)
        self._finish(JobPhase.SUSPENDED, now_ms)

    # --- commits

    def on_committed(self, event: events.SinksCommitted, now_ms: int) -> None:
        if self._output.commits.committed(event.checkpoint_id):
            self._parts.checkpoints.requests.committed(event.checkpoint_id)

    def on_commit_failed(self, event: events.SinksCommitFailed, now_ms: int) -> None:
        """Repeat the commit, unless the job fails for it, or is over anyway."""
        if not self._output.commits.failed(event.checkpoint_id):
            return
        is_given_up = self._progress.phase in _UNSUCCESSFUL or self._is_cancelled_late
        delay_ms = None if is_given_up else self._regions.strategy.restart_after_ms(event.error, now_ms)
        if delay_ms is not None:
            self._parts.story.add(now_ms, f"the commit of {event.checkpoint_id} is repeated in {delay_ms} ms")
            repeated = f"a commit has failed, and is repeated in {delay_ms / 1000:g} s: {event.error.line}"
            self._parts.emit(events.Noted(repeated, self._progress.job_id))
            self._regions.history.add(event.error, "", now_ms)
            self._output.retry_ms, self._output.retry_error = now_ms + delay_ms, event.error
            return
        self._give_up_commits(event.error, now_ms)

    def _give_up_commits(self, error: ErrorInfo, now_ms: int) -> None:
        # All of them are aborted: a sink that was committed before the one that failed must not stay visible.
        self._output.is_unclean = self._output.is_given_up = True
        if self._progress.phase not in _UNSUCCESSFUL:
            self._regions.fail(error, now_ms)

    # --- after the tasks

    def _clean_up(self, now_ms: int) -> None:
        if self._output.remove_leftovers():
            self._progress.transition(JobPhase.CLEANING_UP, now_ms)
        else:
            self._finish(JobPhase.FINISHED, now_ms)

    def on_cleaned_up(self, event: events.SinksAborted, now_ms: int) -> None:
        self._finish(JobPhase.FINISHED, now_ms)

    def _end_output(self, now_ms: int) -> None:
        """All tasks have ended before the job was done, and all that is complete is committed, or cannot be."""
        if self._progress.phase is JobPhase.STOPPING:
            self._clean_up(now_ms)
            return
        end = JobStatus.FAILED if self._progress.status is JobStatus.FAILING else JobStatus.CANCELED
        if not self.output_kept_for() and self._output.remove_leftovers(end, self._progress.error):
            self._progress.transition(JobPhase.ABORTING, now_ms)
        else:
            self._end_unfinished(now_ms)

    def output_kept_for(self) -> tuple[str, ...]:
        """The checkpoints and the savepoint that stay when the job ends as its status says, and that have rows to commit: those
        rows must not be removed."""
        if not self._output.commits.open:
            return ()
        checkpoints = self._parts.checkpoints
        kept = (self._savepoint_path,) if self.is_stopped else ()
        if checkpoints.are_taken and checkpoints.stay(self._progress.status, self._progress.error):
            kept = (*kept, checkpoints.settings.directory)
        return kept

    def on_aborted(self, event: events.SinksAborted, now_ms: int) -> None:
        self._end_unfinished(now_ms)

    def _end_unfinished(self, now_ms: int) -> None:
        is_failure = self._progress.status is JobStatus.FAILING
        self._finish(JobPhase.FAILED if is_failure else JobPhase.CANCELED, now_ms)

    def _finish(self, phase: JobPhase, now_ms: int) -> None:
        parts, progress = self._parts, self._progress
        progress.transition(phase, now_ms)
        parts.checkpoints.end(progress.status, progress.error, now_ms)
        parts.tasks.slots.clear()
        if not parts.sources.is_empty:
            parts.emit(events.StopEnumerators(progress.job_id))
        parts.emit(events.ReleaseSlots(progress.job_id))
        parts.emit(events.JobFinished(progress.job_id, progress.status, progress.error))
