"""What of a checkpoint or savepoint belongs to which operator of a job, which may be another job than the one that saved it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.checkpoint import Arrivals, SavedOperator, SubtaskState
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, SavedCommit, VertexState
from sqlstream.runtime.checkpoint.manifest_file import corrupt_checkpoint
from sqlstream.runtime.jobmanager.checkpoints.build_manifest import positions_of
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import (
    CompletedCheckpoint,
    Positions,
    RestorableVertex,
)
from sqlstream.runtime.jobmanager.checkpoints.lineage import Claim
from sqlstream.runtime.jobmanager.checkpoints.rescaled_in_flight import arrivals_of, has_other_parallelism
from sqlstream.runtime.jobmanager.checkpoints.state_claims import begun_empty, claims_of, left_out
from sqlstream.runtime.jobmanager.events import LoadedCheckpoint
from sqlstream.secrets import MASK, masked
from sqlstream.specs import BackfillSpec, SinkSpec, SourceSpec, ValuesSpec

NAMES_SHOWN_MAX = 10


def restorable_checkpoint(
    loaded: LoadedCheckpoint, job: JobGraph, *, is_owned: bool, ignores_unclaimed: bool
) -> CompletedCheckpoint:
    """The checkpoint with its state by the vertices of the job. UserError SS6204 when an operator of the checkpoint has state
    that none of the job takes, or a source has several positions to go on at, SS6205 when the number of key groups differs,
    SS6222 when rows were under way between tasks that the job does not have, and SS6271 when it does not have the password of a
    sink."""
    manifest = loaded.manifest
    _check_in_flight(manifest, job, loaded.path)
    check_secrets(manifest, job, loaded.path)
    claims = claims_of(manifest, job)
    unclaimed, empty = left_out(manifest, claims), begun_empty(job, claims)
    if unclaimed and not ignores_unclaimed:
        raise _unclaimed_error(unclaimed, empty, loaded.path)
    vertices: dict[str, RestorableVertex] = {}
    for vertex in job.vertices:
        found = [(claims[o.id], o) for o in vertex.operators if o.id in claims]
        if found:
            _check_key_groups(vertex, [claim.vertex for claim, _ in found], loaded.path)
            vertices[vertex.id] = _restorable_vertex(vertex, found, manifest)
    if manifest.has_in_flight and has_other_parallelism(manifest, job):
        arrivals = arrivals_of(manifest, job, loaded.path)
        vertices = {id: _with_arrivals(vertex, arrivals.get(id)) for id, vertex in vertices.items()}
    return CompletedCheckpoint(
        manifest, loaded.directory, loaded.path, vertices, is_owned, left_out=unclaimed, begun_empty=empty
    )


def _with_arrivals(vertex: RestorableVertex, arrivals: Arrivals | None) -> RestorableVertex:
    """No item is for the subtask that it was for, and no channel is the one that it was."""
    states = tuple(replace(state, in_flight=(), channels=()) for state in vertex.states)
    return dataclasses.replace(vertex, states=states, arrivals=arrivals)


def sources_of(
    manifest: CheckpointManifest, job: JobGraph
) -> tuple[dict[str, dict[str, Any]], list[VertexState]]:
    """What no reader had got, by the vertices of the job, and the saved vertices whose heads go on, under their ids in it."""
    heads = [(vertex.id, saved) for vertex, saved in _heads(manifest, job)]
    enumerators = {
        new: manifest.enumerators[saved.vertex_id]
        for new, saved in heads
        if saved.vertex_id in manifest.enumerators
    }
    return enumerators, [replace(saved, vertex_id=new) for new, saved in heads]


def _heads(manifest: CheckpointManifest, job: JobGraph) -> Iterator[tuple[JobVertex, VertexState]]:
    """The vertices of the job whose head goes on with that of a saved vertex."""
    claims = claims_of(manifest, job)
    for vertex in job.vertices:
        claim = claims.get(vertex.operators[0].id)
        if claim is not None and claim.operator is claim.vertex.operators[0]:
            yield vertex, claim.vertex


def commits_by_checkpoint(manifest: CheckpointManifest, job: JobGraph) -> dict[int, list[SavedCommit]]:
    """The commits to repeat, in the order of their checkpoints."""
    found: dict[int, list[SavedCommit]] = {}
    for commit in sorted(manifest.commits, key=lambda c: c.checkpoint_id):
        found.setdefault(commit.checkpoint_id, []).append(with_secrets(commit, manifest, job))
    return found


def _restorable_vertex(
    vertex: JobVertex, found: list[tuple[Claim, ChainedOperator]], manifest: CheckpointManifest
) -> RestorableVertex:
    olds = list({c.vertex.vertex_id: c.vertex for c, _ in found}.values())
    taken = {c.operator.id: (c.operator, operator) for c, operator in found}
    count = max(len(v.subtasks) for v in olds)
    states = tuple(_merged([v.subtasks[i] for v in olds if i < len(v.subtasks)], taken) for i in range(count))
    if not manifest.has_in_flight:
        # The job may have other channels.
        states = tuple(replace(state, channels=()) for state in states)
    is_own = all(v.parallelism == vertex.parallelism for v in olds)
    if is_own:
        finished = tuple(all(v.finished[i] for v in olds) for i in range(vertex.parallelism))
    else:
        finished = (all(all(v.finished) for v in olds),) * vertex.parallelism
    head = next((v for v in olds if v.operators[0].id in taken), None)
    return RestorableVertex(states, _positions(vertex, head), finished, is_own)


def _merged(
    states: Sequence[SubtaskState], taken: dict[int, tuple[OperatorIdentity, ChainedOperator]]
) -> SubtaskState:
    operators = (o for state in states for o in state.operators if o.operator_id in taken)
    # Only a job of the same vertices goes on from items in flight.
    in_flight = tuple(items for state in states for items in state.in_flight)
    channels = next((state.channels for state in states if state.channels), ())
    renamed = tuple(_renamed(o, *taken[o.operator_id]) for o in operators)
    return SubtaskState(renamed, in_flight=in_flight, channels=channels)


def _renamed(saved: SavedOperator, old: OperatorIdentity, new: ChainedOperator) -> SavedOperator:
    """Under the names that the operator of the job has for its tables, and with their columns in its order."""
    parts: dict[str, str] = {}
    orders: dict[str, tuple[int, ...]] = {}
    if old.state is not None and new.state is not None:
        parts = dict(zip(old.state.parts, new.state.parts, strict=True))
        orders = {n.table: n.order(o) for o, n in zip(old.state.rows, new.state.rows, strict=True) if o != n}
    tables = tuple(
        replace(t, name=parts.get(t.name, t.name), order=orders.get(t.name, ())) for t in saved.tables
    )
    return replace(saved, operator_id=new.id, tables=tables)


def _positions(vertex: JobVertex, head: VertexState | None) -> tuple[Positions | None, ...]:
    """Those of the readers; at another parallelism they are shared out in turn."""
    if head is None or not isinstance(vertex.operators[0].spec, SourceSpec | ValuesSpec | BackfillSpec):
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
    """Items in flight belong to edges, which are there again only between the same vertices."""
    if not manifest.has_in_flight:
        return
    saved = [[o.uid for o in v.operators] for v in manifest.vertices]
    if saved != [[o.uid for o in v.operators] for v in job.vertices]:
        raise UserError(
            "SS6222", f'"{path}" is an unaligned checkpoint, which goes on with the same statement only'
        )


def _unclaimed_error(unclaimed: tuple[str, ...], empty: tuple[str, ...], path: str) -> UserError:
    return UserError(
        "SS6204",
        f'"{path}" has state that no operator of the job takes: {_shown(unclaimed)}',
        detail=f"the job has no state for: {_shown(empty)}" if empty else "",
        hint="go on with the statement that was saved, or SET 'execution.state-recovery.ignore-unclaimed-state' = 'true' "
        "to leave that state out",
    )


def _shown(titles: tuple[str, ...]) -> str:
    others = len(titles) - NAMES_SHOWN_MAX
    return "; ".join(titles[:NAMES_SHOWN_MAX]) + (f"; and {others} others" if others > 0 else "")


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
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            problem = f"its parts do not fit together: {type(error).__name__}: {error}"
            raise corrupt_checkpoint(each.path, problem) from error
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


# The passwords of sinks, which no manifest on a disk holds: who goes on from it brings them.


def with_secrets(commit: SavedCommit, manifest: CheckpointManifest, job: JobGraph) -> SavedCommit:
    """The commit with the options as the job's own sink has them where they differ by what is masked alone: the other options say
    where the rows are that it has to commit."""
    present = _present_sink(commit, manifest, job)
    if present is None:
        return commit
    options = {
        key: present.options[key] if _is_of(key, value, present) else value
        for key, value in commit.spec.options.items()
    }
    return replace(commit, spec=replace(commit.spec, options=options))


def check_secrets(manifest: CheckpointManifest, job: JobGraph, path: str) -> None:
    """UserError SS6271 when a commit needs a password that no sink of the job has."""
    for commit in manifest.commits:
        options = with_secrets(commit, manifest, job).spec.options
        lacking = next((key for key, value in options.items() if MASK in value), "")
        if lacking:
            raise UserError(
                "SS6271",
                f'"{path}" has rows to commit to table "{commit.spec.table}", whose "{lacking}" it does not hold',
            )


def _is_of(key: str, value: str, present: SinkSpec) -> bool:
    return MASK in value and key in present.options and masked(key, present.options[key]) == value


def _present_sink(commit: SavedCommit, manifest: CheckpointManifest, job: JobGraph) -> SinkSpec | None:
    """The operator of the same meaning, or else one that writes into a table of that name."""
    uids = {(v.vertex_id, o.id): o.uid for v in manifest.vertices for o in v.operators}
    uid = uids.get((commit.vertex_id, commit.operator_id))
    sinks = [(o.uid, o.spec) for v in job.vertices for o in v.operators]
    of_table = None
    for present_uid, spec in sinks:
        if not isinstance(spec, SinkSpec) or spec.connector != commit.spec.connector:
            continue
        if present_uid == uid:
            return spec
        if spec.table == commit.spec.table:
            of_table = spec
    return of_table
