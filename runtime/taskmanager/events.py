"""What happens to a TaskExecutor, and what it has its shell do."""

from __future__ import annotations

import msgspec

from sqlstream.errors import ErrorInfo
from sqlstream.messages import rpc
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointReport
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested
from sqlstream.spi.connector import AssignedSplits

# --- events ---------------------------------------------------------------------------------------


class MessageReceived(msgspec.Struct, frozen=True):
    message: rpc.ControlMessage


class TaskStateChanged(msgspec.Struct, frozen=True):
    """The runner's report on a task: RUNNING, then FINISHED, CANCELED or FAILED; or one of these three at once."""

    execution_id: str
    state: ExecutionState
    error: ErrorInfo | None = None
    committables: tuple[rpc.SinkCommittables, ...] = ()
    metrics: rpc.TaskMetrics | None = None


class MetricsCollected(msgspec.Struct, frozen=True):
    metrics: tuple[rpc.TaskMetrics, ...]


class Disconnected(msgspec.Struct, frozen=True):
    """The connection to the JobManager is lost for good."""


class Stopped(msgspec.Struct, frozen=True):
    """The process was told to end: the last event."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed. The first event is a Tick: it makes the TaskManager register."""


class WatermarkReported(msgspec.Struct, frozen=True):
    """Where the reader of a task is: its watermark, and whether it is idle. It is told how far it may go."""

    execution_id: str
    watermark_ms: int
    is_idle: bool


TaskReport = TaskStateChanged | SplitsRequested | WatermarkReported | CheckpointReport
"""What tasks report by themselves."""

TaskExecutorEvent = MessageReceived | TaskReport | MetricsCollected | Disconnected | Stopped | Tick


# --- instructions ---------------------------------------------------------------------------------


class SendToJobManager(msgspec.Struct, frozen=True):
    message: rpc.ToJobManager


class StartTask(msgspec.Struct, frozen=True):
    descriptor: rpc.TaskDeploymentDescriptor


class StopTask(msgspec.Struct, frozen=True):
    """Cancel a task; returned once per execution. TaskStateChanged with a final state has to follow."""

    execution_id: str


class GiveSplits(msgspec.Struct, frozen=True):
    """Hand a running task the splits of this number; called once for each."""

    execution_id: str
    number: int
    assigned: AssignedSplits


class AlignSource(msgspec.Struct, frozen=True):
    """Tell a running task how far its reader may go."""

    execution_id: str
    watermark_ms: int


class LimitTask(msgspec.Struct, frozen=True):
    """Tell a running task how many rows its reader is to put in a batch, or whether time bounds what is under way to it."""

    execution_id: str
    rows: int
    is_debloating: bool = True


CheckpointMessage = rpc.TriggerCheckpoint | rpc.CheckpointCompleted | rpc.CheckpointAborted


class TellOfCheckpoint(msgspec.Struct, frozen=True):
    """Hand a running task what it is told of a checkpoint: to take it, which is told once, or its fate."""

    message: CheckpointMessage


class ForgetJob(msgspec.Struct, frozen=True):
    """The job has held slots here, and holds none any more: what was kept for its next attempts may go."""

    job_id: str


class AbandonTask(msgspec.Struct, frozen=True):
    """A task does not react to its cancellation, and goes on beside tasks of other jobs: the log says so."""

    error: ErrorInfo


class Terminate(msgspec.Struct, frozen=True):
    """The process cannot go on: it was refused, or a task does not react to cancellation."""

    error: ErrorInfo


class CollectMetrics(msgspec.Struct, frozen=True):
    """Read the figures of the running tasks; MetricsCollected has to follow."""


TaskExecutorInstruction = (
    SendToJobManager
    | StartTask
    | StopTask
    | GiveSplits
    | AlignSource
    | LimitTask
    | TellOfCheckpoint
    | ForgetJob
    | AbandonTask
    | Terminate
    | CollectMetrics
)
