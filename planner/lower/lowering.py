"""What the nodes of one plan are lowered with: the engine, the relations of its tables, expressions over columns of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from sqlstream.expressions import AggregateCall, Expression, SortKey, conjuncts
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect
from sqlstream.planner.lower.expression import lower_condition, lower_expression, lower_join_condition
from sqlstream.planner.relational.nodes import Aggregate, TableScan


class Lowering:
    """The queries of a node's inputs have columns c0, c1, …; a node with one input reads it under the alias `i`, a join under `l`
    and `r`. `relations`: the rows of each scan, None where there are none to read. `collected`: the calls whose arrays may have
    any order. Each method raises UserError SS3301 for what the engine lacks."""

    def __init__(
        self,
        engine: EngineDialect,
        relations: Mapping[TableScan, exp.Expr | None],
        collected: frozenset[tuple[Aggregate, AggregateCall]],
    ) -> None:
        self.engine = engine
        self.relations = relations
        self._collected = collected

    def expression(self, expression: Expression, relation: str = "i") -> exp.Expr:
        """The expression over the columns of a relation."""
        return lower_expression(expression, self.engine, lambda i: tree.input_column(i, relation))

    def condition(self, parts: Sequence[Expression]) -> exp.Expr:
        """The conjunction of conditions over the columns of the relation `i`."""
        return lower_condition(parts, self.engine, tree.input_column)

    def join_condition(
        self,
        condition: Expression | None,
        columns: Callable[[int], exp.Expr],
        split: int,
        *,
        is_inner: bool,
    ) -> exp.Expr:
        """A condition over the columns that `columns` names, those from `split` on of a join's right side."""
        return lower_join_condition(conjuncts(condition), self.engine, columns, split, is_inner=is_inner)

    def aggregate(self, node: Aggregate, call: AggregateCall) -> exp.Expr:
        """A call of a node over the columns of its input."""
        if (node, call) in self._collected:
            return self.engine.collected(call)
        return self.engine.aggregate(call, node.input.schema)


def numbered(columns: Iterable[exp.Expr]) -> list[exp.Expr]:
    """The columns as c0, c1, …"""
    return [tree.alias(column, f"c{i}") for i, column in enumerate(columns)]


def ordered(keys: Iterable[SortKey], relation: str) -> list[exp.Expr]:
    """The items of ORDER BY over the columns of `relation`."""
    return [
        exp.Ordered(
            this=tree.input_column(k.column, relation), desc=k.is_descending, nulls_first=k.is_nulls_first
        )
        for k in keys
    ]
