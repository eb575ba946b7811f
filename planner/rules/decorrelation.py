"""Subqueries as joins: each Apply becomes a join of its left side with the subquery, computed once for all of its rows."""

from __future__ import annotations

import dataclasses

from sqlstream import types as sql
from sqlstream.expressions import (
    TRUE,
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    inputs_of,
    references,
    remap,
    transform,
)
from sqlstream.planner.physical.join_condition import null_safe_equal
from sqlstream.planner.relational.correlation import outer_columns_below, own_outer_columns, replace_outer
from sqlstream.planner.relational.nodes import Apply, Filter, Join, Project, RelationalNode, Unnest, Values
from sqlstream.planner.rules.correlated_conditions import (
    NotMovable,
    Uncorrelated,
    defaults_of,
    move_conditions_up,
    selected,
)
from sqlstream.planner.rules.correlated_domain import DomainJoin, domain_of
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.types import LogicalType


def decorrelate(node: RelationalNode) -> RelationalNode:
    """An Apply, whose inputs have none, as joins."""
    if not isinstance(node, Apply):
        return node
    is_lateral = node.kind in (JoinKind.INNER, JoinKind.LEFT)
    is_plain = is_lateral and node.condition is None
    if is_plain and (computed := _computed(node)) is not None:
        return computed
    if is_plain and (computed := computed_row_wise(node)) is not None:
        return computed
    if not outer_columns_below(node.right, node.depth):
        is_scalar = is_plain and node.kind is JoinKind.LEFT
        return _join(node, Uncorrelated(node.right, defaults=defaults_of(node.right) if is_scalar else None))
    if is_plain and isinstance(node.right, Project) and own_outer_columns(node.right, node.depth):
        return _with_projection_above(node, node.right)
    try:
        return _join(node, _accepted(node, move_conditions_up(node.right, node.depth)))
    except NotMovable:
        return _join(node, _by_domain(node))


def _accepted(node: Apply, found: Uncorrelated) -> Uncorrelated:
    """`found`, unless it lacks rows that the subquery has for every outer row, and that no LEFT join replaces."""
    if found.defaults is not None and (node.kind is not JoinKind.LEFT or node.condition is not None):
        raise NotMovable
    return found


def _by_domain(node: Apply) -> Uncorrelated:
    columns = tuple(sorted(outer_columns_below(node.right, node.depth)))
    domain = domain_of(node.left, columns)
    made = DomainJoin(node.depth, columns, domain).over(node.right)
    width = len(node.right.schema)
    left = node.left.schema.types
    conditions = []
    for i, column in enumerate(columns):
        # The outer side is replaced by the column of the left side that it has behind those of the subquery.
        own = InputRef(width + i, made.schema.types[width + i])
        outer = InputRef(-1 - column, left[column])
        conditions.append(null_safe_equal(outer, own))
    return Uncorrelated(made, tuple(conditions))


def _join(node: Apply, right: Uncorrelated) -> RelationalNode:
    """The join of an Apply, with the columns that the Apply has."""
    width, own = len(node.left.schema), len(node.right.schema)
    source = right.node
    has_defaults = right.defaults is not None and any(
        not isinstance(d, Literal) or d.value is not None for d in right.defaults
    )
    if has_defaults:
        source = _marked(source)
    parts = [*conjuncts(node.condition), *(_over_both(c, node) for c in right.conditions)]
    fields = node.left.schema.fields
    is_half = node.kind.is_left_only
    if not is_half:
        is_left = node.kind is JoinKind.LEFT
        fields = (*fields, *(_field(f, is_left) for f in source.schema.fields))
    joined = Join(
        left=node.left,
        right=source,
        kind=node.kind,
        condition=conjunction(parts),
        schema=Schema(fields),
        span=node.span,
    )
    if is_half:
        return joined
    if has_defaults:
        assert right.defaults is not None
        return _with_defaults(node, joined, right.defaults)
    return joined if len(source.schema) == own else selected(joined, list(range(width + own)))


def _over_both(condition: Expression, node: Apply) -> Expression:
    """A condition of the subquery's columns and references to the left side, over the columns of both."""
    width = len(node.left.schema)

    def moved(part: Expression) -> Expression:
        if isinstance(part, InputRef):
            return InputRef(-1 - part.index if part.index < 0 else width + part.index, part.type)
        return part

    # References become columns last: those of the left side keep their numbers.
    own = transform(condition, moved)
    return replace_outer(own, node.depth, InputRef)


def _field(field: Field, is_nullable: bool) -> Field:
    return Field(field.name, field.type.with_nullable(True)) if is_nullable else field


def _marked(node: RelationalNode) -> RelationalNode:
    """`node` with one more column, TRUE in every row."""
    columns = references(node.schema.types)
    schema = Schema((*node.schema.fields, Field("$found", TRUE.type)))
    return Project(input=node, expressions=(*columns, TRUE), schema=schema, span=node.span)


def _with_defaults(node: Apply, joined: Join, defaults: tuple[Expression, ...]) -> RelationalNode:
    """The columns of the Apply, with the values of `defaults` where the subquery has no row."""
    width, types = len(node.left.schema), joined.schema.types
    found = Call("IS NOT NULL", (InputRef(len(types) - 1, types[-1]),), sql.BOOLEAN.not_null())
    expressions: list[Expression] = [*references(types, range(width))]
    for i, default in enumerate(defaults):
        column = InputRef(width + i, types[width + i])
        # The default has no references: those of the projection above the aggregate are not movable.
        value = Call("CASE", (found, column, default), column.type)
        is_null = isinstance(default, Literal) and default.value is None
        expressions.append(column if is_null else value)
    return Project(input=joined, expressions=tuple(expressions), schema=node.schema, span=node.span)


def _computed(node: Apply) -> RelationalNode | None:
    """The one row of a SELECT without FROM, as further columns of the left side; None for another subquery."""
    right = node.right
    if not isinstance(right, Project) or not isinstance(right.input, Values) or len(right.input.rows) != 1:
        return None
    if inputs_of(*right.expressions):
        return None
    own = references(node.left.schema.types)
    values = tuple(replace_outer(e, node.depth, InputRef) for e in right.expressions)
    return Project(input=node.left, expressions=(*own, *values), schema=node.schema, span=node.span)


def _with_projection_above(node: Apply, right: Project) -> RelationalNode:
    """A projection that reads the outer row, computed above the join."""
    is_left = node.kind is JoinKind.LEFT
    width = len(node.left.schema)
    source = _marked(right.input) if is_left else right.input
    fields = (*node.left.schema.fields, *(_field(f, is_left) for f in source.schema.fields))
    below = Apply(
        left=node.left, right=source, kind=node.kind, depth=node.depth, schema=Schema(fields), span=node.span
    )
    joined = decorrelate(below)
    types = joined.schema.types
    places = {i: width + i for i in range(len(source.schema))}
    expressions: list[Expression] = [*references(types, range(width))]
    for expression in right.expressions:
        value = _nullable_inputs(replace_outer(remap(expression, places), node.depth, InputRef), types)
        if is_left:
            found = Call("IS NOT NULL", (InputRef(len(types) - 1, types[-1]),), sql.BOOLEAN.not_null())
            none = Literal(None, value.type.with_nullable(True))
            value = Call("CASE", (found, value, none), none.type)
        expressions.append(value)
    return Project(input=joined, expressions=tuple(expressions), schema=node.schema, span=node.span)


def _nullable_inputs(expression: Expression, types: tuple[LogicalType, ...]) -> Expression:
    """The expression over columns of these types, which may be NULL where they were not."""

    def typed(part: Expression) -> Expression:
        return InputRef(part.index, types[part.index]) if isinstance(part, InputRef) else part

    return transform(expression, typed)


# LATERAL subqueries that read no table but the elements of the outer row: computed row by row, without a join and its
# state.


def computed_row_wise(node: Apply) -> RelationalNode | None:
    """A lateral join without a condition as nodes over its left side; None where the subquery does more than to compute,
    filter and unnest. None also where a row without a match stays, and the elements alone do not say whether it has one."""
    chain = _chain(node.right)
    if chain is None:
        return None
    if node.kind is JoinKind.LEFT and not _is_outer_unnest(chain):
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
    is_outer = step.is_outer or node.kind is JoinKind.LEFT
    return Unnest.over(source, width + step.collection, kept, names, is_outer, step.has_ordinality)


def _named(node: RelationalNode) -> RelationalNode:
    """A node whose schema may be given other names."""
    if isinstance(node, Project):
        return node
    columns = references(node.schema.types)
    return Project(input=node, expressions=columns, schema=node.schema, span=node.span)
