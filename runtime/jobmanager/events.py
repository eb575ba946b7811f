"""What happens to a JobManager, and what it wants done: the events and instructions of its machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import SlotOffer, TaskMetrics, TaskStateUpdate, ToJobManager, ToTaskManager
from sqlstream.specs import SinkSpec


@dataclass(frozen=True)
class SinkCommit:
    """One sink operator with the committables of all its subtasks, in their order."""

    vertex_id: str
    operator_id: int
    spec: SinkSpec
    committables: tuple[dict[str, Any], ...]


# --- events from outside --------------------------------------------------------------------------


@dataclass(frozen=True)
class MessageReceived:
    """A message from the TaskManager that it names."""

    message: ToJobManager


@dataclass(frozen=True)
class SubmitRequested:
    job_graph: JobGraph


@dataclass(frozen=True)
class CancelRequested:
    job_id: str


@dataclass(frozen=True)
class JobStored:
    job_id: str


@dataclass(frozen=True)
class JobStoreFailed:
    job_id: str
    error: ErrorInfo


@dataclass(frozen=True)
class SinksCommitted:
    job_id: str


@dataclass(frozen=True)
class SinksCommitFailed:
    job_id: str
    error: ErrorInfo


@dataclass(frozen=True)
class SinksAborted:
    job_id: str


@dataclass(frozen=True)
class TaskManagerExited:
    """A resource provider saw the process end."""

    resource_id: str
    error: ErrorInfo


@dataclass(frozen=True)
class NoTaskManagerLeft:
    """A resource provider has none running, and starts no other for the jobs that there are."""

    error: ErrorInfo


@dataclass(frozen=True)
class MetricsRequested:
    """Somebody looks at the job's figures; `metrics` and `details` are read apart from it."""

    job_id: str


@dataclass(frozen=True)
class Tick:
    """Time went by."""


JobManagerEvent = (
    MessageReceived
    | SubmitRequested
    | CancelRequested
    | JobStored
    | JobStoreFailed
    | SinksCommitted
    | SinksCommitFailed
    | SinksAborted
    | TaskManagerExited
    | NoTaskManagerLeft
    | MetricsRequested
    | Tick
)


# --- events between the machines of one JobManager ------------------------------------------------


@dataclass(frozen=True)
class SlotsOffered:
    task_manager_id: str
    address: str
    offers: tuple[SlotOffer, ...]


@dataclass(frozen=True)
class TaskStateChanged:
    update: TaskStateUpdate


@dataclass(frozen=True)
class MetricsReceived:
    metrics: tuple[TaskMetrics, ...]


@dataclass(frozen=True)
class TaskManagerLost:
    """All executions of this registration are over, whatever they were doing."""

    task_manager_id: str
    error: ErrorInfo


JobMasterEvent = (
    SlotsOffered
    | TaskStateChanged
    | MetricsReceived
    | TaskManagerLost
    | NoTaskManagerLeft
    | CancelRequested
    | MetricsRequested
    | SinksCommitted
    | SinksCommitFailed
    | SinksAborted
    | Tick
)


# --- instructions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Send:
    """To the TaskManager registered under the message's `task_manager_id`, which listens at `address`."""

    address: str
    message: ToTaskManager


@dataclass(frozen=True)
class StoreJob:
    """Keep the job so that it survives this process; answered by JobStored or JobStoreFailed."""

    job_graph: JobGraph


@dataclass(frozen=True)
class RemoveJob:
    """The job is over: what StoreJob kept can go."""

    job_id: str


@dataclass(frozen=True)
class RequestSlots:
    """The job needs this many slots in all (Flink: declareRequiredResources); to the ResourceManager."""

    job_id: str
    slots: int


@dataclass(frozen=True)
class WithdrawRequest:
    """The job has the slots that it needs, or gives up: it takes no more, and no other in place of a lost
    one."""

    job_id: str


@dataclass(frozen=True)
class ReleaseSlots:
    """The job needs no slot any more; to the ResourceManager."""

    job_id: str


@dataclass(frozen=True)
class GiveUpTaskManager:
    """A task there did not end in time and its job goes on without it; to the ResourceManager."""

    task_manager_id: str


@dataclass(frozen=True)
class CommitSinks:
    """Answered by SinksCommitted or SinksCommitFailed."""

    job_id: str
    commits: tuple[SinkCommit, ...]


@dataclass(frozen=True)
class AbortSinks:
    """Remove what finished subtasks of a job left behind that will not be committed; answered by
    SinksAborted."""

    job_id: str
    commits: tuple[SinkCommit, ...]


@dataclass(frozen=True)
class JobFinished:
    """The job reached its final state."""

    job_id: str
    status: JobStatus
    error: ErrorInfo | None


@dataclass(frozen=True)
class RequestTaskManagers:
    """Jobs wait for this many slots that no registered TaskManager has; 0 when none waits any more."""

    slots_missing: int


@dataclass(frozen=True)
class ReleaseTaskManager:
    """This TaskManager was silent for too long, or a task in it is stuck, and has been given up: whoever started its process
    may end it."""

    resource_id: str


JobMasterInstruction = (
    Send
    | RequestSlots
    | WithdrawRequest
    | ReleaseSlots
    | GiveUpTaskManager
    | CommitSinks
    | AbortSinks
    | JobFinished
)
ResourceManagerInstruction = Send | TaskManagerLost | RequestTaskManagers | ReleaseTaskManager
JobManagerInstruction = (
    Send
    | StoreJob
    | RemoveJob
    | CommitSinks
    | AbortSinks
    | JobFinished
    | RequestTaskManagers
    | ReleaseTaskManager
)
