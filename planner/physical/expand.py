"""GROUPING SETS, CUBE and ROLLUP: rows once per set, before the aggregation."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.nodes import Expand, RelationalNode
from sqlstream.specs.calc import ExpandSpec


def plan_expand(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """In the chain of its input. The columns that every set has keep what is known of them."""
    if not isinstance(node, Expand):
        return None
    source = inputs[0]
    sets = tuple(tuple(sorted(s)) for s in node.sets)
    shown = ", ".join(describe_columns(s, source.schema) for s in sets)
    return planning.node(
        "Expand",
        ExpandSpec(node.grouped, sets),
        over(source),
        node.schema,
        _traits(source.traits, node),
        describe("Expand", sets=f"[{shown}]"),
        node.span,
    )


def _traits(below: Traits, node: Expand) -> Traits:
    width = len(node.input.schema)
    kept = {c: frozenset({c}) for c in range(width) if c not in node.grouped}
    moved = below.projected(kept)
    # A row and its copies differ in the number of the set.
    keys = frozenset(key | {width} for key in moved.keys)
    return dataclasses.replace(
        moved, keys=keys, moving_keys=frozenset(), is_single_row_per_window=False, row_watermark_column=-1
    )
