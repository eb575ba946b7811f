"""Filters and projections."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, conjuncts, inputs_of, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.node import Key, RelationalNode, SameColumnsNode, SingleInputNode
from sqlstream.planner.relational.scan import TableScan
from sqlstream.planner.relational.tracing import Condition
from sqlstream.planner.relational.trimming import Columns, Pruning, over_input, places_of, reads_watermark
from sqlstream.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Filter(SameColumnsNode):
    condition: Expression

    def describe(self) -> str:
        return f"condition=[{self.condition}]"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        time = time or reads_watermark([self.condition])
        source, places = pruning.trim(self.input, wanted | inputs_of(self.condition), time)
        return over_input(self, source, condition=remap(self.condition, places)), places

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        parts = conjuncts(self.condition)
        if isinstance(self.input, TableScan):
            parts = tuple(part for part in parts if part not in self.input.filters)
        if not parts:
            return inputs[0]
        return tree.select_all(inputs[0], where=lowering.condition(parts))

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        own = [Condition(part, False) for part in conjuncts(self.condition) if is_deterministic(part)]
        return [[*conditions, *own]]

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return (self.condition,)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Project(SingleInputNode):
    expressions: tuple[Expression, ...]

    def describe(self) -> str:
        items = zip(self.schema.names, self.expressions, strict=True)
        return ", ".join(f"{name}=[{expression}]" for name, expression in items)

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        kept = tuple(sorted(wanted))
        expressions = tuple(self.expressions[i] for i in kept)
        time = time or reads_watermark(expressions)
        source, places = pruning.trim(self.input, inputs_of(*expressions), time)
        expressions = tuple(remap(e, places) for e in expressions)
        project = over_input(self, source, expressions=expressions, schema=self.schema.select(kept))
        return project, places_of(kept)

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        columns = [lowering.expression(e) for e in self.expressions]
        return tree.select(numbered(columns), tree.subquery(inputs[0], "i"))

    def result_keys(self) -> tuple[Key, ...]:
        expressions = [*enumerate(self.expressions)][::-1]
        casts = {cast_column(e): i for i, e in expressions}
        places = casts | {e.index: i for i, e in expressions if isinstance(e, InputRef)}
        return tuple(
            tuple(places[column] for column in key)
            for key in self.input.result_keys()
            if places.keys() >= {*key}
        )

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        return [[Condition(substitute(c.expression, self.expressions), c.is_of_key) for c in conditions]]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        expression = self.expressions[column]
        return (self.input, expression.index) if isinstance(expression, InputRef) else None

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return self.expressions


# Casts that give different values for different ones, so that a key remains a key behind them.


_INTEGER_DIGITS = {
    TypeRoot.TINYINT: 3,
    TypeRoot.SMALLINT: 5,
    TypeRoot.INTEGER: 10,
    TypeRoot.BIGINT: 19,
}
_EXACT_IN = {
    TypeRoot.FLOAT: frozenset((TypeRoot.TINYINT, TypeRoot.SMALLINT)),
    TypeRoot.DOUBLE: frozenset((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.FLOAT)),
}
"""Approximate root → the roots all of whose values it holds exactly."""


def cast_column(expression: Expression) -> int:
    """The input's column that the expression is an injective cast of; -1 for every other expression. TRY_CAST is none: it makes
    several values NULL."""
    inner = expression
    while (
        isinstance(inner, Call) and inner.function == "CAST" and is_injective(inner.args[0].type, inner.type)
    ):
        inner = inner.args[0]
    return inner.index if isinstance(inner, InputRef) and inner is not expression else -1


def is_injective(source: LogicalType, target: LogicalType) -> bool:
    """Whether CAST(source AS target) never makes two values equal; it may fail for a value.

    A CHAR or BINARY that is filled up is not injective, since a table may hold shorter values; neither is a cast between
    TIMESTAMP and TIMESTAMP_LTZ, which crosses the hour that a zone leaves out or repeats."""
    if source.same_as(target) and source.root is not TypeRoot.BINARY:
        return True
    match target.root:
        case TypeRoot.VARCHAR:
            return _text_length(source) <= target.length
        case TypeRoot.VARBINARY:
            return source.root in sql.BINARY_ROOTS and source.length <= target.length
        case TypeRoot.DECIMAL:
            return _fits_decimal(source, target)
        case TypeRoot.TIMESTAMP if source.root is TypeRoot.DATE:
            return True
        case TypeRoot.TIMESTAMP if source.root is TypeRoot.TIME:
            return source.precision <= target.precision
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ | TypeRoot.TIME:
            return source.root is target.root and source.precision <= target.precision
        case root if root in _EXACT_IN:
            return source.root in _EXACT_IN[root]
        case root if root in _INTEGER_DIGITS and source.root in _INTEGER_DIGITS:
            return _INTEGER_DIGITS[source.root] <= _INTEGER_DIGITS[root]
        case _:
            return False


def _text_length(source: LogicalType) -> int:
    """How long the text of a value is at most; more than any type holds where different values may have one text."""
    match source.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return source.length
        case root if root in _INTEGER_DIGITS:
            return 1 + _INTEGER_DIGITS[root]
        case TypeRoot.DECIMAL:
            return len("-0.") + source.precision
        case TypeRoot.BOOLEAN:
            return len("FALSE")
        case TypeRoot.DATE:
            return len("2020-01-01")
        case TypeRoot.TIME:
            return len("00:00:00.") + source.precision
        case TypeRoot.TIMESTAMP:
            return len("2020-01-01 00:00:00.") + source.precision
        case _:
            return sql.VARCHAR_LENGTH_MAX + 1


def _fits_decimal(source: LogicalType, target: LogicalType) -> bool:
    """Values of more digits become NULL, so all digits must fit."""
    whole = target.precision - target.scale
    if source.root in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[source.root] <= whole
    is_decimal = source.root is TypeRoot.DECIMAL
    return is_decimal and source.scale <= target.scale and source.precision - source.scale <= whole
