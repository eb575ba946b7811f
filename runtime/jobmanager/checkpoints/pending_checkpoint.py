"""A checkpoint of which not every subtask has acknowledged its part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlstream.errors import ErrorInfo
from sqlstream.messages.checkpoint_statistics import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointStatus,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.manifest import paths_of
from sqlstream.messages.rpc import AcknowledgeCheckpoint
from sqlstream.runtime.jobmanager.execution_graph import ExecutionVertex


@dataclass
class PendingCheckpoint:
    """`awaited` are the subtasks whose acknowledgements are missing, by execution id; those that had finished take no part.
    `directory` is that of a savepoint. `is_last`: its job ends, or all its tasks do, and sources read nothing behind it.
    `is_storing` once the manifest is being written."""

    checkpoint_id: int
    kind: CheckpointKind
    started_ms: int
    awaited: dict[str, ExecutionVertex]
    directory: str = ""
    trigger_id: str = ""
    is_drain: bool = False
    is_last: bool = False
    is_storing: bool = False
    sent_ms: int = 0
    acknowledged: dict[str, AcknowledgeCheckpoint] = field(default_factory=dict)
    acknowledged_ms: dict[str, int] = field(default_factory=dict)
    subtasks: tuple[ExecutionVertex, ...] = ()
    execution_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.subtasks, self.execution_ids = tuple(self.awaited.values()), tuple(self.awaited)

    def acknowledge(self, acknowledgement: AcknowledgeCheckpoint, now_ms: int) -> bool:
        """Whether it was the last one that was missing; False for a repetition and for a stranger."""
        execution_id = acknowledgement.execution_id
        if self.awaited.pop(execution_id, None) is None:
            return False
        self.acknowledged[execution_id] = acknowledgement
        self.acknowledged_ms[execution_id] = now_ms
        return self.is_acknowledged

    @property
    def is_acknowledged(self) -> bool:
        """Whether no acknowledgement is missing."""
        return not self.awaited

    def assignment_of(self, execution_id: str) -> int | None:
        """The last assignment that a reader had got; None for a task that had finished."""
        acknowledged = self.acknowledged.get(execution_id)
        return acknowledged.state.assignment if acknowledged is not None else None

    def paths(self) -> frozenset[str]:
        """The files of state that the acknowledgements so far refer to."""
        return paths_of(ack.state for ack in self.acknowledged.values())

    def first_missing(self) -> str:
        """The subtask that has not acknowledged, the first by the job's order; empty when none is missing."""
        return task_name(next(iter(self.awaited.values()))) if self.awaited else ""

    def record(
        self,
        status: CheckpointStatus = CheckpointStatus.IN_PROGRESS,
        ended_ms: int = -1,
        path: str = "",
        error: ErrorInfo | None = None,
        failed_task: str = "",
    ) -> CheckpointRecord:
        return CheckpointRecord(
            self.checkpoint_id,
            self.kind,
            status,
            self.started_ms,
            ended_ms,
            tuple(self._vertices()),
            path,
            error,
            failed_task,
        )

    def _vertices(self) -> Iterator[VertexCheckpoint]:
        parts: dict[str, list[SubtaskCheckpoint]] = {}
        for execution_id, subtask in zip(self.execution_ids, self.subtasks, strict=True):
            ack = self.acknowledged.get(execution_id)
            part = SubtaskCheckpoint(subtask.subtask)
            if ack is not None:
                part = SubtaskCheckpoint(subtask.subtask, self.acknowledged_ms[execution_id], ack.figures)
            parts.setdefault(subtask.vertex.id, []).append(part)
        vertices = {s.vertex.id: s.vertex for s in self.subtasks}
        for vertex_id, found in parts.items():
            vertex = vertices[vertex_id]
            yield VertexCheckpoint(vertex_id, vertex.name, vertex.parallelism, tuple(found))


def task_name(subtask: ExecutionVertex) -> str:
    """As `SHOW CHECKPOINTS` gives it: `window (1/2)`."""
    return f"{subtask.vertex.name} ({subtask.subtask + 1}/{subtask.vertex.parallelism})"
