"""Which operator of a job goes on with the state of which operator of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.runtime.jobmanager.checkpoints.lineage import (
    Claim,
    Lineage,
    feeds_any,
    feeds_same,
    feeds_some,
    state_of,
)
from sqlstream.runtime.jobmanager.checkpoints.source_claims import claims_of_sources
from sqlstream.specs import SinkSpec, SourceSpec, ValuesSpec, WatermarkAssignerSpec


def claims_of(manifest: CheckpointManifest, job: JobGraph) -> dict[int, Claim]:
    """What each operator of the job goes on with, by its id. One without a state of its meaning is left out.

    Of several operators with the same meaning, those go together whose rows reach the same operators, then those whose rows
    reach the same tables, then those whose rows reach some of the same, then in the order of the statements. A source goes on
    where the state that it feeds stands (see source_claims), and a watermark where its source stands. UserError SS6204 when
    that is not one place."""
    saved = [Claim(v, o) for v in manifest.vertices for o in v.operators]
    lineage = Lineage(manifest, job)
    by_uid = {c.operator.uid: c for c in saved}
    claims: dict[int, Claim] = {}
    by_meaning: dict[str, list[ChainedOperator]] = {}
    for operator in (o for v in job.vertices for o in v.operators):
        found = by_uid.get(operator.uid)
        if operator.state is not None and (found is None or found.operator.state is not None):
            by_meaning.setdefault(operator.state.id, []).append(operator)
        elif found is not None:
            claims[operator.id] = found
    saved_by_meaning: dict[str, list[Claim]] = {}
    for claim in saved:
        if claim.operator.state is not None:
            saved_by_meaning.setdefault(claim.operator.state.id, []).append(claim)
    for operators in sorted(by_meaning.values(), key=lambda found: _turn(found, lineage)):
        same = saved_by_meaning.get(state_of(operators[0]).id)
        if same is None:
            continue
        if isinstance(operators[0].spec, SourceSpec | ValuesSpec):
            claims |= claims_of_sources(operators, same, claims, lineage)
        else:
            claims |= _paired(operators, same, claims, lineage)
    return claims


def _turn(operators: Sequence[ChainedOperator], lineage: Lineage) -> tuple[int, int]:
    """Operators come behind those that they feed, then sources, then watermarks."""
    if isinstance(operators[0].spec, WatermarkAssignerSpec):
        return (2, 0)
    is_source = isinstance(operators[0].spec, SourceSpec | ValuesSpec)
    return (1, 0) if is_source else (0, -max(lineage.depths[o.id] for o in operators))


def _paired(
    operators: Sequence[ChainedOperator],
    saved: Sequence[Claim],
    settled: Mapping[int, Claim],
    lineage: Lineage,
) -> dict[int, Claim]:
    """Operators and saved ones of one meaning."""
    claims: dict[int, Claim] = {}
    free, waiting = list(saved), list(operators)
    evidence = {o.id: lineage.evidence(o, settled) for o in operators}
    for how_many in (all, any):
        for is_enough in (feeds_same, feeds_some, feeds_any):
            for operator in list(waiting):
                seen, state = evidence[operator.id], state_of(operator)
                found = next(
                    (
                        c
                        for c in free
                        if _has_keys_of(state, c)
                        and is_enough(state, c)
                        and (not seen or how_many(lineage.agrees(c, each) for each in seen))
                    ),
                    None,
                )
                if found is not None:
                    claims[operator.id] = found
                    free.remove(found)
                    waiting.remove(operator)
    return claims


def _has_keys_of(state: StateIdentity, claim: Claim) -> bool:
    saved = claim.operator.state
    return saved is not None and set(saved.conditions) <= set(state.conditions)


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
