"""Subqueries as joins: each Apply becomes a join of its left side with the subquery, computed once for all of its rows."""

from __future__ import annotations

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
    remap,
    transform,
)
from sqlstream.planner.relational.correlation import outer_columns_below, own_outer_columns, replace_outer
from sqlstream.planner.relational.nodes import (
    Apply,
    Join,
    Project,
    RelationalJoinKind,
    RelationalNode,
    Values,
)
from sqlstream.planner.rules.correlated_conditions import (
    NotMovable,
    Uncorrelated,
    defaults_of,
    move_conditions_up,
    selected,
)
from sqlstream.planner.rules.correlated_domain import DomainJoin, domain_of, null_safe_equal
from sqlstream.planner.rules.row_wise_subquery import computed_row_wise
from sqlstream.schema import Field, Schema
from sqlstream.types import LogicalType


def decorrelate(node: RelationalNode) -> RelationalNode:
    """An Apply, whose inputs have none, as joins."""
    if not isinstance(node, Apply):
        return node
    is_lateral = node.kind in (RelationalJoinKind.INNER, RelationalJoinKind.LEFT)
    is_plain = is_lateral and node.condition is None
    if is_plain and (computed := _computed(node)) is not None:
        return computed
    if is_plain and (computed := computed_row_wise(node)) is not None:
        return computed
    if not outer_columns_below(node.right, node.depth):
        is_scalar = is_plain and node.kind is RelationalJoinKind.LEFT
        return _join(node, Uncorrelated(node.right, defaults=defaults_of(node.right) if is_scalar else None))
    if is_plain and isinstance(node.right, Project) and own_outer_columns(node.right, node.depth):
        return _with_projection_above(node, node.right)
    try:
        return _join(node, _accepted(node, move_conditions_up(node.right, node.depth)))
    except NotMovable:
        return _join(node, _by_domain(node))


def _accepted(node: Apply, found: Uncorrelated) -> Uncorrelated:
    """`found`, unless it lacks rows that the subquery has for every outer row, and that no LEFT join replaces."""
    if found.defaults is not None and (
        node.kind is not RelationalJoinKind.LEFT or node.condition is not None
    ):
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
    is_half = node.kind.outputs_left_alone
    if not is_half:
        is_left = node.kind is RelationalJoinKind.LEFT
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
    columns = tuple(InputRef(i, t) for i, t in enumerate(node.schema.types))
    schema = Schema((*node.schema.fields, Field("$found", TRUE.type)))
    return Project(input=node, expressions=(*columns, TRUE), schema=schema, span=node.span)


def _with_defaults(node: Apply, joined: Join, defaults: tuple[Expression, ...]) -> RelationalNode:
    """The columns of the Apply, with the values of `defaults` where the subquery has no row."""
    width, types = len(node.left.schema), joined.schema.types
    found = Call("IS NOT NULL", (InputRef(len(types) - 1, types[-1]),), sql.BOOLEAN.not_null())
    expressions: list[Expression] = [InputRef(i, types[i]) for i in range(width)]
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
    own = tuple(InputRef(i, t) for i, t in enumerate(node.left.schema.types))
    values = tuple(replace_outer(e, node.depth, InputRef) for e in right.expressions)
    return Project(input=node.left, expressions=(*own, *values), schema=node.schema, span=node.span)


def _with_projection_above(node: Apply, right: Project) -> RelationalNode:
    """A projection that reads the outer row, computed above the join."""
    is_left = node.kind is RelationalJoinKind.LEFT
    width = len(node.left.schema)
    source = _marked(right.input) if is_left else right.input
    fields = (*node.left.schema.fields, *(_field(f, is_left) for f in source.schema.fields))
    below = Apply(
        left=node.left, right=source, kind=node.kind, depth=node.depth, schema=Schema(fields), span=node.span
    )
    joined = decorrelate(below)
    types = joined.schema.types
    places = {i: width + i for i in range(len(source.schema))}
    expressions: list[Expression] = [InputRef(i, types[i]) for i in range(width)]
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
