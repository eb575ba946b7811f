"""Subqueries for all distinct values of the outer columns that they read (Neumann, Kemper: Unnesting Arbitrary Queries, 2015).

What cannot be moved up as a condition is computed here: the subquery is joined with the distinct values of the outer columns, its
domain, and has these as further columns; its groups, partitions and joins then are those of each value."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import UserError
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    references,
    remap,
)
from sqlstream.planner.physical.join_condition import null_safe_equal
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.correlation import outer_columns_below, own_outer_columns, replace_outer
from sqlstream.planner.rules.correlated_conditions import NotMovable, selected, top_rows
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.specs.window import WindowKind
from sqlstream.types import LogicalType, is_numeric


def domain_of(left: plan.RelationalNode, columns: tuple[int, ...]) -> plan.RelationalNode:
    """The distinct values of these columns of an outer relation."""
    read = selected(left, list(columns))
    fields = tuple(Field(f.name, f.type.without_time_attribute()) for f in read.schema.fields)
    return plan.Aggregate(
        input=read, keys=tuple(range(len(columns))), calls=(), schema=Schema(fields), span=left.span
    )


class DomainJoin:
    """Joins a subquery of one depth with its domain, whose columns are those `columns` of the outer relation."""

    def __init__(self, depth: int, columns: tuple[int, ...], domain: plan.RelationalNode) -> None:
        self._depth = depth
        self._columns = columns
        self._domain = domain

    def over(self, node: plan.RelationalNode) -> plan.RelationalNode:
        """The columns of `node`, then those of the domain. UserError SS3473 for a node that cannot be computed so."""
        if not outer_columns_below(node, self._depth):
            return self._product(node)
        match node:
            case plan.Filter():
                source = self.over(node.input)
                condition = self._local(node.condition, len(node.input.schema))
                return dataclasses.replace(node, input=source, condition=condition, schema=source.schema)
            case plan.Project():
                return self._project(node)
            case plan.Aggregate():
                return self._aggregate(node)
            case plan.Sort():
                return self._sort(node)
            case plan.Rank() | plan.Window():
                return self._rank(node)
            case plan.Join() if type(node) is plan.Join:
                return self._join(node)
            case plan.Union():
                branches = tuple(self.over(b) for b in node.branches)
                schema = Schema((*node.schema.fields, *self._domain.schema.fields))
                return dataclasses.replace(node, branches=branches, schema=schema)
            case plan.Unnest():
                return self._unnest(node)
            case plan.WindowTvf():
                return self._window(node)
            case plan.Expand():
                return self._expand(node)
        raise _refusal(node)

    def _places(self, node: plan.RelationalNode) -> tuple[int, ...]:
        """The columns of the domain behind those of `node`."""
        width = len(node.schema)
        return tuple(range(width, width + len(self._columns)))

    def _local(self, expression: Expression, width: int) -> Expression:
        """An expression over `width` columns and the outer relation as one over these columns and the domain."""
        return replace_outer(
            expression, self._depth, lambda column, t: InputRef(width + self._columns.index(column), t)
        )

    def _product(self, node: plan.RelationalNode) -> plan.RelationalNode:
        if isinstance(node, plan.Values) and len(node.rows) == 1:
            # One row beside each value of the domain needs no join.
            values = (Literal(v, t) for v, t in zip(node.rows[0], node.schema.types, strict=True))
            domain = (InputRef(i, t) for i, t in enumerate(self._domain.schema.types))
            schema = Schema((*node.schema.fields, *self._domain.schema.fields))
            return plan.Project(
                input=self._domain, expressions=(*values, *domain), schema=schema, span=node.span
            )
        return plan.Join(
            left=node,
            right=self._domain,
            kind=JoinKind.INNER,
            condition=None,
            schema=Schema((*node.schema.fields, *self._domain.schema.fields)),
            span=node.span,
        )

    def _project(self, node: plan.Project) -> plan.RelationalNode:
        source, width = self.over(node.input), len(node.input.schema)
        own = tuple(self._local(e, width) for e in node.expressions)
        domain = references(source.schema.types, self._places(node.input))
        schema = Schema((*node.schema.fields, *self._domain.schema.fields))
        return dataclasses.replace(node, input=source, expressions=(*own, *domain), schema=schema)

    def _aggregate(self, node: plan.Aggregate) -> plan.RelationalNode:
        source, count, extra = self.over(node.input), len(node.keys), len(self._columns)
        own = node.schema.fields
        made = dataclasses.replace(
            node,
            input=source,
            keys=(*node.keys, *self._places(node.input)),
            schema=Schema((*own[:count], *self._domain.schema.fields, *own[count:])),
        )
        order = [*range(count), *range(count + extra, len(own) + extra), *range(count, count + extra)]
        found = selected(made, order)
        return found if node.keys else self._with_empty_groups(node, found)

    def _with_empty_groups(self, node: plan.Aggregate, groups: plan.RelationalNode) -> plan.RelationalNode:
        """An aggregate without keys has a row for each value of the domain, also for one without rows."""
        own, extra = len(node.schema), len(self._columns)
        width = extra + own
        fields = groups.schema.fields
        nullable = tuple(Field(f.name, f.type.with_nullable(True)) for f in fields)
        joined = plan.Join(
            left=self._domain,
            right=groups,
            kind=JoinKind.LEFT,
            condition=conjunction(
                [
                    null_safe_equal(InputRef(i, f.type), InputRef(width + i, f.type))
                    for i, f in enumerate(self._domain.schema.fields)
                ]
            ),
            schema=Schema((*self._domain.schema.fields, *nullable)),
            span=node.span,
        )
        values = tuple(
            _counted(InputRef(extra + i, nullable[i].type), call.type) for i, call in enumerate(node.calls)
        )
        domain = references(self._domain.schema.types)
        return plan.Project(
            input=joined, expressions=(*values, *domain), schema=groups.schema, span=node.span
        )

    def _sort(self, node: plan.Sort) -> plan.RelationalNode:
        source = self.over(node.input)
        if node.offset == 0 and node.fetch < 0:
            return source
        try:
            return top_rows(node, source, self._places(node.input))
        except NotMovable:
            raise _refusal(node) from None

    def _rank(self, node: plan.Rank | plan.Window) -> plan.RelationalNode:
        source, own, extra = self.over(node.input), len(node.input.schema), len(self._columns)
        number = node.schema.fields[own:]
        made = dataclasses.replace(
            node,
            input=source,
            partition_keys=(*node.partition_keys, *self._places(node.input)),
            schema=Schema((*source.schema.fields, *number)),
        )
        order = [*range(own), *range(own + extra, own + extra + len(number)), *range(own, own + extra)]
        return selected(made, order)

    def _unnest(self, node: plan.Unnest) -> plan.RelationalNode:
        source, own, extra = self.over(node.input), len(node.columns), len(self._columns)
        fields = node.schema.fields
        schema = Schema((*fields[:own], *self._domain.schema.fields, *fields[own:]))
        columns = (*node.columns, *self._places(node.input))
        made = dataclasses.replace(node, input=source, columns=columns, schema=schema)
        count = len(fields)
        return selected(made, [*range(own), *range(own + extra, count + extra), *range(own, own + extra)])

    def _window(self, node: plan.WindowTvf) -> plan.RelationalNode:
        source, own, extra = self.over(node.input), len(node.input.schema), len(self._columns)
        schema = Schema((*source.schema.fields, *node.schema.fields[own:]))
        keys = node.partition_keys
        if node.window.kind is WindowKind.SESSION:
            keys += self._places(node.input)
        made = dataclasses.replace(node, input=source, schema=schema, partition_keys=keys)
        return selected(made, [*range(own), *range(own + extra, own + extra + 3), *range(own, own + extra)])

    def _expand(self, node: plan.Expand) -> plan.RelationalNode:
        own, extra = len(node.input.schema), len(self._columns)
        made = plan.Expand.over(self.over(node.input), node.grouped, node.sets)
        return selected(made, [*range(own), own + extra, *range(own, own + extra)])

    def _join(self, node: plan.Join) -> plan.RelationalNode:
        """The sides that are correlated are joined with the domain, and with each other by its values."""
        if node.kind.pads(1):
            raise _refusal(node)
        is_right = bool(outer_columns_below(node.right, self._depth))
        is_inner = node.kind is JoinKind.INNER
        is_own = bool(own_outer_columns(node, self._depth))
        is_left = (
            bool(outer_columns_below(node.left, self._depth)) or not is_inner or (is_own and not is_right)
        )
        left = self.over(node.left) if is_left else node.left
        right = self.over(node.right) if is_right else node.right
        own = (len(node.left.schema), len(node.right.schema))
        width, extra = len(left.schema), len(self._columns)
        places = {i: i for i in range(own[0])} | {own[0] + i: width + i for i in range(own[1])}
        domain = own[0] if is_left else width + own[1]
        parts = [
            replace_outer(
                remap(p, places), self._depth, lambda c, t: InputRef(domain + self._columns.index(c), t)
            )
            for p in conjuncts(node.condition)
        ]
        if is_left and is_right:
            types = self._domain.schema.types
            parts += [
                null_safe_equal(InputRef(own[0] + i, t), InputRef(width + own[1] + i, t))
                for i, t in enumerate(types)
            ]
        fields = left.schema.fields
        if not node.kind.is_left_only:
            fields = (*fields, *node.schema.fields[own[0] :], *right.schema.fields[own[1] :])
        made = dataclasses.replace(
            node, left=left, right=right, condition=conjunction(parts), schema=Schema(fields)
        )
        count = own[0] if node.kind.is_left_only else own[0] + own[1]
        return selected(made, [*(places[i] for i in range(count)), *range(domain, domain + extra)])


def _counted(column: InputRef, wanted: LogicalType) -> Expression:
    """An aggregate of a group that may have no rows: those that are never NULL count."""
    if wanted.nullable or not is_numeric(wanted):
        return column
    return Call("COALESCE", (column, Literal(0, wanted)), wanted)


def _refusal(node: plan.RelationalNode) -> UserError:
    return UserError(
        "SS3473",
        f"a subquery that reads columns of the outer query cannot do so below its {type(node).__name__}",
        span=node.span,
        hint="write it as a join with the outer table",
    )
