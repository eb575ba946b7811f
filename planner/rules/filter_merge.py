"""Merge filters over filters; drop those that are TRUE and empty those that are never TRUE."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, Literal, conjunction, conjuncts
from sqlstream.functions.determinism import without_repetitions
from sqlstream.planner.relational.nodes import Filter, RelationalNode, Values


def merge_filters(node: RelationalNode) -> RelationalNode:
    """Filter(Filter(x)) becomes one Filter without repeated conjuncts; FALSE and NULL become Values without
    rows."""
    if not isinstance(node, Filter):
        return node
    inner = node.input
    below = conjuncts(inner.condition) if isinstance(inner, Filter) else ()
    parts = unique(below + conjuncts(node.condition))
    if any(isinstance(p, Literal) and p.value is not True for p in parts):
        return Values(schema=node.schema, span=node.span, rows=())
    source = inner.input if isinstance(inner, Filter) else inner
    condition = conjunction(parts)
    if condition is None:
        return source
    if condition == node.condition and source is inner:
        return node
    return dataclasses.replace(node, input=source, condition=condition)


def unique(parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """The conjuncts without TRUE and repetitions, in order."""
    return without_repetitions(p for p in parts if not (isinstance(p, Literal) and p.value is True))
