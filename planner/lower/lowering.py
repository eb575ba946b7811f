"""What nodes of the relational plan need to lower themselves to SQL of a batch engine (see sqlstream.planner.lower.relation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from sqlstream.expressions import AggregateCall, Expression, SortKey
from sqlstream.planner.lower import tree

if TYPE_CHECKING:
    from sqlstream.planner.lower.engine import EngineDialect
    from sqlstream.planner.relational.aggregate import Aggregate
    from sqlstream.planner.relational.scan import TableScan


class Lowering(Protocol):
    """The translation of one plan. The queries of a node's inputs have columns c0, c1, …; a node with one input reads it under
    the alias `i`, a join under `l` and `r`."""

    @property
    def engine(self) -> EngineDialect:
        """How the engine writes what the node needs."""

    def expression(self, expression: Expression, relation: str = "i") -> exp.Expr:
        """The expression over the columns of a relation. UserError SS3301."""

    def condition(self, parts: Sequence[Expression]) -> exp.Expr:
        """The conjunction of conditions over the columns of the relation `i`. UserError SS3301."""

    def join_condition(
        self,
        condition: Expression | None,
        columns: Callable[[int], exp.Expr],
        split: int,
        *,
        is_inner: bool,
    ) -> exp.Expr:
        """A condition over the columns that `columns` names, those from `split` on of a join's right side. UserError SS3301."""

    def aggregate(self, node: Aggregate, call: AggregateCall) -> exp.Expr:
        """A call of a node over the columns of its input. UserError SS3301."""

    def relation_of(self, scan: TableScan) -> exp.Expr | None:
        """The rows of a scan; None when there are none to read."""


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
