"""Correlated references: columns of an outer query that a subquery reads, until rules have replaced them.

A reference is a call, `OUTER(depth, column)`: column `column` of the left side of the Apply of that depth which it stands
below. It has no other meaning: nothing folds it, and no plan that runs has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span
from sqlstream.expressions import Call, Expression, InputRef, Literal, transform, walk
from sqlstream.planner.relational.node import RelationalNode, TwoInputNode, rewrite
from sqlstream.specs.join import JoinKind
from sqlstream.types import LogicalType

OUTER = "OUTER"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Apply(TwoInputNode):
    """`left` joined with the rows that `right` has for each of its rows: expressions of `right` read columns of that row as
    references of this `depth`.

    Kinds and condition are those of a join: INNER and LEFT for LATERAL and scalar subqueries, SEMI and ANTI for EXISTS and IN.
    It exists in bound plans alone: the optimiser's first rule makes a join of it.
    """

    kind: JoinKind
    depth: int
    condition: Expression | None = None

    def describe(self) -> str:
        condition = "TRUE" if self.condition is None else str(self.condition)
        return f"kind=[{self.kind.value}], depth=[{self.depth}], condition=[{condition}]"

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        width = len(self.left.schema)
        return (self.left, column) if column < width else (self.right, column - width)


def outer_reference(depth: int, column: int, type_: LogicalType, span: Span | None = None) -> Call:
    place = (Literal(depth, sql.INT.not_null()), Literal(column, sql.INT.not_null()))
    return Call(OUTER, place, type_, span)


def outer_column(expression: Expression, depth: int) -> int | None:
    """The column that a reference of this depth names; None for any other expression."""
    if not isinstance(expression, Call) or expression.function != OUTER:
        return None
    at, column = expression.args
    assert isinstance(at, Literal)
    assert isinstance(column, Literal)
    assert isinstance(column.value, int)
    return column.value if at.value == depth else None


def outer_columns(expression: Expression, depth: int) -> frozenset[int]:
    """The columns of the left side of this depth that an expression reads."""
    found = (outer_column(part, depth) for part in walk(expression))
    return frozenset(column for column in found if column is not None)


def replace_outer(
    expression: Expression, depth: int, replacement: Callable[[int, LogicalType], Expression]
) -> Expression:
    """The expression with `replacement(column, type)` for each reference of this depth."""

    def replace(part: Expression) -> Expression:
        column = outer_column(part, depth)
        return part if column is None else replacement(column, part.type)

    return transform(expression, replace)


def with_expressions(node: RelationalNode, function: Callable[[Expression], Expression]) -> RelationalNode:
    """The node, without its inputs, with `function` of each of its expressions."""
    changes: dict[str, object] = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, InputRef | Literal | Call):
            changes[field.name] = function(value)
        elif (
            isinstance(value, tuple)
            and value
            and all(isinstance(v, InputRef | Literal | Call) for v in value)
        ):
            changes[field.name] = tuple(function(v) for v in value)
    is_changed = any(getattr(node, name) != value for name, value in changes.items())
    return dataclasses.replace(node, **changes) if is_changed else node  # type: ignore[arg-type]


def is_correlated(node: RelationalNode) -> bool:
    """Whether a plan reads an outer query that is no part of it, or has a part that does."""
    found: list[Expression] = []

    def collect(expression: Expression) -> Expression:
        found.extend(p for p in walk(expression) if isinstance(p, Call) and p.function == OUTER)
        return expression

    rewrite(node, lambda part: with_expressions(part, collect))
    return bool(found)


def own_outer_columns(node: RelationalNode, depth: int) -> frozenset[int]:
    """The outer columns that the expressions of the node itself read."""
    found: set[int] = set()

    def collect(expression: Expression) -> Expression:
        found.update(outer_columns(expression, depth))
        return expression

    with_expressions(node, collect)
    return frozenset(found)


def outer_columns_below(node: RelationalNode, depth: int) -> frozenset[int]:
    """The outer columns that a plan reads."""
    found: frozenset[int] = frozenset()
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            check_not_given_up()
            seen.add(id(part))
            found |= own_outer_columns(part, depth)
            waiting += part.inputs
    return found
