"""UNION ALL."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.planner.relational.tracing import Condition
from sqlstream.planner.relational.trimming import Columns, Pruning, places_of

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Union(RelationalNode):
    """UNION ALL; all inputs have the schema's types."""

    branches: tuple[RelationalNode, ...]

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, branches=inputs)

    def describe(self) -> str:
        return "all=[true]"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        branches = tuple(pruning.exactly(b, wanted, time) for b in self.branches)
        kept = tuple(sorted(wanted))
        return dataclasses.replace(self, branches=branches, schema=self.schema.select(kept)), places_of(kept)

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """Each branch is a subquery, since it may have an order or a limit of its own."""
        if len(inputs) == 1:
            return inputs[0]
        made: exp.Expr = tree.select_all(inputs[0])
        for branch in inputs[1:]:
            made = exp.Union(this=made, expression=tree.select_all(branch), distinct=False)
        return made

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        return [[*conditions] for _ in self.branches]
