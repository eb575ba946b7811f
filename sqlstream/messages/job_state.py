"""The states of a job and of one execution attempt of a task, as every process names them."""

from __future__ import annotations

import enum


class JobStatus(enum.Enum):
    """Where a job is (Flink: JobStatus).

                       ┌──────────────────────────────────────────────┐
                       │                                              ▼
        INITIALIZING ──┼─► CREATED ──► RUNNING ──► FINISHED       SUSPENDED
             │         │      │        │  │  ▲
             │         │      │        │  │  └── RESTARTING ◄─┐
             │         │      │        │  │                   │
             │         │      ▼        ▼  └──► FAILING ───────┴──► FAILED
             │         └─► CANCELLING ◄──┘        │
             │                │                   ▼
             ├────────────────┴────────► CANCELED (from CANCELLING, and from FAILING through CANCELLING)
             └──► FAILED
             └──► RECONCILING: a job that has run under an earlier JobManager waits until all its tasks run again, then
                  RUNNING, or what takes it off this way: RESTARTING, FAILING, CANCELLING, SUSPENDED

    FINISHED, CANCELED and FAILED are final everywhere; SUSPENDED is final for one JobManager.
    """

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"

    @property
    def is_globally_terminal(self) -> bool:
        return self in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED)

    @property
    def is_terminal(self) -> bool:
        return self.is_globally_terminal or self is JobStatus.SUSPENDED


class ExecutionState(enum.Enum):
    """Where one attempt of one subtask is (Flink: ExecutionState).

        CREATED ─► SCHEDULED ─► DEPLOYING ─► INITIALIZING ─► RUNNING ─► FINISHED
           │           │            │              │            │
           │           │            ├──────────────┴────────────┤
           │           │            ▼                           ▼
           └───────────┴───────► CANCELING ─► CANCELED        FAILED
                (CREATED and SCHEDULED go to CANCELED at once: no task runs yet)
        any state that is not final ─► FAILED;  CREATED ─► RECONCILING ─► any of the running or final states

    FINISHED, CANCELED and FAILED are final. INITIALIZING: the TaskManager has the task and opens its
    operators.
    """

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"

    @property
    def is_terminal(self) -> bool:
        return self in (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)
