"""UNNEST: the elements of a collection as rows, in the chain of the input."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.calc import identity
from sqlstream.planner.physical.description import describe, describe_columns, describe_select
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational.nodes import Expand, RelationalNode, Union, Unnest
from sqlstream.specs import CalcSpec
from sqlstream.specs.calc import ExpandSpec, UnnestSpec


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
        _unnested_traits(source.traits, node),
        describe(
            "Unnest",
            unnest=source.schema.fields[node.collection].name,
            joinType=f"[{'LeftOuterJoin' if node.is_outer else 'InnerJoin'}]",
            columns=describe_columns(node.columns, source.schema),
            ordinality="true" if node.has_ordinality else "",
        ),
        node.span,
    )


def _unnested_traits(below: Traits, node: Unnest) -> Traits:
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


# GROUPING SETS, CUBE and ROLLUP: rows once per set, before the aggregation.


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
        _expanded_traits(source.traits, node),
        describe("Expand", sets=f"[{shown}]"),
        node.span,
    )


def _expanded_traits(below: Traits, node: Expand) -> Traits:
    width = len(node.input.schema)
    kept = {c: frozenset({c}) for c in range(width) if c not in node.grouped}
    moved = below.projected(kept)
    # A row and its copies differ in the number of the set.
    keys = frozenset(key | {width} for key in moved.keys)
    return dataclasses.replace(
        moved, keys=keys, moving_keys=frozenset(), is_single_row_per_window=False, row_watermark_column=-1
    )


# UNION ALL: no operator, but several edges into one input.


def plan_union(planning: Planning, branches: tuple[PhysicalNode, ...], node: Union) -> PhysicalNode:
    """All edges have one changelog mode: where one branch retracts rows, insert-only ones get a Calc that adds the row
    kind column."""
    is_insert_only = all(b.traits.is_insert_only for b in branches)
    if not is_insert_only:
        branches = tuple(_with_row_kinds(planning, b) if b.traits.is_insert_only else b for b in branches)
    times = frozenset.intersection(*(b.traits.times for b in branches))
    traits = Traits(
        is_insert_only=is_insert_only,
        is_bounded=all(b.traits.is_bounded for b in branches),
        windows=_common_windows([b.traits.windows for b in branches]),
        times=times,
    )
    return planning.node(
        "Union",
        None,
        tuple(PhysicalInput(b) for b in branches),
        node.schema,
        traits,
        describe("Union", all="[true]", union=f"[{', '.join(node.schema.names)}]"),
        node.span,
    )


def _common_windows(branches: list[tuple[WindowTrait, ...]]) -> tuple[WindowTrait, ...]:
    """Those with the same bounds in all branches, with the row times that all have."""
    found = []
    for window in branches[0]:
        same = [[w for w in windows if w.has_bounds_of(window)] for windows in branches]
        if all(same):
            row_times = frozenset.intersection(*(windows[0].row_times for windows in same))
            found.append(dataclasses.replace(window, row_times=row_times))
    return tuple(found)


def _with_row_kinds(planning: Planning, branch: PhysicalNode) -> PhysicalNode:
    spec = CalcSpec(projections=identity(branch.schema))
    return planning.node(
        "Calc",
        spec,
        over(branch),
        branch.schema,
        dataclasses.replace(branch.traits, is_insert_only=False),
        describe(
            "Calc",
            select=describe_select(spec.projections, branch.schema.names, branch.schema),
            rowKinds="+I",
        ),
        branch.span,
        is_reusable=False,
    )
