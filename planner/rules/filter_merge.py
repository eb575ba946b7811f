"""Merge filters over filters; drop those that are TRUE and empty those that are never TRUE."""

from __future__ import annotations

import dataclasses

from planner.relational.nodes import Filter, RelationalNode, Values
from sqlstream.expressions import Expression, Literal, conjunction, conjuncts
from sqlstream.functions.determinism import is_deterministic


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
    """The conjuncts without TRUE and repetitions, in order. Two equal conjuncts with RAND() are two draws."""
    seen: set[Expression] = set()
    kept: list[Expression] = []
    for part in parts:
        is_true = isinstance(part, Literal) and part.value is True
        if not is_true and (part not in seen or not is_deterministic(part)):
            kept.append(part)
            seen.add(part)
    return tuple(kept)
