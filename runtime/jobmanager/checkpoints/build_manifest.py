"""What a checkpoint that every subtask has acknowledged is stored as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from sqlstream.graph.artifacts import PYTHON, Artifact
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.graph.operator_inputs import OperatorInputs, operator_inputs
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, SubtaskState, TableState
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import (
    CheckpointManifest,
    OperatorIdentity,
    SavedCommit,
    VertexState,
)
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_coordinator import PendingCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import Positions, RestorableVertex
from sqlstream.runtime.jobmanager.events import SinkCommit
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.metrics import add_operators, counters_of
from sqlstream.specs import BackfillSpec, SourceSpec, ValuesSpec


def build_manifest(
    pending: PendingCheckpoint,
    graph: ExecutionGraph,
    enumerators: dict[str, dict[str, Any]],
    commits: Mapping[int, tuple[SinkCommit, ...]],
    committed_id: int,
    restored_from: str,
    now_ms: int,
) -> CheckpointManifest:
    """`commits` are its own and those of earlier checkpoints that may not have been carried out, and `committed_id` the newest
    one that has begun. Times are those of the steady clock."""
    job = graph.job_graph
    inputs = operator_inputs(job)
    return CheckpointManifest(
        job.job_id,
        job.name,
        pending.checkpoint_id,
        pending.kind,
        pending.started_ms,
        now_ms,
        tuple(_vertex_state(subtasks, pending, inputs) for subtasks in graph.vertices.values()),
        enumerators,
        tuple(saved for n, of_checkpoint in commits.items() for saved in _saved(n, of_checkpoint)),
        restored_from,
        job.config,
        is_drained=pending.is_drain,
        artifacts=_own_artifacts(job),
        committed_id=committed_id,
    )


def _saved(checkpoint_id: int, commits: tuple[SinkCommit, ...]) -> list[SavedCommit]:
    return [SavedCommit(checkpoint_id, c.vertex_id, c.operator_id, c.spec, c.committables) for c in commits]


def _vertex_state(
    subtasks: tuple[ExecutionVertex, ...], pending: PendingCheckpoint, inputs: Mapping[int, OperatorInputs]
) -> VertexState:
    vertex = subtasks[0].vertex
    acknowledgements = [pending.acknowledged.get(s.execution.execution_id) for s in subtasks]
    return VertexState(
        vertex.id,
        vertex.name,
        vertex.parallelism,
        vertex.max_parallelism,
        _identities(vertex, inputs),
        tuple(
            _with_counts(s, ack.state if ack is not None else None)
            for s, ack in zip(subtasks, acknowledgements, strict=True)
        ),
        tuple(ack is None for ack in acknowledgements),
    )


def _identities(vertex: JobVertex, inputs: Mapping[int, OperatorInputs]) -> tuple[OperatorIdentity, ...]:
    return tuple(
        OperatorIdentity(o.id, o.uid, o.name, o.description, o.state, inputs[o.id]) for o in vertex.operators
    )


def _with_counts(subtask: ExecutionVertex, saved: SubtaskState | None) -> SubtaskState:
    """With what the job has counted since it began. None: the subtask had finished."""
    if saved is None:
        metrics = subtask.execution.metrics
        saved = SubtaskState(counted=counters_of(metrics.operators) if metrics is not None else {})
    return replace(saved, counted=add_operators(subtask.counted, saved.counted))


def foreseen_manifest(job: JobGraph) -> CheckpointManifest:
    """The savepoint of a job that runs, as far as its graph tells: every operator that may have state has some, and each source
    stands at a place of its own."""
    inputs = operator_inputs(job)
    vertices = []
    for vertex in job.vertices:
        reads = isinstance(vertex.operators[0].spec, SourceSpec | ValuesSpec | BackfillSpec)
        saved = SubtaskState(
            tuple(
                SavedOperator(o.id, (TableState("", True, (_SOMETHING,)),))
                for o in vertex.operators
                if o.spec.kept_state()
            ),
            splits=({"vertex": vertex.id},) if reads else None,
        )
        vertices.append(
            VertexState(
                vertex.id,
                vertex.name,
                vertex.parallelism,
                vertex.max_parallelism,
                _identities(vertex, inputs),
                (saved,) * vertex.parallelism,
                (False,) * vertex.parallelism,
            )
        )
    return CheckpointManifest(
        job.job_id,
        job.name,
        0,
        CheckpointKind.SAVEPOINT,
        0,
        0,
        tuple(vertices),
        {},
        (),
        config=job.config,
        artifacts=_own_artifacts(job),
    )


def _own_artifacts(job: JobGraph) -> tuple[Artifact, ...]:
    return tuple(a for a in job.artifacts if not a.name.startswith(PYTHON))


_SOMETHING = StateSegment("", 0, 0, 0, 1, 0, 0)


def restorable_vertices(manifest: CheckpointManifest) -> dict[str, RestorableVertex]:
    """For a job with the same vertices and the same parallelism as the one that has saved it."""
    return {v.vertex_id: RestorableVertex(v.subtasks, positions_of(v), v.finished) for v in manifest.vertices}


def positions_of(vertex: VertexState) -> tuple[Positions | None, ...]:
    """Those of the readers of its sources. A subtask that had finished has none left."""
    return tuple(
        () if is_finished and vertex.is_source else state.splits
        for state, is_finished in zip(vertex.subtasks, vertex.finished, strict=True)
    )
