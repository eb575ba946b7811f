"""UNNEST: the elements of a collection as rows, in the chain of the input."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.nodes import RelationalNode, Unnest
from sqlstream.specs.calc import UnnestSpec


def plan_unnest(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """Rows keep their kinds, so the operator consumes whatever its input is."""
    if not isinstance(node, Unnest):
        return None
    source = inputs[0]
    return planning.node(
        "Unnest",
        UnnestSpec(node.collection, node.columns, node.is_outer, node.has_ordinality),
        over(source),
        node.schema,
        _traits(source.traits, node),
        describe(
            "Unnest",
            unnest=source.schema.fields[node.collection].name,
            joinType=f"[{'LeftOuterJoin' if node.is_outer else 'InnerJoin'}]",
            columns=describe_columns(node.columns, source.schema),
            ordinality="true" if node.has_ordinality else "",
        ),
        node.span,
    )


def _traits(below: Traits, node: Unnest) -> Traits:
    """What is known of the columns that pass. A row is one of several, told apart by their number alone, if they have one; an
    update may change how many there are, so that no key holds for updated rows."""
    places: dict[int, frozenset[int]] = {}
    for place, column in enumerate(node.columns):
        places[column] = places.get(column, frozenset()) | {place}
    moved = below.projected(places)
    has_keys = below.is_insert_only and node.has_ordinality and not node.is_outer
    number = frozenset({len(node.schema) - 1})
    return dataclasses.replace(
        moved,
        keys=frozenset(key | number for key in moved.keys) if has_keys else frozenset(),
        moving_keys=frozenset(),
        is_single_row_per_window=False,
        row_watermark_column=-1,
    )
