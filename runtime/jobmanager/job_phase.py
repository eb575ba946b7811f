"""Where a JobMaster is with its job: finer than the `JobStatus` that clients see, which each phase implies."""

from __future__ import annotations

import enum

from sqlstream.errors import ErrorInfo, FailureReason, InternalError
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.story import Story


class JobPhase(enum.Enum):
    """
        STORING ─► CREATED ─► SCHEDULING ─► DEPLOYING ─► RUNNING ─► COMMITTING ─► FINISHED
                                  ▲             ▲ │         │           │  └► CLEANING_UP ─► FINISHED
                                  │             │ ▼         ▼           ▼
                                  └──────────── RESTARTING ─┘        ABORTING
        from every phase up to RUNNING and from RESTARTING: FAILING or CANCELLING (no new task starts, the present ones
        end), then ABORTING if sinks have left something, then FAILED or CANCELED
        from DEPLOYING, RUNNING and RESTARTING: STOPPING (a savepoint is complete, and the tasks end), then as from COMMITTING
        from every phase that is not final: SUSPENDED (the JobManager ends before the job)

    SCHEDULING waits for slots. DEPLOYING lasts until every task runs. RESTARTING: a region has failed, and its tasks are
    ended or wait for their restart, while other regions may run. COMMITTING, CLEANING_UP and ABORTING wait for the thread
    that works on the sinks: CLEANING_UP removes what attempts left that were not the last.
    """

    STORING = "STORING"
    CREATED = "CREATED"
    SCHEDULING = "SCHEDULING"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    STOPPING = "STOPPING"
    COMMITTING = "COMMITTING"
    CLEANING_UP = "CLEANING_UP"
    FAILING = "FAILING"
    CANCELLING = "CANCELLING"
    ABORTING = "ABORTING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"


_P, _J = JobPhase, JobStatus

ACTIVE = frozenset({_P.SCHEDULING, _P.DEPLOYING, _P.RUNNING, _P.RESTARTING})
"""The phases in which tasks may be started; which of them it is follows from the regions."""

_STOPS = frozenset({_P.FAILING, _P.CANCELLING, _P.SUSPENDED})

PHASE_TRANSITIONS: dict[JobPhase, frozenset[JobPhase]] = {
    _P.STORING: frozenset({_P.CREATED, _P.FAILED, _P.CANCELLING, _P.SUSPENDED}),
    _P.CREATED: frozenset({_P.SCHEDULING}),
    _P.SCHEDULING: frozenset({_P.DEPLOYING, _P.RESTARTING}) | _STOPS,
    _P.DEPLOYING: frozenset({_P.RUNNING, _P.RESTARTING, _P.STOPPING, _P.COMMITTING}) | _STOPS,
    _P.RUNNING: frozenset({_P.RESTARTING, _P.STOPPING, _P.COMMITTING}) | _STOPS,
    _P.RESTARTING: frozenset({_P.SCHEDULING, _P.DEPLOYING, _P.STOPPING}) | _STOPS,
    _P.STOPPING: frozenset({_P.FINISHED, _P.CLEANING_UP, _P.FAILING, _P.SUSPENDED}),
    _P.COMMITTING: frozenset({_P.FINISHED, _P.CLEANING_UP, _P.FAILING, _P.SUSPENDED}),
    _P.CLEANING_UP: frozenset({_P.FINISHED, _P.SUSPENDED}),
    _P.FAILING: frozenset({_P.ABORTING, _P.FAILED, _P.SUSPENDED}),
    _P.CANCELLING: frozenset({_P.ABORTING, _P.CANCELED, _P.SUSPENDED}),
    _P.ABORTING: frozenset({_P.FAILED, _P.CANCELED, _P.SUSPENDED}),
    _P.FINISHED: frozenset(),
    _P.FAILED: frozenset(),
    _P.CANCELED: frozenset(),
    _P.SUSPENDED: frozenset(),
}

_STATUS: dict[JobPhase, JobStatus] = {
    _P.STORING: _J.INITIALIZING,
    _P.CREATED: _J.CREATED,
    _P.SCHEDULING: _J.RUNNING,
    _P.DEPLOYING: _J.RUNNING,
    _P.RUNNING: _J.RUNNING,
    _P.RESTARTING: _J.RESTARTING,
    _P.STOPPING: _J.RUNNING,
    _P.COMMITTING: _J.RUNNING,
    _P.CLEANING_UP: _J.RUNNING,
    _P.FAILING: _J.FAILING,
    _P.CANCELLING: _J.CANCELLING,
    _P.FINISHED: _J.FINISHED,
    _P.FAILED: _J.FAILED,
    _P.CANCELED: _J.CANCELED,
    _P.SUSPENDED: _J.SUSPENDED,
}


def status_in(phase: JobPhase, before: JobStatus) -> JobStatus:
    """The status that clients see in a phase, where it was `before`: ABORTING keeps FAILING or CANCELLING, and a job that is
    RECONCILING is so until all its tasks run."""
    if before is JobStatus.RECONCILING and phase in (JobPhase.SCHEDULING, JobPhase.DEPLOYING):
        return before
    return _STATUS.get(phase, before)


def check_phase_transition(current: JobPhase, target: JobPhase, job_id: str, story: Story) -> None:
    """InternalError with the story when the diagram has no such arrow."""
    if target not in PHASE_TRANSITIONS[current]:
        raise InternalError(
            f"job {job_id} cannot go from {current.value} to {target.value}", story=story.lines()
        )


# How far a job is, and why it fails.


class JobProgress:
    """State: the phase of a job, the status that follows from it, since when it has had each, and the first cause of its failure.
    Forgotten with the job."""

    def __init__(self, job_id: str, story: Story, now_ms: int, is_recovered: bool = False) -> None:
        """`is_recovered`: the job has run under an earlier JobManager, and is RECONCILING until all its tasks run again."""
        self._is_recovered = is_recovered
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
        if self._is_recovered and self.phase is JobPhase.CREATED:
            status = JobStatus.RECONCILING
        if status is not self.status:
            self.timestamps_ms[status.value] = now_ms
        self.phase, self.status = target, status

    def replace_broken_connection(self, error: ErrorInfo) -> None:
        """A failed producer breaks its consumers' connections, and their failures may be reported first."""
        is_effect = self.error is not None and self.error.reason is FailureReason.PARTITION_LOST
        if is_effect and error.reason is not FailureReason.PARTITION_LOST:
            self.error = error
