"""Which operator of a job goes on with the state of which operator of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.specs import SinkSpec, SourceSpec, ValuesSpec, WatermarkAssignerSpec


@dataclass(frozen=True)
class Claim:
    """An operator of a checkpoint, and the vertex that it was in."""

    vertex: VertexState
    operator: OperatorIdentity


def claims_of(manifest: CheckpointManifest, job: JobGraph) -> dict[int, Claim]:
    """What each operator of the job goes on with, by its id. One without a state of its meaning is left out.

    Of several operators with the same meaning, those go together whose rows reach the same tables, then those whose rows reach
    some of the same, then in the order of the statements. A source that was not there goes on where the source of its table
    stands: it reads no row that the state beside it has seen."""
    saved = [Claim(v, o) for v in manifest.vertices for o in v.operators]
    present = [o for v in job.vertices for o in v.operators]
    by_uid = {c.operator.uid: c for c in saved}
    claims: dict[int, Claim] = {}
    by_meaning: dict[str, list[ChainedOperator]] = {}
    for operator in present:
        found = by_uid.get(operator.uid)
        if operator.state is not None and (found is None or found.operator.state is not None):
            by_meaning.setdefault(operator.state.id, []).append(operator)
        elif found is not None:
            claims[operator.id] = found
    saved_by_meaning: dict[str, list[Claim]] = {}
    for claim in saved:
        if claim.operator.state is not None:
            saved_by_meaning.setdefault(claim.operator.state.id, []).append(claim)
    for meaning, operators in by_meaning.items():
        if meaning in saved_by_meaning:
            claims |= _paired(operators, saved_by_meaning[meaning])
    return claims


def _paired(operators: Sequence[ChainedOperator], saved: Sequence[Claim]) -> dict[int, Claim]:
    """Operators and saved ones of one meaning."""
    claims: dict[int, Claim] = {}
    free, waiting = list(saved), list(operators)
    for is_enough in (_feeds_same, _feeds_some, _feeds_any):
        for operator in list(waiting):
            state = _state(operator)
            found = next((c for c in free if _has_keys_of(state, c) and is_enough(state, c)), None)
            if found is not None:
                claims[operator.id] = found
                free.remove(found)
                waiting.remove(operator)
    for operator in waiting:
        if isinstance(operator.spec, SourceSpec | ValuesSpec):
            claims[operator.id] = saved[0]
    return claims


def _state(operator: ChainedOperator) -> StateIdentity:
    assert operator.state is not None
    return operator.state


def _has_keys_of(state: StateIdentity, claim: Claim) -> bool:
    saved = claim.operator.state
    return saved is not None and set(saved.conditions) <= set(state.conditions)


def _feeds_same(state: StateIdentity, claim: Claim) -> bool:
    return claim.operator.state is not None and claim.operator.state.feeds == state.feeds


def _feeds_some(state: StateIdentity, claim: Claim) -> bool:
    return claim.operator.state is not None and not set(state.feeds).isdisjoint(claim.operator.state.feeds)


def _feeds_any(state: StateIdentity, claim: Claim) -> bool:
    return True


def left_out(manifest: CheckpointManifest, claims: dict[int, Claim]) -> tuple[str, ...]:
    """The titles of the operators whose state no operator of the job goes on with."""
    claimed = {c.operator.id for c in claims.values()}
    return tuple(
        o.title
        for v in manifest.vertices
        for o in v.operators
        if o.id not in claimed and _has_state(manifest, v, o)
    )


def begun_empty(job: JobGraph, claims: dict[int, Claim]) -> tuple[str, ...]:
    """The titles of the operators that keep rows, or read them, and have no state to go on with."""
    return tuple(
        o.state.title
        for v in job.vertices
        for o in v.operators
        if o.state is not None
        and o.id not in claims
        and not isinstance(o.spec, SinkSpec | WatermarkAssignerSpec)
    )


def _has_state(manifest: CheckpointManifest, vertex: VertexState, operator: OperatorIdentity) -> bool:
    is_head = operator is vertex.operators[0]
    if is_head and (vertex.vertex_id in manifest.enumerators or any(s.splits for s in vertex.subtasks)):
        return True
    tables = (
        t for s in vertex.subtasks for o in s.operators if o.operator_id == operator.id for t in o.tables
    )
    return any(segment.rows for table in tables for segment in table.segments)
