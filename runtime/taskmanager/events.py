"""What happens to a TaskExecutor, and what it has its shell do."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import ErrorInfo
from sqlstream.messages import rpc
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointReport
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested
from sqlstream.spi.connector import AssignedSplits

# --- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MessageReceived:
    message: rpc.ControlMessage


@dataclass(frozen=True)
class TaskStateChanged:
    """The runner's report on a task: RUNNING, then FINISHED, CANCELED or FAILED; or one of these three at once."""

    execution_id: str
    state: ExecutionState
    error: ErrorInfo | None = None
    committables: tuple[rpc.SinkCommittables, ...] = ()
    metrics: rpc.TaskMetrics | None = None


@dataclass(frozen=True)
class MetricsCollected:
    metrics: tuple[rpc.TaskMetrics, ...]


@dataclass(frozen=True)
class Disconnected:
    """The connection to the JobManager is lost for good."""


@dataclass(frozen=True)
class Tick:
    """Time has passed. The first event is a Tick: it makes the TaskManager register."""


@dataclass(frozen=True)
class WatermarkReported:
    """Where the reader of a task is: its watermark, and whether it is idle. It is told how far it may go."""

    execution_id: str
    watermark_ms: int
    is_idle: bool


TaskReport = TaskStateChanged | SplitsRequested | WatermarkReported | CheckpointReport
"""What tasks report by themselves."""

TaskExecutorEvent = MessageReceived | TaskReport | MetricsCollected | Disconnected | Tick


# --- instructions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SendToJobManager:
    message: rpc.ToJobManager


@dataclass(frozen=True)
class StartTask:
    descriptor: rpc.TaskDeploymentDescriptor


@dataclass(frozen=True)
class StopTask:
    """Cancel a task; returned once per execution. TaskStateChanged with a final state has to follow."""

    execution_id: str


@dataclass(frozen=True)
class GiveSplits:
    """Hand a running task the splits of this number; called once for each."""

    execution_id: str
    number: int
    assigned: AssignedSplits


@dataclass(frozen=True)
class AlignSource:
    """Tell a running task how far its reader may go."""

    execution_id: str
    watermark_ms: int


CheckpointMessage = rpc.TriggerCheckpoint | rpc.CheckpointCompleted | rpc.CheckpointAborted


@dataclass(frozen=True)
class TellOfCheckpoint:
    """Hand a running task what it is told of a checkpoint: to take it, which is told once, or its fate."""

    message: CheckpointMessage


@dataclass(frozen=True)
class ForgetJob:
    """The job has held slots here, and holds none any more: what was kept for its next attempts may go."""

    job_id: str


@dataclass(frozen=True)
class AbandonTask:
    """A task does not react to its cancellation, and goes on beside tasks of other jobs: the log says so."""

    error: ErrorInfo


@dataclass(frozen=True)
class Terminate:
    """The process cannot go on: it was refused, or a task does not react to cancellation."""

    error: ErrorInfo


@dataclass(frozen=True)
class CollectMetrics:
    """Read the figures of the running tasks; MetricsCollected has to follow."""


TaskExecutorInstruction = (
    SendToJobManager
    | StartTask
    | StopTask
    | GiveSplits
    | AlignSource
    | TellOfCheckpoint
    | ForgetJob
    | AbandonTask
    | Terminate
    | CollectMetrics
)
