"""Move a plain LIMIT below projections, where fewer rows are computed."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.relational.nodes import Project, RelationalNode, Sort


def push_limit_down(node: RelationalNode) -> RelationalNode:
    """Limit(Project(x)) becomes Project(Limit(x)); a limit over a limit becomes the smaller one."""
    if not isinstance(node, Sort) or node.order:
        return node
    if node.offset == 0 and node.fetch < 0:
        return node.input
    inner = node.input
    if isinstance(inner, Project):
        limit = dataclasses.replace(node, input=inner.input, schema=inner.input.schema)
        return dataclasses.replace(inner, input=limit)
    if isinstance(inner, Sort) and not inner.order:
        return _merge(node, inner)
    return node


def _merge(outer: Sort, inner: Sort) -> RelationalNode:
    left = -1 if inner.fetch < 0 else max(inner.fetch - outer.offset, 0)
    fetches = [f for f in (outer.fetch, left) if f >= 0]
    return dataclasses.replace(
        inner, offset=inner.offset + outer.offset, fetch=min(fetches) if fetches else -1, span=outer.span
    )
