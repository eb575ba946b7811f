"""Move the conjuncts of a join's condition that read one side alone below the join, drop those that are TRUE, and drop the join
where one is never TRUE."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import InputRef, Literal, conjunction, conjuncts, remap
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Join, Project, RelationalJoinKind, RelationalNode, Values
from sqlstream.planner.rules.filter_merge import unique
from sqlstream.planner.rules.filter_push_down import make_filter, split_by_side


def simplify_join_condition(node: RelationalNode) -> RelationalNode:
    """INNER and SEMI: conjuncts over one side become filters below it. LEFT and ANTI: only those over the right side,
    since a left row that fails the condition is still emitted. FALSE and NULL leave no match: INNER and SEMI have no rows then,
    LEFT and ANTI those of the left side."""
    if not isinstance(node, Join) or node.condition is None:
        return node
    parts = unique(conjuncts(node.condition))
    if any(isinstance(p, Literal) for p in parts):
        return _without_matches(node)
    if not is_deterministic(*parts):
        return node
    left_count = len(node.left.schema)
    left_parts, right_parts, both = split_by_side(parts, left_count)
    if node.kind in (RelationalJoinKind.LEFT, RelationalJoinKind.ANTI):
        both = tuple(p for p in parts if p not in right_parts)
        left_parts = ()
    elif node.kind not in (RelationalJoinKind.INNER, RelationalJoinKind.SEMI):
        return node
    condition = conjunction(both)
    if condition == node.condition:
        return node
    shift = {left_count + i: i for i in range(len(node.right.schema))}
    return dataclasses.replace(
        node,
        left=make_filter(node.left, left_parts, node),
        right=make_filter(node.right, tuple(remap(p, shift) for p in right_parts), node),
        condition=condition,
    )


def _without_matches(node: Join) -> RelationalNode:
    left_count = len(node.left.schema)
    match node.kind:
        case RelationalJoinKind.INNER | RelationalJoinKind.SEMI:
            return Values(schema=node.schema, span=node.span, rows=())
        case RelationalJoinKind.ANTI:
            return node.left
        case RelationalJoinKind.LEFT:
            fields = node.schema.fields
            own = tuple(InputRef(i, f.type) for i, f in enumerate(fields[:left_count]))
            missing = tuple(Literal(None, f.type) for f in fields[left_count:])
            return Project(schema=node.schema, span=node.span, input=node.left, expressions=own + missing)
    return node
