"""Merge projections over projections and drop those that change nothing."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, inputs_of, references, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.expression_facts import can_substitute
from sqlstream.planner.relational.nodes import Aggregate, Project, RelationalNode, WindowTvf
from sqlstream.schema import Field, Schema


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


# Merge a projection of references into the aggregation above it, with the keys in canonical order.


def merge_project_into_aggregate(node: RelationalNode) -> RelationalNode:
    """Aggregate(Project of references(x)) becomes Aggregate(x) with ascending keys and without repeated keys and calls.

    Equal aggregations that were written with other column orders or aliases become equal nodes, which run once.
    """
    if not isinstance(node, Aggregate):
        return node
    through = node
    inner = node.input
    if isinstance(inner, Project) and all(isinstance(e, InputRef) for e in inner.expressions):
        through = _renumber(
            node, [e.index for e in inner.expressions if isinstance(e, InputRef)], inner.input
        )
    return _canonical(through)


def _renumber(node: Aggregate, columns: list[int], source: RelationalNode) -> Aggregate:
    places = dict(enumerate(columns))
    calls = tuple(call.moved(places) for call in node.calls)
    return dataclasses.replace(node, input=source, keys=tuple(columns[k] for k in node.keys), calls=calls)


def _canonical(node: Aggregate) -> RelationalNode:
    keys = tuple(sorted(set(node.keys)))
    calls = tuple(dict.fromkeys(node.calls))
    if keys == node.keys and calls == node.calls:
        return node
    key_fields = tuple(node.schema.fields[node.keys.index(k)] for k in keys)
    call_fields = tuple(node.schema.fields[len(node.keys) + node.calls.index(c)] for c in calls)
    aggregate = dataclasses.replace(node, keys=keys, calls=calls, schema=Schema(key_fields + call_fields))
    places = [keys.index(k) for k in node.keys] + [len(keys) + calls.index(c) for c in node.calls]
    expressions = references(aggregate.schema.types, places)
    return Project(schema=node.schema, span=node.span, input=aggregate, expressions=expressions)


# Compute expressions below a window function, so that an aggregation right above it can absorb it.


def push_project_below_window_tvf(node: RelationalNode) -> RelationalNode:
    """Project(WindowTvf(x)) with computed columns becomes Project of references(WindowTvf(Project(x))).

    Expressions that read window columns stay above. Each row is then computed once instead of once per window.
    """
    if not isinstance(node, Project) or not isinstance(node.input, WindowTvf):
        return node
    tvf = node.input
    own = len(tvf.input.schema)
    computed = tuple(
        dict.fromkeys(e for e in node.expressions if not isinstance(e, InputRef) and _belongs_below(e, own))
    )
    if not computed:
        return node
    widened = _widen(tvf.input, computed)
    extra = len(computed)
    fields = widened.schema.fields + tvf.schema.fields[own:]
    new_tvf = dataclasses.replace(tvf, input=widened, schema=Schema(fields))

    def lift(expression: Expression) -> Expression:
        if expression in computed:
            return InputRef(own + computed.index(expression), expression.type)
        return remap(expression, {i: i if i < own else i + extra for i in inputs_of(expression)})

    return dataclasses.replace(node, input=new_tvf, expressions=tuple(lift(e) for e in node.expressions))


def _belongs_below(expression: Expression, own: int) -> bool:
    """Whether the expression moves below. Constants do too: the 1 of COUNT(1) must not separate aggregation and window.

    One with RAND() is drawn for each window of a row, and stays above.
    """
    return is_deterministic(expression) and max(inputs_of(expression), default=-1) < own


def _widen(node: RelationalNode, computed: tuple[Expression, ...]) -> Project:
    own = references(node.schema.types)
    fields = tuple(Field(f"$f{i}", e.type) for i, e in enumerate(computed))
    return Project(
        schema=Schema(node.schema.fields + fields), span=node.span, input=node, expressions=own + computed
    )
