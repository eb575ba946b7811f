"""A JobMaster whose tasks, store and committer answer as a test says."""

from __future__ import annotations

from typing import Any

import msgspec
from kept_checkpoints import KeptCheckpoint

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, SubtaskState, TableState
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    AcknowledgeCheckpoint,
    CheckpointAborted,
    CheckpointCompleted,
    DeclineCheckpoint,
    DeployTask,
    SinkCommittables,
    SlotOffer,
    TaskDeploymentDescriptor,
    TaskStateUpdate,
    TriggerCheckpoint,
)
from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CheckpointAcknowledged,
    CheckpointDeclined,
    CheckpointStored,
    CheckpointStoreFailed,
    CommitSinks,
    JobStored,
    Send,
    SinksCommitted,
    SlotsOffered,
    StoreCheckpoint,
    TaskStateChanged,
    Tick,
)
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.restart_strategy import FixedDelay
from sqlstream.spi.committable import Committable

BROKEN = ErrorInfo(code="SS5002", message="bad row", reason=FailureReason.OPERATOR_FAILED)
DISK_FULL = ErrorInfo(code="SS5001", message="disk full", reason=FailureReason.EXTERNAL)
TORN = ErrorInfo(code="SS6210", message="torn", reason=FailureReason.CHECKPOINT_CORRUPT)
EVERY_SECOND = {"execution.checkpointing.interval": "1 s"}
ROOT = "/chk"


def rows(name: str, checkpoint_id: int) -> Committable:
    """What the writer of an attempt has written before a checkpoint."""
    return Committable("j1", checkpoint_id, f"writer of {name}", 0, {"file": f"{name}-{checkpoint_id}"})


def state_of(execution_id: str, checkpoint_id: int, *earlier: int) -> SubtaskState:
    """One table, whose segments are in the files of these checkpoints."""
    segments = tuple(
        StateSegment(f"shared/{execution_id}-{n}.arrow", 0, 8, 1, 1, 0, 127)
        for n in (*earlier, checkpoint_id)
    )
    return SubtaskState((SavedOperator(1, (TableState("t", True, segments),)),))


class Master:
    """State: the JobMaster, the time, and what it has instructed since the last look."""

    def __init__(
        self,
        job: JobGraph,
        *,
        restarts: int = 3,
        restored: tuple[KeptCheckpoint, ...] = (),
        restored_only: bool = False,
    ) -> None:
        config = JobMasterConfig(
            "jm:1",
            resend_ms=500,
            restart_strategy=lambda: FixedDelay(restarts, 100),
            checkpoint_directory=ROOT,
        )
        self.now_ms = 0
        self.master = JobMaster(job, config, 0, restored)
        self.out: list[Any] = []
        self.handle(JobStored("j1"))
        slots = range(max(v.parallelism for v in job.vertices))
        self.handle(SlotsOffered("tm0#0", "tm0:1", tuple(SlotOffer(n, f"a{n}") for n in slots)))
        if not restored_only:
            self.run_all()

    # --- what happens

    def handle(self, event: Any) -> None:
        self.out += self.master.handle(event, self.now_ms)

    def tick(self, ms: int = 0) -> None:
        self.now_ms += ms
        self.handle(Tick())

    def run_all(self) -> None:
        for execution in list(self.master.graph.executions()):
            if not execution.is_terminal:
                self.report(execution.execution_id, ExecutionState.RUNNING)

    def report(
        self,
        execution_id: str,
        state: ExecutionState,
        error: ErrorInfo | None = None,
        *written: Committable,
    ) -> None:
        subtask = self.master.graph.find(execution_id)
        assert subtask is not None
        committables = (SinkCommittables(1, written),) if written else ()
        sequence = subtask.execution.last_sequence + 1
        update = TaskStateUpdate(
            self.place_of(execution_id), "j1", execution_id, sequence, state, error, committables
        )
        self.handle(TaskStateChanged(update))

    def place_of(self, execution_id: str) -> str:
        subtask = self.master.graph.find(execution_id)
        return (subtask.execution.task_manager_id if subtask is not None else "") or "tm0#0"

    def fail(self, execution_id: str, error: ErrorInfo = BROKEN) -> None:
        """The task fails, the others end, and the time until the restart passes."""
        self.report(execution_id, ExecutionState.FAILED, error)
        for execution in list(self.master.graph.executions()):
            if execution.state is ExecutionState.CANCELING:
                self.report(execution.execution_id, ExecutionState.CANCELED)
        self.tick(100)

    def acknowledge(
        self,
        execution_id: str,
        checkpoint_id: int,
        *written: Committable,
        state: SubtaskState | None = None,
    ) -> None:
        committables = (SinkCommittables(1, written),) if written else ()
        state = state_of(execution_id, checkpoint_id) if state is None else state
        ack = AcknowledgeCheckpoint(
            self.place_of(execution_id), "j1", execution_id, checkpoint_id, state, committables
        )
        self.handle(CheckpointAcknowledged(ack))

    def acknowledge_all(self, checkpoint_id: int) -> None:
        """Sinks, whose execution ids have the vertex 1, have written one file each."""
        for execution in list(self.master.graph.executions()):
            if execution.state is ExecutionState.RUNNING:
                name = execution.execution_id
                written = (rows(name, checkpoint_id),) if name.startswith("j1-1-") else ()
                self.acknowledge(name, checkpoint_id, *written)

    def decline(self, execution_id: str, checkpoint_id: int) -> None:
        self.handle(
            CheckpointDeclined(
                DeclineCheckpoint(self.place_of(execution_id), "j1", execution_id, checkpoint_id, DISK_FULL)
            )
        )

    def stored(self, checkpoint_id: int) -> None:
        self.handle(CheckpointStored("j1", checkpoint_id, f"{ROOT}/j1/chk-{checkpoint_id}"))

    def not_stored(self, checkpoint_id: int, error: ErrorInfo = DISK_FULL) -> None:
        self.handle(CheckpointStoreFailed("j1", checkpoint_id, error))

    def committed(self, checkpoint_id: int) -> None:
        self.handle(SinksCommitted("j1", checkpoint_id))

    def complete(self, checkpoint_id: int) -> None:
        """The next checkpoint comes, is acknowledged, stored and committed."""
        self.complete_uncommitted(checkpoint_id)
        self.committed(checkpoint_id)

    def complete_uncommitted(self, checkpoint_id: int) -> None:
        self.tick(1000)
        self.acknowledge_all(checkpoint_id)
        self.stored(checkpoint_id)

    # --- what came of it

    def taken(self, kind: type) -> list[Any]:
        """The instructions of a kind, and messages of it, since the last look; all others are forgotten."""
        found = [i for i in self.out if isinstance(i, kind)]
        found += [i.message for i in self.out if isinstance(i, Send) and isinstance(i.message, kind)]
        self.out = []
        return found

    def triggered(self) -> list[tuple[str, int]]:
        return [(m.execution_id, m.checkpoint_id) for m in self.taken(TriggerCheckpoint)]

    def fates(self) -> dict[str, set[str]]:
        """What the tasks were told of which checkpoint."""
        kinds = {CheckpointCompleted: "completed", CheckpointAborted: "aborted"}
        told: dict[str, set[str]] = {}
        for i in self.out:
            if isinstance(i, Send) and type(i.message) in kinds:
                message: Any = i.message
                word = f"{kinds[type(message)]} {message.checkpoint_id}"
                told.setdefault(word, set()).add(message.execution_id)
        self.out = []
        return told

    def commits(self) -> list[tuple[int, list[str]]]:
        return [
            (c.checkpoint_id, [w.content["file"] for sink in c.commits for w in sink.committables])
            for c in self.taken(CommitSinks)
        ]

    def aborts(self) -> list[str]:
        return [
            w.content["file"] for a in self.taken(AbortSinks) for sink in a.commits for w in sink.committables
        ]

    def manifest(self) -> KeptCheckpoint:
        """The one that is to be stored, as if it were."""
        (store,) = self.taken(StoreCheckpoint)
        path = f"{store.directory}/chk-{store.manifest.checkpoint_id}"
        return KeptCheckpoint(store.manifest, store.directory, path)

    def deployed(self) -> dict[str, TaskDeploymentDescriptor]:
        return {m.descriptor.execution_id: m.descriptor for m in self.taken(DeployTask)}

    @property
    def history(self) -> list[tuple[int, str, str]]:
        """Newest first: id, status and the message of the failure."""
        statistics = self.master.checkpoints.statistics()
        return [(r.id, r.status.value, r.error.message if r.error else "") for r in statistics.history]


def with_config(job: JobGraph, **changes: str) -> JobGraph:
    config = {key.replace("_", "-"): value for key, value in changes.items()}
    return msgspec.structs.replace(
        job, config=EVERY_SECOND | {f"execution.checkpointing.{k}": v for k, v in config.items()}
    )
