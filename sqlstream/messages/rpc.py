"""The control messages between JobManager and TaskManagers, and what both tell of jobs: msgspec structs, tagged by their class
name. Those of clients are in client_rpc.py.

Messages between a JobManager and its TaskManagers are one-way and may be lost, doubled, delayed or reordered:
a sender that needs an answer sends again until it has one, and a receiver handles a repetition like the first.
Repetition is safe because:

  * ids are never used twice: a `task_manager_id` names one registration of one process (`<resource
    id>#<incarnation>`), an allocation id one lease of one slot, an execution id one attempt of one subtask;
  * a slot or task that was ended stays ended: the TaskManager remembers the ids of freed slots and finished
    executions, so that a late RequestSlot or DeployTask does nothing;
  * a message that names another registration than the receiver's present one is dropped.

    sender           message                answered by
    TaskManager      RegisterTaskManager    RegistrationAccepted | RegistrationRefused
    ResourceManager  Heartbeat              HeartbeatReply
    ResourceManager  RequestSlot            OfferSlots (to the JobMaster) | SlotRefused
    TaskManager      OfferSlots             AcceptSlots | FreeSlot
    ResourceManager  FreeSlot               SlotFreed, when the slot's tasks have ended
    JobMaster        DeployTask             TaskStateUpdate (any state)
    JobMaster        CancelTask             TaskStateUpdate (a final state)
    TaskManager      TaskStateUpdate        TaskStateAck
    TaskManager      RequestSplits          AssignSplits, at once or when there are any
    TaskManager      ReportWatermark        AlignWatermark; a later one replaces it
    JobMaster        LimitBatches           MetricsReport, in which the task says its limits; it is sent until it does
    JobMaster        TriggerCheckpoint      AcknowledgeCheckpoint | DeclineCheckpoint (of a task that reads a source)
    TaskManager      AcknowledgeCheckpoint  CheckpointCompleted | CheckpointAborted, when it is known
    TaskManager      DeclineCheckpoint      CheckpointAborted
    TaskManager      MetricsReport          nothing: the next one replaces it
    TaskManager      DisconnectTaskManager  nothing: without it the JobManager notices the silence
    JobManager       RequestMetrics         MetricsReport, several times
    JobManager       UnknownTaskManager     nothing: the TaskManager ends its tasks and registers again
"""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.bounds import Count, Int64, Millis
from sqlstream.errors import ErrorInfo
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobEdge, JobVertex
from sqlstream.graph.python_files import PythonFiles
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.latency import LatencyStatus
from sqlstream.messages.rescale import AutoscalerStatus
from sqlstream.messages.state_growth import StateGrowth
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import AssignedSplits

PROTOCOL_VERSION = 2
"""Raised when a message changes its meaning; a TaskManager of another version is refused at registration."""

Metrics = dict[str, Int64 | float]
"""Metric name to its present value. Names are Flink's: numRecordsIn, numRecordsOut, numBytesIn, numBytesOut (each also
as …PerSecond), busyTimeMsPerSecond, idleTimeMsPerSecond, backPressuredTimeMsPerSecond, accumulateBusyTimeMs,
accumulateIdleTimeMs, accumulateBackPressuredTimeMs, mailboxQueueSize, debloatedBufferSize,
estimatedTimeToConsumeBuffersMs, currentInputWatermark, currentOutputWatermark, numLateRecordsDropped; ours are
numRecordsRejected, numNullRecordsDropped (at a sink), numInvalidOperations (FROM_CHANGELOG),
numEventsPassedOver, numTruncationsPassedOver and numUnknownValues (tables of change events),
numStateEntriesExpired, numExpiredRowsNotKept, numArithmeticOverflows, stateBytes, stateEntries, stateFileBytes,
isIdle. Of tasks: stateBudgetBytes. Of sources: watermarkLag, pendingRecords, and
`split.NAME.…` for splits."""

BATCH_LIMIT, LARGEST_BATCH = "limitBatchRows", "largestBatchRows"
"""Of a source whose job has a `latency.target`: how many rows a batch has at most, and had lately."""

DEBLOATED = "debloatedBufferSize"
"""Of a task while time bounds what is under way to it: the bytes that a channel may hold."""

COUNTER = "num"
"""What the names of counters begin with; other figures, and `…PerSecond`, are of the present alone."""


RESTARTS_REMEMBERED_MAX = 16
"""As many failures as Flink shows of a job (web.exception-history-size)."""


class RpcMessage(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of all control messages; the tag is the class name."""


# --- the parts of a task ---------------------------------------------------------------------------


class InputChannelDescriptor(msgspec.Struct, frozen=True):
    """One producer subtask that a gate reads: subpartition `subpartition` of `partition_id`, on the
    TaskManager at `address`.

    The producer may start after the consumer opens: all tasks are deployed at once, in any order.
    """

    partition_id: str
    subpartition: Count
    subtask: Count
    execution_id: str
    task_manager_id: str
    address: str


class InputGateDescriptor(msgspec.Struct, frozen=True):
    """One input edge of a task; `channels` in the order of producer subtasks. FORWARD and RESCALE read only
    their share."""

    edge: JobEdge
    channels: tuple[InputChannelDescriptor, ...]


class ConsumerDescriptor(msgspec.Struct, frozen=True):
    """The consumer subtask of one subpartition."""

    subtask: Count
    execution_id: str
    task_manager_id: str
    address: str


class ResultPartitionDescriptor(msgspec.Struct, frozen=True):
    """The subpartitions of one subtask on one output edge: `consumers[i]` reads subpartition `i`.

    All-to-all exchanges have one subpartition per consumer subtask, in order; FORWARD has one; RESCALE its
    share.
    """

    partition_id: str
    edge: JobEdge
    consumers: tuple[ConsumerDescriptor, ...]

    @property
    def subpartitions(self) -> int:
        return len(self.consumers)


class TaskDeploymentDescriptor(msgspec.Struct, frozen=True):
    """Everything a TaskManager needs to run one attempt of one subtask (Flink: TaskDeploymentDescriptor).

    `inputs` and `outputs` are in the order of the job's edges. Sinks that send rows to the client (`collect`,
    `print`) send them to the data endpoint at `result_address`, under the job id and the operator id. `splits` are the first of
    a source whose splits are assigned. `checkpoint_directory` is where the job's checkpoints are written, empty when it has
    no place for any; `restore` is what the attempt goes on from. `python` are modules of users' functions,
    and `artifacts` the files that these open. `peers` are the other subtasks of a recursive query, and `peers_id` the partition
    of this one that they read.
    """

    job_id: str
    job_name: str
    vertex: JobVertex
    subtask: Count
    attempt: Count
    execution_id: str
    allocation_id: str
    inputs: tuple[InputGateDescriptor, ...]
    outputs: tuple[ResultPartitionDescriptor, ...]
    result_address: str
    config: dict[str, str] = {}
    splits: AssignedSplits | None = None
    checkpoint_directory: str = ""
    restore: TaskRestore | None = None
    python: PythonFiles | None = None
    artifacts: tuple[Artifact, ...] = ()
    peers: tuple[InputChannelDescriptor, ...] = ()
    peers_id: str = ""

    @property
    def task_name(self) -> str:
        """Flink's name of a subtask, counted from 1: `Source: bids (1/2)#0`."""
        return f"{self.vertex.name} ({self.subtask + 1}/{self.vertex.parallelism})#{self.attempt}"


class SinkCommittables(msgspec.Struct, frozen=True):
    """The committables that `SinkWriter.prepare_commit` of one sink operator in one subtask returned."""

    operator_id: Count
    committables: tuple[Committable, ...]


RESTORED_LOCALLY = "RestoredStateSizeBytes.LOCAL_DISK"
RESTORED_FROM_STORE = "RestoredStateSizeBytes.REMOTE"
"""Figures of a task: the bytes of state that it went on from, by where they were read (Flink: JobInitializationMetrics)."""


class TaskMetrics(msgspec.Struct, frozen=True):
    """The latest figures of one subtask: of the task as a whole and of each operator, by operator id."""

    execution_id: str
    task: Metrics = {}
    operators: dict[Count, Metrics] = {}


class SlotStatus(msgspec.Struct, frozen=True):
    """One slot in a report; `allocation_id` and `job_id` are empty when it is free."""

    slot: Count
    allocation_id: str = ""
    job_id: str = ""


class SlotOffer(msgspec.Struct, frozen=True):
    slot: Count
    allocation_id: str


# --- TaskManager → JobManager ---------------------------------------------------------------------


class RegisterTaskManager(RpcMessage, frozen=True):
    """A TaskManager registers. `address` is where it listens for both control and data. `is_held`: it has slots of jobs, and asks
    because it has not heard its JobManager for long; one that does not know it has it end its tasks first.

    `task_manager_id` is `<resource_id>#<incarnation>`; the incarnation grows with every registration of one
    process.
    """

    task_manager_id: str
    resource_id: str
    incarnation: Count
    address: str
    slots: Count
    protocol_version: Count = PROTOCOL_VERSION
    process_id: Count = 0
    cores: Count = 0
    memory_bytes: Count = 0
    is_held: bool = False


class HeartbeatReply(RpcMessage, frozen=True):
    task_manager_id: str
    sequence: Count
    slots: tuple[SlotStatus, ...]
    metrics: Metrics = {}


class OfferSlots(RpcMessage, frozen=True):
    """Slots reserved for the job, for its JobMaster to accept."""

    task_manager_id: str
    job_id: str
    offers: tuple[SlotOffer, ...]


class SlotRefused(RpcMessage, frozen=True):
    """The slot is held by another allocation, or the allocation was freed before."""

    task_manager_id: str
    slot: Count
    allocation_id: str


class SlotFreed(RpcMessage, frozen=True):
    """No task of that allocation runs, and none ever will."""

    task_manager_id: str
    allocation_id: str


class TaskStateUpdate(RpcMessage, frozen=True):
    """The latest state of an execution; `sequence` grows with each state. INITIALIZING, RUNNING, CANCELING,
    FINISHED, CANCELED or FAILED; the last three end it. `error` belongs to FAILED, `committables` to
    FINISHED."""

    task_manager_id: str
    job_id: str
    execution_id: str
    sequence: Count
    state: ExecutionState
    error: ErrorInfo | None = None
    committables: tuple[SinkCommittables, ...] = ()
    metrics: TaskMetrics | None = None


class RequestSplits(RpcMessage, frozen=True):
    """The reader of a source takes further splits. Its assignments are numbered: 0 came with its deployment, and `number` is the
    one that it awaits. `returned` are the splits that it could not read as they were found, but for the first `returned_earlier`
    of them, which an assignment has confirmed."""

    task_manager_id: str
    job_id: str
    execution_id: str
    number: Count
    returned: tuple[dict[str, Any], ...] = ()
    returned_earlier: Count = 0


class ReportWatermark(RpcMessage, frozen=True):
    """The reader of a table that others wait for has come to this watermark."""

    task_manager_id: str
    job_id: str
    execution_id: str
    watermark_ms: Int64
    is_idle: bool = False


LATE_CHANNELS_MAX = 8
"""How many channels the figures of a subtask's checkpoint name."""


class LateChannel(msgspec.Struct, frozen=True):
    """The barrier of a checkpoint came from this producer `after_ms` behind the first one of the subtask's channels, or its end
    did."""

    vertex_id: str
    subtask: Count
    after_ms: Millis


class CheckpointFigures(msgspec.Struct, frozen=True):
    """How one subtask took a checkpoint.

    * `alignment_ms`: the wait from its first barrier to its last. `late_channels` are those that made it so long, the latest
      first, LATE_CHANNELS_MAX at most.
    * `sync_ms`: the time in which it took no input. In `flush_ms` of it operators emitted what they held back, earlier than
      they would have otherwise.
    * `async_ms`: the time of writing beside its work.
    * `written_bytes`: what it wrote; `state_bytes`: the size of all its state.
    * `is_unaligned`: the barrier passed what waited before it in channels. `in_flight_items` counts that, batches and watermarks
      alike, `in_flight_rows` the rows of these batches, and `in_flight_bytes` is the part of `written_bytes` that they take.
    """

    alignment_ms: Millis = 0
    sync_ms: Millis = 0
    async_ms: Millis = 0
    written_bytes: Count = 0
    state_bytes: Count = 0
    flush_ms: Millis = 0
    late_channels: tuple[LateChannel, ...] = ()
    is_unaligned: bool = False
    in_flight_items: Count = 0
    in_flight_rows: Count = 0
    in_flight_bytes: Count = 0


class AcknowledgeCheckpoint(RpcMessage, frozen=True):
    """All that the execution had to save is in the store. `committables` are what its sinks wrote before the barrier. Repeated
    until the checkpoint's fate is known."""

    task_manager_id: str
    job_id: str
    execution_id: str
    checkpoint_id: Count
    state: SubtaskState
    committables: tuple[SinkCommittables, ...] = ()
    figures: CheckpointFigures = CheckpointFigures()


class DeclineCheckpoint(RpcMessage, frozen=True):
    """The execution cannot take this checkpoint, for this reason. Repeated until it is aborted."""

    task_manager_id: str
    job_id: str
    execution_id: str
    checkpoint_id: Count
    error: ErrorInfo


class MetricsReport(RpcMessage, frozen=True):
    """Figures of the TaskManager's running tasks, by job; by `sequence` the receiver drops reports older than the last."""

    task_manager_id: str
    sequence: Count
    jobs: dict[str, tuple[TaskMetrics, ...]]


class DisconnectTaskManager(RpcMessage, frozen=True):
    """The TaskManager was stopped in order: its tasks end, and no message follows."""

    task_manager_id: str


# --- JobManager → TaskManager ---------------------------------------------------------------------


class RequestMetrics(RpcMessage, frozen=True):
    """A client reads the figures of a job that runs here: report them often for the next few seconds."""

    task_manager_id: str


class RegistrationAccepted(RpcMessage, frozen=True):
    task_manager_id: str
    heartbeat_interval_ms: Millis
    heartbeat_timeout_ms: Millis


class RegistrationRefused(RpcMessage, frozen=True):
    task_manager_id: str
    error: ErrorInfo


class UnknownTaskManager(RpcMessage, frozen=True):
    """This registration is not in force at the JobManager: end all tasks, free all slots, register anew."""

    task_manager_id: str


class Heartbeat(RpcMessage, frozen=True):
    task_manager_id: str
    sequence: Count


class RequestSlot(RpcMessage, frozen=True):
    task_manager_id: str
    slot: Count
    allocation_id: str
    job_id: str


class AcceptSlots(RpcMessage, frozen=True):
    task_manager_id: str
    job_id: str
    allocation_ids: tuple[str, ...]


class FreeSlot(RpcMessage, frozen=True):
    """End the slot's tasks, then answer SlotFreed. An allocation that is unknown to the TaskManager is answered with
    SlotFreed at once."""

    task_manager_id: str
    allocation_id: str


class DeployTask(RpcMessage, frozen=True):
    task_manager_id: str
    descriptor: TaskDeploymentDescriptor


class CancelTask(RpcMessage, frozen=True):
    task_manager_id: str
    job_id: str
    execution_id: str


class AssignSplits(RpcMessage, frozen=True):
    """The reader's assignment of this number. A reader that has it already drops it."""

    task_manager_id: str
    execution_id: str
    number: Count
    assigned: AssignedSplits


class AlignWatermark(RpcMessage, frozen=True):
    """The reader may go on up to this watermark."""

    task_manager_id: str
    execution_id: str
    watermark_ms: Int64


class LimitBatches(RpcMessage, frozen=True):
    """A task with a reader is to put about so many rows in a batch from now on. One that reads channels is to bound what is under
    way to it by the time that this takes with `is_debloating`, and by bytes alone without."""

    task_manager_id: str
    execution_id: str
    rows: Count
    is_debloating: bool = True


class TriggerCheckpoint(RpcMessage, frozen=True):
    """To a task that reads no channels: save your state, and send the barrier. One that has seen this checkpoint, or a later one,
    drops it. `timestamp_ms` is when the checkpoint began, by the wall clock. `directory` is that of a savepoint, in which all of
    the state is written anew; empty for a checkpoint. `is_drain`: time passes to its end before the barrier, and nothing is read
    behind it. `completed_id` is the last checkpoint that was completed, which the task may not have been told of yet. `is_last`:
    it is aligned, and nothing is read behind it until it is aborted."""

    task_manager_id: str
    execution_id: str
    checkpoint_id: Count
    timestamp_ms: Millis
    directory: str = ""
    is_drain: bool = False
    completed_id: Count = 0
    is_last: bool = False


class CheckpointCompleted(RpcMessage, frozen=True):
    """A restart goes on from this checkpoint or from a later one: what only earlier ones need may go."""

    task_manager_id: str
    execution_id: str
    checkpoint_id: Count


class CheckpointAborted(RpcMessage, frozen=True):
    """This checkpoint will not be completed. What changed since the last completed one is saved again by the next.
    `still_pending` are the earlier ones that may be: all others before it are decided. `is_base_gone`: files of the last
    completed one are gone, so that the next one is whole."""

    task_manager_id: str
    execution_id: str
    checkpoint_id: Count
    still_pending: tuple[Count, ...] = ()
    is_base_gone: bool = False


class TaskStateAck(RpcMessage, frozen=True):
    task_manager_id: str
    execution_id: str
    sequence: Count


ToJobManager = (
    RegisterTaskManager
    | HeartbeatReply
    | OfferSlots
    | SlotRefused
    | SlotFreed
    | TaskStateUpdate
    | RequestSplits
    | ReportWatermark
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | MetricsReport
    | DisconnectTaskManager
)
ToTaskManager = (
    RegistrationAccepted
    | RegistrationRefused
    | UnknownTaskManager
    | Heartbeat
    | RequestSlot
    | AcceptSlots
    | FreeSlot
    | DeployTask
    | CancelTask
    | TaskStateAck
    | AssignSplits
    | AlignWatermark
    | LimitBatches
    | TriggerCheckpoint
    | CheckpointCompleted
    | CheckpointAborted
    | RequestMetrics
)
ControlMessage = ToJobManager | ToTaskManager


# --- what is told of jobs and TaskManagers ---------------------------------------------------------


class SubtaskDetails(msgspec.Struct, frozen=True):
    """The current attempt of one subtask. `timestamps_ms` by the name of the state that was entered."""

    subtask: Count
    attempt: Count
    execution_id: str
    state: ExecutionState
    task_manager_id: str
    timestamps_ms: dict[str, Millis]
    metrics: TaskMetrics | None = None
    error: ErrorInfo | None = None


class VertexDetails(msgspec.Struct, frozen=True):
    """`metrics` are combined over the subtasks: counters added, times averaged, the least of the watermarks."""

    id: str
    name: str
    parallelism: Count
    state: ExecutionState
    subtasks: tuple[SubtaskDetails, ...]
    metrics: Metrics = {}


class JobOverviewEntry(msgspec.Struct, frozen=True):
    """`end_ms` is -1 until the job has ended. `tasks` counts subtasks by the name of their state."""

    job_id: str
    name: str
    status: JobStatus
    start_ms: Millis
    end_ms: Millis
    tasks: dict[str, Count]
    is_batch: bool = False


class RestartRecord(msgspec.Struct, frozen=True):
    """A failure after which tasks of a job started again. `task` is the subtask that failed first (`window (1/2)`), empty when it
    was none; `checkpoint_id` is what the tasks went on from, 0 from the beginning and -1 while it is not decided."""

    failed_ms: Millis
    error: ErrorInfo
    task: str = ""
    checkpoint_id: Count = -1


class JobDetails(msgspec.Struct, frozen=True):
    """`restarts` are the last RESTARTS_REMEMBERED_MAX, newest first. `autoscaler` and `latency` are there of a job that has one,
    or a `latency.target`."""

    job_id: str
    name: str
    status: JobStatus
    start_ms: Millis
    end_ms: Millis
    timestamps_ms: dict[str, Millis]
    vertices: tuple[VertexDetails, ...]
    error: ErrorInfo | None = None
    is_batch: bool = False
    restarts: tuple[RestartRecord, ...] = ()
    autoscaler: AutoscalerStatus | None = None
    latency: LatencyStatus | None = None
    state_growth: StateGrowth | None = None


class JobMetrics(msgspec.Struct, frozen=True):
    """The figures of the progress line. `total` sums over the job: rows read by sources and written by sinks, rejected and
    late rows, state; and has Flink's figures of the job's checkpoints and restarts: numberOfCompletedCheckpoints,
    numberOfFailedCheckpoints, numberOfInProgressCheckpoints, lastCompletedCheckpointId, lastCheckpointCompletedTimestamp,
    lastCheckpointDuration, lastCheckpointFullSize, lastCheckpointSize and numRestarts, each once it is above 0. `failure` is the
    cause of a restart that is under way, `last_failure` that of the last one, which may be over.

    `operators` holds the figures of each operator, combined over its subtasks, by operator id.
    """

    job_id: str
    status: JobStatus
    total: Metrics
    operators: dict[Count, Metrics]
    failure: ErrorInfo | None = None
    last_failure: ErrorInfo | None = None


class TaskManagerOverview(msgspec.Struct, frozen=True):
    """`is_blocked`: its host gets no tasks while others have room."""

    task_manager_id: str
    address: str
    slots: Count
    free_slots: Count
    registered_ms: Millis
    last_heartbeat_ms: Millis
    process_id: Count
    cores: Count
    memory_bytes: Count
    is_blocked: bool = False


class JobStatusReply(RpcMessage, frozen=True):
    """`error` is the cause of a job that failed."""

    job_id: str
    status: JobStatus
    error: ErrorInfo | None = None


_encoder = msgspec.msgpack.Encoder()
_control_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ControlMessage)


def encode_message(message: RpcMessage) -> bytes:
    """Any message as msgpack."""
    return _encoder.encode(message)


def decode_control_message(data: bytes) -> ControlMessage:
    """A message between JobManager and TaskManager; msgspec.ValidationError for anything else."""
    message: ControlMessage = _control_decoder.decode(data)
    return message
