"""Conditions of a subquery that read the outer query, moved up to where the outer row is joined.

Where all correlated parts of a subquery are conditions, it is computed once for all outer rows: a condition passes a filter, a
projection and an inner join as it is; an equality passes an aggregation, whose further key its inner side becomes, and a
Top-N, whose further partition key it becomes."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    SortKey,
    conjunction,
    conjuncts,
    inputs_of,
    references,
    remap,
    substitute,
)
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.correlation import outer_columns, outer_columns_below, own_outer_columns
from sqlstream.planner.rules.filter_push_down import make_filter
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.specs.window import WindowKind
from sqlstream.types import is_numeric

Conditions = tuple[Expression, ...]


class NotMovable(Exception):
    """A correlated part of the subquery is no condition that can be moved up."""


@dataclasses.dataclass(frozen=True)
class Uncorrelated:
    """A subquery without correlated parts: the columns of `node` are those of the subquery, and more that `conditions` read.

    `defaults`: the row that the subquery has for an outer row without any row that meets the conditions, as an aggregate without
    keys has; None when it then has none."""

    node: plan.RelationalNode
    conditions: Conditions = ()
    defaults: tuple[Expression, ...] | None = None


def move_conditions_up(node: plan.RelationalNode, depth: int) -> Uncorrelated:
    """The subquery without conditions that read the outer query of this depth. NotMovable."""
    if not outer_columns_below(node, depth):
        return Uncorrelated(node)
    match node:
        case plan.Filter():
            return _filter(node, depth)
        case plan.Project():
            return _project(node, depth)
        case plan.Join() if type(node) is plan.Join:
            return _join(node, depth)
        case plan.Aggregate():
            return _aggregate(node, depth)
        case plan.Sort():
            return _sort(node, depth)
        case plan.Rank() | plan.Window():
            return _rank(node, depth)
        case plan.WindowTvf() if node.window.kind is not WindowKind.SESSION:
            return _window(node, depth)
    raise NotMovable


def _filter(node: plan.Filter, depth: int) -> Uncorrelated:
    below = move_conditions_up(node.input, depth)
    if below.defaults is not None:
        raise NotMovable
    parts = conjuncts(node.condition)
    moved = tuple(p for p in parts if outer_columns(p, depth))
    rest = tuple(p for p in parts if p not in moved)
    return Uncorrelated(make_filter(below.node, rest, node), below.conditions + moved)


def _project(node: plan.Project, depth: int) -> Uncorrelated:
    if own_outer_columns(node, depth):
        raise NotMovable
    below = move_conditions_up(node.input, depth)
    fields = below.node.schema.fields
    read = sorted(inputs_of(*below.conditions))
    places = {column: len(node.expressions) + i for i, column in enumerate(read)}
    made = dataclasses.replace(
        node,
        input=below.node,
        expressions=(*node.expressions, *(InputRef(c, fields[c].type) for c in read)),
        schema=Schema((*node.schema.fields, *(fields[c] for c in read))),
    )
    defaults = None
    if below.defaults is not None:
        defaults = tuple(substitute(e, below.defaults) for e in node.expressions)
    return Uncorrelated(made, tuple(remap(c, places) for c in below.conditions), defaults)


def _join(node: plan.Join, depth: int) -> Uncorrelated:
    parts = conjuncts(node.condition)
    moved = tuple(p for p in parts if outer_columns(p, depth))
    if node.kind not in (JoinKind.INNER, JoinKind.LEFT) and not node.kind.is_left_only:
        raise NotMovable
    if node.kind is not JoinKind.INNER and (moved or outer_columns_below(node.right, depth)):
        raise NotMovable
    left, right = (move_conditions_up(side, depth) for side in node.inputs)
    if left.defaults is not None or right.defaults is not None:
        raise NotMovable
    own = (len(node.left.schema), len(node.right.schema))
    width = len(left.node.schema)
    places = {i: i for i in range(own[0])} | {own[0] + i: width + i for i in range(own[1])}
    condition = conjunction([remap(p, places) for p in parts if p not in moved])
    fields = left.node.schema.fields
    if not node.kind.is_left_only:
        extra = right.node.schema.fields[own[1] :]
        fields = (*fields, *node.schema.fields[own[0] :], *extra)
    made = dataclasses.replace(
        node, left=left.node, right=right.node, condition=condition, schema=Schema(fields)
    )
    of_right = {i: width + i for i in range(len(right.node.schema))}
    conditions = (
        *left.conditions,
        *(remap(c, of_right) for c in right.conditions),
        *(remap(c, places) for c in moved),
    )
    count = own[0] if node.kind.is_left_only else own[0] + own[1]
    return arranged(made, [places[i] for i in range(count)], conditions)


def _aggregate(node: plan.Aggregate, depth: int) -> Uncorrelated:
    below = move_conditions_up(node.input, depth)
    if below.defaults is not None:
        raise NotMovable
    source, columns, outer = _as_keys(below, depth)
    count, extra = len(node.keys), len(columns)
    fields = [source.schema.fields[c] for c in columns]
    keys = tuple(Field(f.name, f.type.without_time_attribute()) for f in fields)
    own = node.schema.fields
    made = dataclasses.replace(
        node,
        input=source,
        keys=(*node.keys, *columns),
        schema=Schema((*own[:count], *keys, *own[count:])),
    )
    order = [*range(count), *range(count + extra, len(own) + extra)]
    conditions = tuple(
        c.over(InputRef(count + i, f.type)) for i, (c, f) in enumerate(zip(outer, keys, strict=True))
    )
    found = arranged(made, order, conditions)
    return found if node.keys else dataclasses.replace(found, defaults=_of_no_rows(node))


def defaults_of(node: plan.RelationalNode) -> tuple[Expression, ...] | None:
    """The row of an aggregation without keys over no rows, which a stream does not have before the first one arrives."""
    if isinstance(node, plan.Project):
        below = defaults_of(node.input)
        return None if below is None else tuple(substitute(e, below) for e in node.expressions)
    if isinstance(node, plan.Aggregate) and not node.keys:
        try:
            return _of_no_rows(node)
        except NotMovable:
            return None
    return None


def _of_no_rows(node: plan.Aggregate) -> tuple[Expression, ...]:
    """What aggregates without keys are of no rows: NULL, and 0 for those that count."""
    found = []
    for call in node.calls:
        if call.type.nullable:
            found.append(Literal(None, call.type))
        elif is_numeric(call.type):
            found.append(Literal(0, call.type))
        else:
            raise NotMovable
    return tuple(found)


def _sort(node: plan.Sort, depth: int) -> Uncorrelated:
    below = move_conditions_up(node.input, depth)
    if node.offset == 0 and node.fetch < 0:
        return below
    if below.defaults is not None:
        if node.offset == 0 and node.fetch > 0:
            return below
        raise NotMovable
    source, columns, outer = _as_keys(below, depth)
    conditions = tuple(
        c.over(InputRef(i, source.schema.types[i])) for i, c in zip(columns, outer, strict=True)
    )
    return Uncorrelated(top_rows(node, source, tuple(columns)), conditions)


def top_rows(node: plan.Sort, source: plan.RelationalNode, partition: tuple[int, ...]) -> plan.RelationalNode:
    """The rows that ORDER BY … LIMIT keeps of each partition. NotMovable without a LIMIT above 0."""
    if node.fetch <= 0:
        raise NotMovable
    return plan.Rank(
        input=source,
        partition_keys=tuple(dict.fromkeys(partition)),
        # Without an order any rows may be kept.
        order=node.order or (SortKey(0),),
        rank_start=node.offset + 1,
        rank_end=node.offset + node.fetch,
        outputs_rank=False,
        schema=source.schema,
        span=node.span,
    )


def _rank(node: plan.Rank | plan.Window, depth: int) -> Uncorrelated:
    below = move_conditions_up(node.input, depth)
    if below.defaults is not None:
        raise NotMovable
    source, columns, outer = _as_keys(below, depth)
    own = len(node.input.schema)
    number = node.schema.fields[own:]
    made = dataclasses.replace(
        node,
        input=source,
        partition_keys=tuple(dict.fromkeys((*node.partition_keys, *columns))),
        schema=Schema((*source.schema.fields, *number)),
    )
    width = len(source.schema)
    conditions = tuple(
        c.over(InputRef(i, source.schema.types[i])) for i, c in zip(columns, outer, strict=True)
    )
    return arranged(made, [*range(own), *range(width, width + len(number))], conditions)


def _window(node: plan.WindowTvf, depth: int) -> Uncorrelated:
    below = move_conditions_up(node.input, depth)
    own, width = len(node.input.schema), len(below.node.schema)
    schema = Schema((*below.node.schema.fields, *node.schema.fields[own:]))
    made = dataclasses.replace(node, input=below.node, schema=schema)
    return arranged(made, [*range(own), *range(width, width + 3)], below.conditions)


@dataclasses.dataclass(frozen=True)
class _Equality:
    """`inner = outer`; `is_inner_first`: in this order."""

    function: str
    inner: Expression
    outer: Expression
    is_inner_first: bool
    call: Call

    def over(self, column: InputRef) -> Expression:
        """The equality with a column for its inner side."""
        args = (column, self.outer) if self.is_inner_first else (self.outer, column)
        return Call(self.function, args, self.call.type.with_nullable(True), self.call.span)


def _as_keys(below: Uncorrelated, depth: int) -> tuple[plan.RelationalNode, list[int], list[_Equality]]:
    """`below` with the inner side of each of its conditions as a column. NotMovable for other conditions than equalities."""
    equalities = [_equality(c, depth) for c in below.conditions]
    source = below.node
    expressions: list[Expression] = [*references(source.schema.types)]
    fields = list(source.schema.fields)
    columns = []
    for equality in equalities:
        if equality.inner not in expressions:
            fields.append(Field(f"$key{len(fields)}", equality.inner.type))
            expressions.append(equality.inner)
        columns.append(expressions.index(equality.inner))
    if len(fields) > len(source.schema):
        source = plan.Project(
            input=source, expressions=tuple(expressions), schema=Schema(tuple(fields)), span=source.span
        )
    # A column of two conditions is one key.
    places: dict[int, _Equality] = {}
    for column, equality in zip(columns, equalities, strict=True):
        if column in places:
            raise NotMovable
        places[column] = equality
    return source, list(places), list(places.values())


def _equality(condition: Expression, depth: int) -> _Equality:
    if isinstance(condition, Call) and condition.function in ("=", "IS NOT DISTINCT FROM"):
        first, second = condition.args
        for inner, outer, is_inner_first in ((first, second, True), (second, first, False)):
            if inputs_of(inner) and not outer_columns(inner, depth) and not inputs_of(outer):
                return _Equality(condition.function, inner, outer, is_inner_first, condition)
    raise NotMovable


def arranged(node: plan.RelationalNode, columns: list[int], conditions: Conditions) -> Uncorrelated:
    """`node` with these columns first, and then those that conditions read."""
    order = [*columns, *(i for i in range(len(node.schema)) if i not in columns)]
    if order == list(range(len(order))):
        return Uncorrelated(node, conditions)
    places = {column: i for i, column in enumerate(order)}
    made = selected(node, order)
    return Uncorrelated(made, tuple(remap(c, places) for c in conditions))


def selected(node: plan.RelationalNode, columns: list[int]) -> plan.RelationalNode:
    """These columns of `node`."""
    types = node.schema.types
    return plan.Project(
        input=node,
        expressions=references(types, columns),
        schema=node.schema.select(tuple(columns)),
        span=node.span,
    )
