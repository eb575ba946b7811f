"""Filters and projections."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.expressions import Expression, InputRef, conjuncts, inputs_of, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.injective import cast_column
from sqlstream.planner.relational.node import Key, RelationalNode, SameColumnsNode, SingleInputNode
from sqlstream.planner.relational.scan import TableScan
from sqlstream.planner.relational.tracing import Condition
from sqlstream.planner.relational.trimming import Columns, Pruning, over_input, places_of, reads_watermark

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
