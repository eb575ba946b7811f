"""How far a job is, and why it fails."""

from __future__ import annotations

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.job_phase import JobPhase, check_phase_transition, status_in
from sqlstream.runtime.story import Story


class JobProgress:
    """State: the phase of a job, the status that follows from it, since when it has had each, and the first cause of its failure.
    Forgotten with the job."""

    def __init__(self, job_id: str, story: Story, now_ms: int) -> None:
        self.job_id = job_id
        self.story = story
        self.phase = JobPhase.STORING
        self.status = JobStatus.INITIALIZING
        self.timestamps_ms = {JobStatus.INITIALIZING.value: now_ms}
        self.error: ErrorInfo | None = None

    def transition(self, target: JobPhase, now_ms: int) -> None:
        """InternalError with the story when `PHASE_TRANSITIONS` has no such transition."""
        check_phase_transition(self.phase, target, self.job_id, self.story)
        self.story.add(now_ms, f"job {self.job_id} {self.phase.value} -> {target.value}")
        status = status_in(target, self.status)
        if status is not self.status:
            self.timestamps_ms[status.value] = now_ms
        self.phase, self.status = target, status

    def replace_broken_connection(self, error: ErrorInfo) -> None:
        """A failed producer breaks its consumers' connections, and their failures may be reported first."""
        is_effect = self.error is not None and self.error.reason is FailureReason.PARTITION_LOST
        if is_effect and error.reason is not FailureReason.PARTITION_LOST:
            self.error = error
