"""A subquery that is evaluated for each row of a relation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.expressions import Expression
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.join import RelationalJoinKind
from sqlstream.planner.relational.node import RelationalNode, TwoInputNode

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Apply(TwoInputNode):
    """`left` joined with the rows that `right` has for each of its rows: expressions of `right` read columns of that row as
    references of this `depth` (see sqlstream.planner.relational.correlation).

    Kinds and condition are those of a join: INNER and LEFT for LATERAL and scalar subqueries, SEMI and ANTI for EXISTS and IN.
    It exists in bound plans alone: the optimiser's first rule makes a join of it.
    """

    kind: RelationalJoinKind
    depth: int
    condition: Expression | None = None

    def describe(self) -> str:
        condition = "TRUE" if self.condition is None else str(self.condition)
        return f"kind=[{self.kind.value}], depth=[{self.depth}], condition=[{condition}]"

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """A lateral join; expressions of the subquery know the left side as `outer_` and the depth."""
        left_width, outer = len(self.left.schema), f"outer_{self.depth}"

        def column(index: int) -> exp.Expr:
            is_left = index < left_width
            return tree.input_column(index if is_left else index - left_width, outer if is_left else "r")

        left, right = inputs
        condition = lowering.join_condition(
            self.condition, column, left_width, is_inner=self.kind is RelationalJoinKind.INNER
        )
        if self.kind.outputs_left_alone:
            matches = tree.select([tree.number(1)], tree.subquery(right, "r"), where=condition)
            exists: exp.Expr = exp.Exists(this=matches)
            is_anti = self.kind is RelationalJoinKind.ANTI
            return tree.select_all(left, outer, where=tree.negated(exists) if is_anti else exists)
        columns = numbered(column(i) for i in range(len(self.schema)))
        side = "LEFT" if self.kind is RelationalJoinKind.LEFT else None
        lateral = exp.Lateral(
            this=exp.Subquery(this=right), alias=exp.TableAlias(this=exp.to_identifier("r"))
        )
        join = exp.Join(this=lateral, side=side, on=condition)
        return tree.select(columns, tree.subquery(left, outer), joins=[join])

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        width = len(self.left.schema)
        return (self.left, column) if column < width else (self.right, column - width)
