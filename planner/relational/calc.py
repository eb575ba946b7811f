"""Filters and projections."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, conjuncts, inputs_of, references, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.expression_facts import cast_column
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.node import Columns, PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Filter(base.SameColumnsNode):
    condition: Expression

    def describe(self) -> str:
        return f"condition=[{self.condition}]"

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        time = time or base.reads_watermark([self.condition])
        source, places = pruning.trim(self.input, wanted | inputs_of(self.condition), time)
        return base.over_input(self, source, condition=remap(self.condition, places)), places

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        own = [base.Condition(part, False) for part in conjuncts(self.condition) if is_deterministic(part)]
        return [[*conditions, *own]]

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return (self.condition,)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Project(base.SingleInputNode):
    expressions: tuple[Expression, ...]

    def describe(self) -> str:
        items = zip(self.schema.names, self.expressions, strict=True)
        return ", ".join(f"{name}=[{expression}]" for name, expression in items)

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        kept = tuple(sorted(wanted))
        expressions = tuple(self.expressions[i] for i in kept)
        time = time or base.reads_watermark(expressions)
        source, places = pruning.trim(self.input, inputs_of(*expressions), time)
        expressions = tuple(remap(e, places) for e in expressions)
        project = base.over_input(self, source, expressions=expressions, schema=self.schema.select(kept))
        return project, base.places_of(kept)

    def result_keys(self) -> tuple[base.Key, ...]:
        expressions = [*enumerate(self.expressions)][::-1]
        casts = {cast_column(e): i for i, e in expressions}
        places = casts | {e.index: i for i, e in expressions if isinstance(e, InputRef)}
        return tuple(
            tuple(places[column] for column in key)
            for key in self.input.result_keys()
            if places.keys() >= {*key}
        )

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        return [[base.Condition(substitute(c.expression, self.expressions), c.is_of_key) for c in conditions]]

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        expression = self.expressions[column]
        return (self.input, expression.index) if isinstance(expression, InputRef) else None

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return self.expressions


def plan_filter_or_project(planning: Planning, inputs: Inputs, node: Filter | Project) -> PhysicalNode:
    return plan_calc(
        planning,
        inputs.of(node.input, inputs.needs_row_watermark),
        node.expressions if isinstance(node, Project) else references(node.schema.types),
        node.condition if isinstance(node, Filter) else None,
        node.schema,
        node.span,
        may_merge=node.input not in planning.shared,
    )
