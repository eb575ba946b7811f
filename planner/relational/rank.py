"""Rows with the first numbers within partitions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.expressions import SortKey
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import ordered
from sqlstream.planner.relational.node import Key, RelationalNode, SingleInputNode
from sqlstream.planner.relational.tracing import Condition, of_columns
from sqlstream.planner.relational.trimming import (
    Columns,
    Pruning,
    moved_order,
    one_column,
    over_input,
    places_of,
)
from sqlstream.planner.relational.wording import columns_text, order_text
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rank(SingleInputNode):
    """The rows whose ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) is rank_start … rank_end (1-based inclusive);
    `outputs_rank`: with a column of it. `ttl_ms`: what a hint says of its state."""

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    rank_start: int
    rank_end: int
    outputs_rank: bool
    ttl_ms: int | None = None

    def describe(self) -> str:
        return (
            f"partition=[{columns_text(self.partition_keys)}], order=[{order_text(self.order)}],"
            f" rank=[{self.rank_start}..{self.rank_end}], outputs_rank=[{str(self.outputs_rank).lower()}]"
            + ("" if self.ttl_ms is None else f", stateTtl=[{self.ttl_ms} ms]")
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        own = len(self.input.schema)
        has_number = self.outputs_rank and own in wanted
        below = (
            frozenset(c for c in wanted if c < own)
            | set(self.partition_keys)
            | {k.column for k in self.order}
        )
        source = pruning.exactly(self.input, below, time)
        kept = tuple(sorted(below)) or tuple(sorted(one_column(self.input.schema)))
        places = places_of(kept)
        made = over_input(
            self,
            source,
            schema=Schema(source.schema.fields + (self.schema.fields[own:] if has_number else ())),
            partition_keys=tuple(places[k] for k in self.partition_keys),
            order=moved_order(self.order, places),
            outputs_rank=has_number,
        )
        return made, places | {own: len(kept)}

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        width = len(self.input.schema)
        partition = [tree.input_column(k) for k in self.partition_keys]
        number = tree.over(tree.call("row_number"), partition, ordered(self.order, "i"))
        numbered = tree.select([tree.star(), tree.alias(number, f"c{width}")], tree.subquery(inputs[0], "i"))
        columns = [tree.input_column(i) for i in range(width + self.outputs_rank)]
        first, last = tree.number(self.rank_start), tree.number(self.rank_end)
        kept = tree.is_between(tree.input_column(width), first, last)
        return tree.select(columns, tree.subquery(numbered, "i"), where=kept)

    def result_keys(self) -> tuple[Key, ...]:
        if self.rank_start == self.rank_end:
            return (self.partition_keys,)
        if self.outputs_rank:
            return ((*self.partition_keys, len(self.schema) - 1),)
        return self.input.result_keys()

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        return [of_columns(conditions, self.partition_keys)]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return self.copied(column)
