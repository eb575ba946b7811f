"""Merge projections over projections and drop those that change nothing."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import InputRef, substitute
from sqlstream.planner.relational.nodes import Project, RelationalNode
from sqlstream.planner.rules.substitution import can_substitute


def merge_projects(node: RelationalNode) -> RelationalNode:
    """Project(Project(x)) becomes one Project over x unless that computes an expression twice; an identity is removed.

    An identity may rename columns: plans refer to columns by position, and a sink names its own.
    """
    if not isinstance(node, Project):
        return node
    inner = node.input
    if isinstance(inner, Project) and can_substitute(node.expressions, inner.expressions):
        merged = tuple(substitute(e, inner.expressions) for e in node.expressions)
        return merge_projects(dataclasses.replace(node, input=inner.input, expressions=merged))
    return inner if is_identity(node) else node


def is_identity(node: Project) -> bool:
    """Whether the projection is every input column, in order."""
    if len(node.expressions) != len(node.input.schema):
        return False
    return all(isinstance(e, InputRef) and e.index == i for i, e in enumerate(node.expressions))
