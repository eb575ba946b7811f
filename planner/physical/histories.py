"""Which results wait until the histories of their statement have ended (INSERT … WITH BACKFILL)."""

from __future__ import annotations

import dataclasses

import msgspec

from sqlstream import specs
from sqlstream.planner.physical.node import PhysicalNode, rebuild_plan, walk_plan
from sqlstream.specs.backfill import is_history


def hold_histories(sinks: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
    """The plan in which an aggregation, or a Top-N, emits each of its results once, when the histories below it have ended.

    One whose state expires holds nothing: a result could be forgotten before it is emitted."""
    nodes = list(walk_plan(sinks))
    holding = _holding(nodes)
    below: set[int] = set(holding)
    for node in reversed(nodes):
        if id(node) in below:
            below.update(id(i.node) for i in node.inputs)

    def held(node: PhysicalNode, made: PhysicalNode) -> PhysicalNode:
        if id(node) in holding:
            assert node.spec is not None
            spec = msgspec.structs.replace(node.spec, holds_history=True)
            description = f"{node.description.removesuffix(')')}, emits=[behind the history])"
            return dataclasses.replace(made, spec=spec, description=description)
        if id(node) in below and isinstance(node.spec, specs.SourceSpec) and not node.spec.waits_for:
            return dataclasses.replace(made, spec=msgspec.structs.replace(node.spec, hands_over=True))
        return made

    return rebuild_plan(sinks, held)


def _holding(nodes: list[PhysicalNode]) -> set[int]:
    """By id(): the aggregations and ranks whose results change while histories are read, as they get many rows of a key.

    What a batch engine has aggregated is one row of each key, as long as no operator with state is between."""
    has_history: dict[int, bool] = {}
    gets_many: dict[int, bool] = {}
    for node in nodes:
        below = [id(i.node) for i in node.inputs]
        has_history[id(node)] = is_history(node.spec) or any(has_history[i] for i in below)
        is_read_here = isinstance(node.spec, specs.SourceSpec) and node.spec.turn >= 0
        gives_many = is_read_here or any(gets_many[i] for i in below)
        if node.inputs and node.spec is not None and node.spec.kept_state():
            gives_many = has_history[id(node)]
        gets_many[id(node)] = gives_many
    return {id(n) for n in nodes if _can_hold(n.spec) and any(gets_many[id(i.node)] for i in n.inputs)}


def _can_hold(spec: specs.Spec | None) -> bool:
    match spec:
        case specs.GroupAggregateSpec():
            # A row that DISTINCT emits stays as it is, unless it is retracted.
            changes = bool(spec.aggregates) or spec.is_retracting
            return spec.phase is not specs.AggregatePhase.LOCAL and changes and spec.state_ttl_ms == 0
        case specs.RankSpec():
            return spec.phase is not specs.RankPhase.LOCAL and spec.state_ttl_ms == 0
    return False
