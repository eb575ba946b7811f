"""LATERAL subqueries that read no table but the elements of the outer row: computed row by row, without a join and its state."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, Literal, remap, transform
from sqlstream.planner.relational.correlation import replace_outer
from sqlstream.planner.relational.nodes import (
    Apply,
    Filter,
    Project,
    RelationalJoinKind,
    RelationalNode,
    Unnest,
    Values,
)
from sqlstream.schema import Field, Schema


def computed_row_wise(node: Apply) -> RelationalNode | None:
    """A lateral join without a condition as nodes over its left side; None where the subquery does more than to compute, filter
    and unnest, or where a row without a match stays and the elements alone do not say whether it has one."""
    chain = _chain(node.right)
    if chain is None:
        return None
    if node.kind is RelationalJoinKind.LEFT and not _is_outer_unnest(chain):
        return None
    found: RelationalNode = node.left
    width = len(node.left.schema)
    for step in chain:
        found = _over(found, step, width, node)
    return dataclasses.replace(_named(found), schema=node.schema)


def _chain(node: RelationalNode) -> list[RelationalNode] | None:
    """The nodes of a subquery over one literal row, from this row on."""
    found = [node]
    while isinstance(node, Project | Filter | Unnest):
        node = node.input
        found.append(node)
    is_one_row = isinstance(node, Values) and len(node.rows) == 1
    return found[::-1] if is_one_row else None


def _is_outer_unnest(chain: list[RelationalNode]) -> bool:
    """Whether what is behind the one UNNEST copies columns of elements, which are NULL where there are none."""
    places = [i for i, step in enumerate(chain) if isinstance(step, Unnest)]
    if len(places) != 1 or any(isinstance(step, Filter) for step in chain):
        return False
    unnest = chain[places[0]]
    assert isinstance(unnest, Unnest)
    own = range(len(unnest.columns), len(unnest.schema))
    for step in chain[places[0] + 1 :]:
        assert isinstance(step, Project)
        if not all(isinstance(e, InputRef) and e.index in own for e in step.expressions):
            return False
        own = range(len(step.schema))
    return not unnest.columns or chain[-1] is not unnest


def _over(source: RelationalNode, step: RelationalNode, width: int, node: Apply) -> RelationalNode:
    """The step over `source`, whose columns are those of the left side and then those of the step's input."""
    left = source.schema.fields[:width]
    own = tuple(InputRef(i, f.type) for i, f in enumerate(left))

    def local(expression: Expression) -> Expression:
        places = {i: width + i for i in range(len(source.schema) - width)}
        moved = replace_outer(remap(expression, places), node.depth, InputRef)
        types = source.schema.types
        return transform(moved, lambda e: InputRef(e.index, types[e.index]) if isinstance(e, InputRef) else e)

    match step:
        case Values():
            if not step.schema.fields:
                return source
            values = tuple(Literal(v, t) for v, t in zip(step.rows[0], step.schema.types, strict=True))
            schema = Schema((*left, *step.schema.fields))
            return Project(input=source, expressions=(*own, *values), schema=schema, span=step.span)
        case Project():
            expressions = tuple(local(e) for e in step.expressions)
            fields = (
                Field(f.name, e.type) if isinstance(e, InputRef) else f
                for f, e in zip(step.schema.fields, expressions, strict=True)
            )
            schema = Schema((*left, *fields))
            return Project(input=source, expressions=(*own, *expressions), schema=schema, span=step.span)
        case Filter():
            return dataclasses.replace(
                step, input=source, condition=local(step.condition), schema=source.schema
            )
    assert isinstance(step, Unnest)
    kept = (*range(width), *(width + c for c in step.columns))
    names = tuple(f.name for f in step.schema.fields[len(step.columns) :])
    is_outer = step.is_outer or node.kind is RelationalJoinKind.LEFT
    return Unnest.over(source, width + step.collection, kept, names, is_outer, step.has_ordinality)


def _named(node: RelationalNode) -> RelationalNode:
    """A node whose schema may be given other names."""
    if isinstance(node, Project):
        return node
    columns = tuple(InputRef(i, t) for i, t in enumerate(node.schema.types))
    return Project(input=node, expressions=columns, schema=node.schema, span=node.span)
