"""RIGHT JOIN is LEFT JOIN with the sides swapped."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import InputRef, remap
from sqlstream.planner.relational.nodes import Join, Project, RelationalJoinKind, RelationalNode
from sqlstream.schema import Schema


def turn_right_join(node: RelationalNode) -> RelationalNode:
    """A RIGHT b becomes b LEFT a under a Project that restores the order of the columns."""
    if not isinstance(node, Join) or node.kind is not RelationalJoinKind.RIGHT:
        return node
    left_count, right_count = len(node.left.schema), len(node.right.schema)
    moved = {i: right_count + i for i in range(left_count)}
    moved |= {left_count + i: i for i in range(right_count)}
    fields = node.schema.fields
    swapped = dataclasses.replace(
        node,
        left=node.right,
        right=node.left,
        kind=RelationalJoinKind.LEFT,
        ttls_ms=(node.ttls_ms[1], node.ttls_ms[0]),
        condition=None if node.condition is None else remap(node.condition, moved),
        schema=Schema(fields[left_count:] + fields[:left_count]),
    )
    back = tuple(InputRef(moved[i], fields[i].type) for i in range(left_count + right_count))
    return Project(schema=node.schema, span=node.span, input=swapped, expressions=back)
