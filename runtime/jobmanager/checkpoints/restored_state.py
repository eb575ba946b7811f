"""What of a checkpoint or savepoint belongs to which operator of a job, which may be another job than the one that saved it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from runtime.jobmanager.checkpoints.build_manifest import committables_of, positions_of
from runtime.jobmanager.checkpoints.completed_checkpoints import (
    CompletedCheckpoint,
    Positions,
    RestorableVertex,
)
from runtime.jobmanager.checkpoints.saved_secrets import check_secrets, with_secrets
from runtime.jobmanager.events import LoadedCheckpoint
from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, SavedCommit, VertexState
from sqlstream.specs import SinkSpec, SourceSpec, ValuesSpec

NAMES_SHOWN_MAX = 10


def restorable_checkpoint(
    loaded: LoadedCheckpoint, job: JobGraph, *, is_owned: bool, ignores_unclaimed: bool
) -> CompletedCheckpoint:
    """The checkpoint with its state by the vertices of the job, whose operators find theirs by uid. UserError SS6204 when an
    operator of the checkpoint has state that none of the job takes, SS6205 when the number of key groups differs, and SS6222 when
    rows were under way between tasks that the job does not have; SS6271 when it does not have the password of a sink."""
    manifest = loaded.manifest
    _check_in_flight(manifest, job, loaded.path)
    check_secrets(manifest, job, loaded.path)
    saved = {o.uid: (v, o) for v in manifest.vertices for o in v.operators}
    vertices: dict[str, RestorableVertex] = {}
    for vertex in job.vertices:
        found = {saved[o.uid][1].id: (saved[o.uid][0], o.id) for o in vertex.operators if o.uid in saved}
        if found:
            _check_key_groups(vertex, [v for v, _ in found.values()], loaded.path)
            vertices[vertex.id] = _restorable_vertex(vertex, found)
    if not ignores_unclaimed:
        _check_unclaimed(manifest, job, loaded.path)
    return CompletedCheckpoint(manifest, loaded.directory, loaded.path, vertices, is_owned)


def enumerators_of(manifest: CheckpointManifest, job: JobGraph) -> dict[str, dict[str, Any]]:
    """What no reader had got, by the vertices of the job."""
    heads = {v.operators[0].uid: v.vertex_id for v in manifest.vertices}
    ids = ((v.id, heads.get(v.operators[0].uid)) for v in job.vertices)
    return {new: manifest.enumerators[old] for new, old in ids if old in manifest.enumerators}


def source_states(manifest: CheckpointManifest, job: JobGraph) -> list[VertexState]:
    """The vertices that read sources, under their ids in the job."""
    ids = {v.operators[0].uid: v.id for v in job.vertices}
    saved = ((v, ids.get(v.operators[0].uid)) for v in manifest.vertices)
    return [replace(v, vertex_id=new) for v, new in saved if new is not None]


def commits_by_checkpoint(manifest: CheckpointManifest, job: JobGraph) -> dict[int, list[SavedCommit]]:
    """The commits to repeat, in the order of their checkpoints. At another parallelism, what finished subtasks left for the end
    of the job is among them, as no subtask of the present job has it."""
    found: dict[int, list[SavedCommit]] = {}
    commits = sorted(manifest.commits, key=lambda c: c.checkpoint_id)
    for commit in (*commits, *_left_by_finished(manifest, job)):
        found.setdefault(commit.checkpoint_id, []).append(with_secrets(commit, manifest, job))
    return found


def _left_by_finished(manifest: CheckpointManifest, job: JobGraph) -> Iterator[SavedCommit]:
    present = {o.uid: (v, o) for v in job.vertices for o in v.operators}
    for old in manifest.vertices:
        uids = {o.id: o.uid for o in old.operators}
        for sink in (s for subtask in old.committables for s in subtask):
            vertex, operator = present.get(uids[sink.operator_id], (None, None))
            if vertex is None or operator is None or vertex.parallelism == old.parallelism:
                continue
            assert isinstance(operator.spec, SinkSpec)
            yield SavedCommit(
                manifest.checkpoint_id, vertex.id, operator.id, operator.spec, sink.committables
            )


def _restorable_vertex(vertex: JobVertex, found: dict[int, tuple[VertexState, int]]) -> RestorableVertex:
    """`found` has the saved vertex and the present id of an operator by its saved id."""
    olds = list({v.vertex_id: v for v, _ in found.values()}.values())
    ids = {saved_id: new_id for saved_id, (_, new_id) in found.items()}
    count = max(len(v.subtasks) for v in olds)
    states = tuple(_merged([v.subtasks[i] for v in olds if i < len(v.subtasks)], ids) for i in range(count))
    is_same = all(v.parallelism == vertex.parallelism for v in olds)
    if is_same:
        finished = tuple(all(v.finished[i] for v in olds) for i in range(vertex.parallelism))
    else:
        finished = (all(all(v.finished) for v in olds),) * vertex.parallelism
    committables = committables_of(olds[0]) if is_same else ((),) * vertex.parallelism
    renamed = tuple(
        tuple(replace(s, operator_id=ids[s.operator_id]) for s in subtask if s.operator_id in ids)
        for subtask in committables
    )
    head = next((v for v in olds if v.operators[0].id in ids), None)
    return RestorableVertex(states, _positions(vertex, head), finished, renamed)


def _merged(states: Sequence[SubtaskState], ids: dict[int, int]) -> SubtaskState:
    operators = (o for state in states for o in state.operators if o.operator_id in ids)
    # Only a job of the same vertices goes on from items in flight.
    in_flight = tuple(items for state in states for items in state.in_flight)
    renamed = tuple(replace(o, operator_id=ids[o.operator_id]) for o in operators)
    return SubtaskState(renamed, in_flight=in_flight)


def _positions(vertex: JobVertex, head: VertexState | None) -> tuple[Positions | None, ...]:
    """Those of the readers; at another parallelism they are shared out in turn."""
    if head is None or not isinstance(vertex.operators[0].spec, SourceSpec | ValuesSpec):
        return (None,) * vertex.parallelism
    if head.parallelism == vertex.parallelism:
        return positions_of(head)
    positions = [p for state in head.subtasks for p in state.splits or ()]
    return tuple(tuple(positions[i :: vertex.parallelism]) for i in range(vertex.parallelism))


def _check_key_groups(vertex: JobVertex, saved: Iterable[VertexState], path: str) -> None:
    for old in saved:
        if old.max_parallelism != vertex.max_parallelism:
            raise UserError(
                "SS6205",
                f'"{vertex.name}" has {vertex.max_parallelism} key groups, and {old.max_parallelism} in "{path}"',
                hint=f"set 'pipeline.max-parallelism' to {old.max_parallelism}, and no parallelism above it",
            )


def _check_in_flight(manifest: CheckpointManifest, job: JobGraph, path: str) -> None:
    """Items in flight belong to channels, which are there again only between the same subtasks of the same vertices."""
    if not any(state.in_flight for v in manifest.vertices for state in v.subtasks):
        return
    saved = [(v.parallelism, [o.uid for o in v.operators]) for v in manifest.vertices]
    if saved != [(v.parallelism, [o.uid for o in v.operators]) for v in job.vertices]:
        raise UserError(
            "SS6222",
            f'"{path}" is an unaligned checkpoint, which goes on with the same statement and parallelism only',
            hint="take a savepoint, which is always aligned, to go on with others",
        )


def _check_unclaimed(manifest: CheckpointManifest, job: JobGraph, path: str) -> None:
    claimed = {o.uid for v in job.vertices for o in v.operators}
    lost = [
        o.description or o.name
        for v in manifest.vertices
        for o in v.operators
        if o.uid not in claimed and _has_state(manifest, v, o)
    ]
    if not lost:
        return
    names = ", ".join(f'"{name}"' for name in lost[:NAMES_SHOWN_MAX])
    others = len(lost) - NAMES_SHOWN_MAX
    raise UserError(
        "SS6204",
        f'"{path}" has state that no operator of the job takes: {names}{f" and {others} others" if others > 0 else ""}',
        hint="go on with the statement that was saved, or SET 'execution.state-recovery.ignore-unclaimed-state' = 'true' "
        "to leave that state out",
    )


def _has_state(manifest: CheckpointManifest, vertex: VertexState, operator: OperatorIdentity) -> bool:
    is_head = operator is vertex.operators[0]
    if is_head and (vertex.vertex_id in manifest.enumerators or any(s.splits for s in vertex.subtasks)):
        return True
    tables = (
        t for s in vertex.subtasks for o in s.operators if o.operator_id == operator.id for t in o.tables
    )
    return any(segment.rows for table in tables for segment in table.segments)


def restored_checkpoints(
    loaded: Iterable[LoadedCheckpoint], job: JobGraph, directory: str
) -> tuple[CompletedCheckpoint, ...]:
    """What a job goes on from: it owns what lies in its own `directory`, and what its settings claim. Older ones than the first
    may be those of another parallelism."""
    claims = options.get(job.config, "execution.state-recovery.claim-mode") == "CLAIM"
    ignores: bool = options.get(job.config, "execution.state-recovery.ignore-unclaimed-state")
    found: list[CompletedCheckpoint] = []
    for each in loaded:
        is_owned = claims or each.directory == directory
        try:
            found.append(restorable_checkpoint(each, job, is_owned=is_owned, ignores_unclaimed=ignores))
        except UserError:
            if not found:
                raise
            found.append(_unusable(each, is_owned))
    return tuple(found)


def rescaled_checkpoint(kept: CompletedCheckpoint, job: JobGraph) -> CompletedCheckpoint:
    """The same for other subtasks of the same operators. One with rows in flight is of no use to them."""
    try:
        found = restorable_checkpoint(kept, job, is_owned=kept.is_owned, ignores_unclaimed=True)
    except UserError:
        return _unusable(kept, kept.is_owned)
    return dataclasses.replace(found, is_usable=kept.is_usable)


def _unusable(loaded: LoadedCheckpoint, is_owned: bool) -> CompletedCheckpoint:
    """Kept until a later one is complete, as its files may belong to that, too."""
    return CompletedCheckpoint(loaded.manifest, loaded.directory, loaded.path, {}, is_owned, is_usable=False)
