"""The events that a JobManager's state machines take in, and the instructions that they return."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from sqlstream.bounds import Count
from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint_statistics import CheckpointKind, CheckpointStatistics
from sqlstream.messages.client_rpc import SavepointStatusReply
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.messages.rescale import RescaleStatus
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import Discovery


class SinkCommit(msgspec.Struct, frozen=True):
    """One sink operator with the committables of all its subtasks, in their order."""

    vertex_id: str
    operator_id: Count
    spec: SinkSpec
    committables: tuple[Committable, ...]


class LoadedCheckpoint(Protocol):
    """A completed checkpoint or savepoint as it was found. `directory` is what the paths of its state files are below, `path` its
    own."""

    @property
    def manifest(self) -> CheckpointManifest: ...

    @property
    def directory(self) -> str: ...

    @property
    def path(self) -> str: ...


class EndedJob(msgspec.Struct, frozen=True):
    """What is kept of a job that has ended. `output_kept_for` are the directories of the checkpoints and the savepoint that it
    leaves with rows that are not committed: who goes on from them commits these rows."""

    job_graph: JobGraph
    details: rpc.JobDetails
    metrics: rpc.JobMetrics
    checkpoints: CheckpointStatistics | None = None
    savepoints: tuple[SavepointStatusReply, ...] = ()
    output_kept_for: tuple[str, ...] = ()
    rescales: tuple[RescaleStatus, ...] = ()


# --- events from outside --------------------------------------------------------------------------


class MessageReceived(msgspec.Struct, frozen=True):
    """A message from the TaskManager that it names."""

    message: rpc.ToJobManager


class SubmitRequested(msgspec.Struct, frozen=True):
    """`restored` is what the job goes on from: the newest first of the checkpoints of an earlier JobManager, or one that
    its settings name. A job that `is_recovered` has run under an earlier JobManager."""

    job_graph: JobGraph
    restored: tuple[LoadedCheckpoint, ...] = ()
    is_recovered: bool = False


class CancelRequested(msgspec.Struct, frozen=True):
    job_id: str


class SuspendRequested(msgspec.Struct, frozen=True):
    """The JobManager ends before the job, which another one may take up again."""

    job_id: str


class JobStored(msgspec.Struct, frozen=True):
    job_id: str


class JobStoreFailed(msgspec.Struct, frozen=True):
    job_id: str
    error: ErrorInfo


class SinksCommitted(msgspec.Struct, frozen=True):
    job_id: str
    checkpoint_id: int


class SinksCommitFailed(msgspec.Struct, frozen=True):
    job_id: str
    checkpoint_id: int
    error: ErrorInfo


class SinksAborted(msgspec.Struct, frozen=True):
    job_id: str


class SplitsDiscovered(msgspec.Struct, frozen=True):
    """An enumerator has looked, for the first time or with news. `state` is what it goes on from after this look, `returns` the
    number of the last GiveBackSplits that the look has taken into account (None: of all that were sent), and `run` that of its
    StartEnumerator."""

    job_id: str
    vertex_id: str
    discovery: Discovery
    state: dict[str, Any] | None = None
    returns: int | None = None
    run: int = 0


class DiscoveryFailed(msgspec.Struct, frozen=True):
    """A table cannot be read. Its enumerator looks no further until it is started again. `run` is that of its StartEnumerator."""

    job_id: str
    vertex_id: str
    error: ErrorInfo
    run: int = 0


class CheckpointStored(msgspec.Struct, frozen=True):
    """The manifest is in the store at `path`, so that the checkpoint is complete."""

    job_id: str
    checkpoint_id: int
    path: str


class CheckpointStoreFailed(msgspec.Struct, frozen=True):
    """The manifest is not in the store, and never will be."""

    job_id: str
    checkpoint_id: int
    error: ErrorInfo


class SavepointRequested(msgspec.Struct, frozen=True):
    """A client asks for a checkpoint or savepoint, under an id of its own. `directory` is the savepoint's own. The job ends with
    a SYNC_SAVEPOINT. `is_last`: it is aligned, and behind it sources read nothing until it is aborted."""

    job_id: str
    trigger_id: str
    kind: CheckpointKind
    directory: str = ""
    is_drain: bool = False
    is_last: bool = False


class RescaleRequested(msgspec.Struct, frozen=True):
    """A client asks for another parallelism of a running job, under an id of its own. `job_graph` has the operators of the
    present one, at that parallelism. It `is_kept` in the store, unless the job has it only as long as its slots allow no more."""

    job_id: str
    trigger_id: str
    job_graph: JobGraph
    is_kept: bool = True


class JobBroken(msgspec.Struct, frozen=True):
    """What the JobMaster of a job has decided could not be carried out: it fails, and nothing else of it is done."""

    job_id: str
    error: Exception


class TaskManagerExited(msgspec.Struct, frozen=True):
    """A resource provider reports that the TaskManager's process has ended, released or not, or could not be started."""

    resource_id: str
    error: ErrorInfo


class MetricsRequested(msgspec.Struct, frozen=True):
    """A client reads the job's figures. The event only asks for fresh ones: `metrics` and `details` return them."""

    job_id: str


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


JobManagerEvent = (
    MessageReceived
    | SubmitRequested
    | CancelRequested
    | SuspendRequested
    | JobStored
    | JobStoreFailed
    | SinksCommitted
    | SinksCommitFailed
    | SinksAborted
    | SplitsDiscovered
    | DiscoveryFailed
    | CheckpointStored
    | CheckpointStoreFailed
    | SavepointRequested
    | RescaleRequested
    | JobBroken
    | TaskManagerExited
    | MetricsRequested
    | Tick
)


# --- events between the machines of one JobManager ------------------------------------------------


class SlotsOffered(msgspec.Struct, frozen=True):
    task_manager_id: str
    address: str
    offers: tuple[rpc.SlotOffer, ...]


class TaskStateChanged(msgspec.Struct, frozen=True):
    update: rpc.TaskStateUpdate


class MetricsReceived(msgspec.Struct, frozen=True):
    metrics: tuple[rpc.TaskMetrics, ...]


class SplitsRequested(msgspec.Struct, frozen=True):
    request: rpc.RequestSplits


class WatermarkReported(msgspec.Struct, frozen=True):
    report: rpc.ReportWatermark


class CheckpointAcknowledged(msgspec.Struct, frozen=True):
    acknowledgement: rpc.AcknowledgeCheckpoint


class CheckpointDeclined(msgspec.Struct, frozen=True):
    decline: rpc.DeclineCheckpoint


class TaskManagerLost(msgspec.Struct, frozen=True):
    """All executions of this registration have ended, whatever their state was."""

    task_manager_id: str
    error: ErrorInfo


class NoTaskManagerLeft(msgspec.Struct, frozen=True):
    """A job lacks slots, no TaskManager is on its way, and the ResourceManager requests none for the present jobs. `registered`
    are there, and may give slots of other jobs that end."""

    error: ErrorInfo
    registered: int = 0


JobMasterEvent = (
    JobStored
    | JobStoreFailed
    | SlotsOffered
    | TaskStateChanged
    | MetricsReceived
    | SplitsRequested
    | WatermarkReported
    | SplitsDiscovered
    | DiscoveryFailed
    | TaskManagerLost
    | NoTaskManagerLeft
    | CancelRequested
    | SuspendRequested
    | MetricsRequested
    | SinksCommitted
    | SinksCommitFailed
    | SinksAborted
    | CheckpointAcknowledged
    | CheckpointDeclined
    | CheckpointStored
    | CheckpointStoreFailed
    | SavepointRequested
    | RescaleRequested
    | Tick
)


# --- instructions ---------------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Send the message to the TaskManager registered as its `task_manager_id`, which listens at `address`."""

    address: str
    message: rpc.ToTaskManager


class StoreJob(msgspec.Struct, frozen=True):
    """Keep the job so that it survives this process; answered by JobStored or JobStoreFailed. One that `is_rescaled` is kept
    with another graph."""

    job_graph: JobGraph
    is_rescaled: bool = False


class RequestSlots(msgspec.Struct, frozen=True):
    """To the ResourceManager: the job of `owner` needs this many slots in all (Flink: declareRequiredResources). `is_gathered`:
    where other such jobs run, since each process in which they run keeps an engine warm. With `least` the
    job can do with so many, and takes what no other job needs of the rest."""

    job_id: str
    slots: int
    is_gathered: bool = False
    owner: str = ""
    least: Count = 0


class WithdrawRequest(msgspec.Struct, frozen=True):
    """The job has all its slots or has given up: it gets no more, and no replacement for a lost one."""

    job_id: str


class KeepSlots(msgspec.Struct, frozen=True):
    """To the ResourceManager: the job needs this many slots from here on, and of those that it has these alone."""

    job_id: str
    allocation_ids: frozenset[str]
    slots: int


class ReleaseSlots(msgspec.Struct, frozen=True):
    """To the ResourceManager: the job needs no slots any more."""

    job_id: str


class GiveUpTaskManager(msgspec.Struct, frozen=True):
    """To the ResourceManager: a task in this TaskManager did not end in time, and its job continues without it."""

    task_manager_id: str


class TaskFailed(msgspec.Struct, frozen=True):
    """To the ResourceManager: a task of the job has failed in this TaskManager, for a reason that may be its host. Once for
    each restart."""

    task_manager_id: str
    job_id: str


class SlotsTaken(msgspec.Struct, frozen=True):
    """To the JobMaster of this job: its slots in this TaskManager are no longer its own, and others come in their place. Whatever
    runs there is ended."""

    job_id: str
    task_manager_id: str
    error: ErrorInfo


class StartEnumerator(msgspec.Struct, frozen=True):
    """Find the splits of this source, on and on if it has no end; answered by SplitsDiscovered or DiscoveryFailed. One that has
    been started before in this `run` looks at once, and goes on from what it has found; another run takes its place, and goes on
    from `state`, by which readers had returned the splits `returned`."""

    job_id: str
    vertex_id: str
    spec: SourceSpec
    parallelism: int
    config: dict[str, str]
    state: dict[str, Any] | None = None
    returned: tuple[dict[str, Any], ...] = ()
    run: int = 0


class GiveBackSplits(msgspec.Struct, frozen=True):
    """Tell the enumerator that these splits could not be read as it has found them. Numbered from 1 for each source and run."""

    job_id: str
    vertex_id: str
    positions: list[dict[str, Any]]
    number: int


class StopEnumerators(msgspec.Struct, frozen=True):
    """Nobody reads the job's sources any more."""

    job_id: str


class ReadTable(msgspec.Struct, frozen=True):
    """A table whose splits are all read. `state` is the last of its enumerator, `config` that of the job."""

    spec: SourceSpec
    state: dict[str, Any]
    config: dict[str, str]


class CommitSinks(msgspec.Struct, frozen=True):
    """Make visible what the sinks wrote for a completed checkpoint; answered by SinksCommitted or SinksCommitFailed. `is_last`:
    the job ends with it, by the end of its input or by a savepoint. `read` are the tables that are read to their end."""

    job_id: str
    checkpoint_id: int
    commits: tuple[SinkCommit, ...]
    is_last: bool = False
    read: tuple[ReadTable, ...] = ()


class AbortSinks(msgspec.Struct, frozen=True):
    """Remove the uncommitted output of a job's finished subtasks; answered by SinksAborted. `end` is how the job ends with it,
    for `error` if it has failed; None when the job is complete."""

    job_id: str
    commits: tuple[SinkCommit, ...]
    end: JobStatus | None = None
    error: ErrorInfo | None = None


class StagedRows(msgspec.Struct, frozen=True):
    """What writers of one sink have staged; `writer_names` as in ConnectorContext."""

    spec: SinkSpec
    writer_names: tuple[str, ...]


class RemoveStagedRows(msgspec.Struct, frozen=True):
    """Remove what attempts have left that others have replaced, while the job goes on. Nothing depends on its success: what stays
    is removed with the job's end."""

    job_id: str
    staged: tuple[StagedRows, ...]


class StoreCheckpoint(msgspec.Struct, frozen=True):
    """Write the manifest, after all that it names; answered by CheckpointStored or CheckpointStoreFailed."""

    job_id: str
    directory: str
    manifest: CheckpointManifest


class DiscardCheckpoint(msgspec.Struct, frozen=True):
    """Remove a checkpoint: its manifest, then its files but those that are `still_needed`; None, of another job's: those that
    other checkpoints in the directory refer to."""

    job_id: str
    directory: str
    manifest: CheckpointManifest
    still_needed: frozenset[str] | None
    config: dict[str, str]


class RemoveAborted(msgspec.Struct, frozen=True):
    """Remove what was written for a checkpoint that was not completed."""

    job_id: str
    directory: str
    checkpoint_id: int
    config: dict[str, str]


class RemoveCheckpoints(msgspec.Struct, frozen=True):
    """The job has ended: remove the directory of its checkpoints with all that is in it."""

    job_id: str
    directory: str
    config: dict[str, str]


class RemoveJob(msgspec.Struct, frozen=True):
    """The job has ended: delete what StoreJob kept, and keep `ended` instead. Only then are the `removals` carried out: a job
    that is still kept runs again when this process dies, and behind its commits only from its checkpoints."""

    job_id: str
    ended: EndedJob
    removals: tuple[DiscardCheckpoint | RemoveCheckpoints, ...] = ()


class RescaleEnded(msgspec.Struct, frozen=True):
    """The job runs with the parallelism `parallelism`: it was rescaled to it, or was not to another one for the reason."""

    job_id: str
    parallelism: int
    error: ErrorInfo | None


class JobFinished(msgspec.Struct, frozen=True):
    """The job reached its final state. `is_broken`: its JobMaster broke off, and nothing that it says of itself counts."""

    job_id: str
    status: JobStatus
    error: ErrorInfo | None
    is_broken: bool = False


class StopGivenUp(msgspec.Struct, frozen=True):
    """The savepoint with which the job was to stop has failed, and the job runs on."""

    job_id: str


class Noted(msgspec.Struct, frozen=True):
    """A line for the log: what has happened to the job, or to the cluster when `job_id` is empty."""

    text: str
    job_id: str = ""
    is_warning: bool = True


class RequestTaskManagers(msgspec.Struct, frozen=True):
    """Start one TaskManager under each of these resource ids; TaskManagerExited has to follow for each that ends, or cannot
    be started."""

    resource_ids: tuple[str, ...]


class ReleaseTaskManager(msgspec.Struct, frozen=True):
    """End this TaskManager's process; TaskManagerExited has to follow. One that `is_lost` was silent for too long, or a task
    in it is stuck; another one is idle and ends itself when it is told to."""

    resource_id: str
    is_lost: bool


JobMasterInstruction = (
    Send
    | StoreJob
    | RequestSlots
    | WithdrawRequest
    | KeepSlots
    | ReleaseSlots
    | GiveUpTaskManager
    | TaskFailed
    | StartEnumerator
    | GiveBackSplits
    | StopEnumerators
    | CommitSinks
    | AbortSinks
    | RemoveStagedRows
    | StoreCheckpoint
    | DiscardCheckpoint
    | RemoveAborted
    | RemoveCheckpoints
    | RescaleEnded
    | StopGivenUp
    | Noted
    | JobFinished
)
ResourceManagerInstruction = (
    Send | TaskManagerLost | SlotsTaken | NoTaskManagerLeft | RequestTaskManagers | ReleaseTaskManager | Noted
)
JobManagerInstruction = (
    Send
    | StoreJob
    | RemoveJob
    | StartEnumerator
    | GiveBackSplits
    | StopEnumerators
    | CommitSinks
    | AbortSinks
    | RemoveStagedRows
    | StoreCheckpoint
    | DiscardCheckpoint
    | RemoveAborted
    | RemoveCheckpoints
    | RescaleEnded
    | StopGivenUp
    | Noted
    | JobFinished
    | RequestTaskManagers
    | ReleaseTaskManager
)
