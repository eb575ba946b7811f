"""Which saved source a source of a job goes on with: the one that has fed the state that it feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.runtime.jobmanager.checkpoints.lineage import (
    Claim,
    Lineage,
    feeds_any,
    feeds_same,
    feeds_some,
    state_of,
)


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
