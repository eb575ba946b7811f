"""Which operator of a job goes on with the state of which operator of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.errors import UserError
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
from sqlstream.specs import BackfillSpec, SinkSpec, SourceSpec, ValuesSpec, WatermarkAssignerSpec


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
        if isinstance(operators[0].spec, SourceSpec | ValuesSpec | BackfillSpec):
            claims |= claims_of_sources(operators, same, claims, lineage)
        else:
            claims |= _paired(operators, same, claims, lineage)
    return claims


def _turn(operators: Sequence[ChainedOperator], lineage: Lineage) -> tuple[int, int]:
    """Operators come behind those that they feed, then sources, then watermarks."""
    if isinstance(operators[0].spec, WatermarkAssignerSpec):
        return (2, 0)
    is_source = isinstance(operators[0].spec, SourceSpec | ValuesSpec | BackfillSpec)
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


def unclaimed(manifest: CheckpointManifest, claims: dict[int, Claim]) -> tuple[OperatorIdentity, ...]:
    """The operators whose state no operator of the job goes on with."""
    claimed = {c.operator.id for c in claims.values()}
    return tuple(
        o
        for v in manifest.vertices
        for o in v.operators
        if o.id not in claimed and _has_state(manifest, v, o)
    )


def left_out(manifest: CheckpointManifest, claims: dict[int, Claim]) -> tuple[str, ...]:
    """The titles of these."""
    return tuple(o.title for o in unclaimed(manifest, claims))


def without_state(job: JobGraph, claims: dict[int, Claim]) -> tuple[ChainedOperator, ...]:
    """The operators that keep rows, or read them, and have no state to go on with."""
    return tuple(
        o
        for v in job.vertices
        for o in v.operators
        if o.state is not None
        and o.id not in claims
        and not isinstance(o.spec, SinkSpec | WatermarkAssignerSpec)
    )


def begun_empty(job: JobGraph, claims: dict[int, Claim]) -> tuple[str, ...]:
    """The titles of these."""
    return tuple(state_of(o).title for o in without_state(job, claims))


def _has_state(manifest: CheckpointManifest, vertex: VertexState, operator: OperatorIdentity) -> bool:
    is_head = operator is vertex.operators[0]
    if is_head and (vertex.vertex_id in manifest.enumerators or any(s.splits for s in vertex.subtasks)):
        return True
    tables = (
        t for s in vertex.subtasks for o in s.operators if o.operator_id == operator.id for t in o.tables
    )
    return any(segment.rows for table in tables for segment in table.segments)


# Which saved source a source of a job goes on with: the one that has fed the state that it feeds.


def claims_of_sources(
    sources: Sequence[ChainedOperator], saved: Sequence[Claim], claims: Mapping[int, Claim], lineage: Lineage
) -> dict[int, Claim]:
    """Sources and saved ones of one table; `claims` are those of all operators that keep rows.

    A source that feeds none of them goes where the tables are the same. One that was not there goes on where a source of its
    table stands: no state beside it has seen its rows. UserError SS6204 when it is open which of several positions is meant."""
    found: dict[int, Claim] = {}
    waiting: list[ChainedOperator] = []
    for source in sources:
        evidence = lineage.evidence(source, claims)
        if not evidence:
            waiting.append(source)
            continue
        pool = [c for c in saved if all(lineage.agrees(c, e) for e in evidence)]
        if not pool:
            pool = [c for c in saved if any(lineage.agrees(c, e) for e in evidence)] or list(saved)
            _check_one_position(source, pool, lineage)
        found[source.id] = _chosen(source, _narrowed(source, pool, lineage), list(found.values()), lineage)
    for is_enough in (feeds_same, feeds_some, feeds_any):
        free = [c for c in saved if c not in found.values()]
        for source in list(waiting):
            pool = [c for c in free if is_enough(state_of(source), c)]
            if pool:
                found[source.id] = _chosen(source, pool, list(found.values()), lineage)
                waiting.remove(source)
    for source in waiting:
        state = state_of(source)
        some = [c for c in saved if feeds_some(state, c)] or list(saved)
        found[source.id] = min(some, key=_name)
    return found


def _narrowed(source: ChainedOperator, pool: list[Claim], lineage: Lineage) -> list[Claim]:
    """Those of several that have fed the same state, that feed the same tables, too."""
    state = state_of(source)
    for is_enough in (feeds_same, feeds_some):
        if found := [c for c in pool if is_enough(state, c)]:
            return found
    return pool


def _chosen(source: ChainedOperator, pool: list[Claim], taken: list[Claim], lineage: Lineage) -> Claim:
    if same := [c for c in pool if lineage.is_same(source, c)]:
        return same[0]
    _check_one_position(source, pool, lineage)
    return next((c for c in pool if c not in taken), pool[0])


def _check_one_position(source: ChainedOperator, pool: list[Claim], lineage: Lineage) -> None:
    if len({lineage.position(c) for c in pool}) > 1:
        found = "; ".join(sorted(c.operator.title for c in pool))
        raise UserError(
            "SS6204",
            f"it is open where {state_of(source).title} goes on, as the state has several positions: {found}",
            hint="go on with the statement that was saved, or with tables of the same names",
        )


def _name(claim: Claim) -> tuple[tuple[str, ...], str]:
    state = claim.operator.state
    return (state.feeds if state is not None else (), claim.operator.uid)
