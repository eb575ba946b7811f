"""OVER: columns computed from the neighbours of each row."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.expressions import SortKey
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.over import lower_over_call
from sqlstream.planner.relational.node import Key, RelationalNode, SingleInputNode
from sqlstream.planner.relational.tracing import Condition, of_columns
from sqlstream.planner.relational.trimming import Columns, Pruning, moved_order, over_input, places_of
from sqlstream.planner.relational.wording import columns_text, join_parts, order_text
from sqlstream.schema import Schema
from sqlstream.specs.over import OverCall
from sqlstream.types import is_rowtime

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Window(SingleInputNode):
    """Appends a column per call OVER (PARTITION BY … ORDER BY … its frame). `ttl_ms`: what a hint says of its state."""

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    calls: tuple[OverCall, ...]
    ttl_ms: int | None = None

    def describe(self) -> str:
        return join_parts(
            f"partition=[{columns_text(self.partition_keys)}]",
            f"order=[{order_text(self.order)}]",
            f"calls=[{', '.join(map(call_text, self.calls))}]",
            "" if self.ttl_ms is None else f"stateTtl=[{self.ttl_ms} ms]",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        width = len(self.input.schema)
        kept = tuple(i for i in range(len(self.calls)) if width + i in wanted)
        if not kept:
            return pruning.trim(self.input, wanted, time)
        below = {c for c in wanted if c < width} | set(self.partition_keys) | {k.column for k in self.order}
        for i in kept:
            below |= self.calls[i].columns()
        is_by_time = bool(self.order) and is_rowtime(self.input.schema.types[self.order[0].column])
        source, places = pruning.trim(self.input, frozenset(below), time or is_by_time)
        schema = Schema(source.schema.fields + tuple(self.schema.fields[width + i] for i in kept))
        made = over_input(
            self,
            source,
            schema=schema,
            partition_keys=tuple(places[k] for k in self.partition_keys),
            order=moved_order(self.order, places),
            calls=tuple(self.calls[i].moved(places) for i in kept),
        )
        own = places_of(tuple(width + i for i in kept))
        return made, places | {old: len(source.schema) + new for old, new in own.items()}

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        width = len(self.input.schema)
        columns = [
            tree.alias(lower_over_call(self, call, lowering.engine), f"c{width + i}")
            for i, call in enumerate(self.calls)
        ]
        return tree.select([tree.star(), *columns], tree.subquery(inputs[0], "i"))

    def result_keys(self) -> tuple[Key, ...]:
        width = len(self.input.schema)
        numbered = tuple(
            (*self.partition_keys, width + i)
            for i, call in enumerate(self.calls)
            if call.function == "ROW_NUMBER"
        )
        return (*numbered, *self.input.result_keys())

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        return [of_columns(conditions, self.partition_keys)]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return self.copied(column)


def call_text(call: OverCall) -> str:
    """The call for EXPLAIN."""
    parts = ["DISTINCT "] if call.is_distinct else []
    args = [f"${a}" for a in call.args]
    if call.number:
        args.insert(1, str(call.number))
    text = f"{call.function}({''.join(parts)}{', '.join(args) or ('*' if call.function == 'COUNT' else '')})"
    if call.filter >= 0:
        text += f" FILTER ${call.filter}"
    return f"{text} {call.frame}" if call.has_frame else text


def merge_windows(node: RelationalNode) -> RelationalNode:
    """Two sets of calls over the same partitions and order are one."""
    if not isinstance(node, Window) or not isinstance(node.input, Window):
        return node
    below = node.input
    width = len(below.input.schema)
    reads = {*node.partition_keys, *(k.column for k in node.order)}.union(*(c.columns() for c in node.calls))
    if (node.partition_keys, node.order) != (below.partition_keys, below.order) or max(
        reads, default=0
    ) >= width:
        return node
    return dataclasses.replace(node, input=below.input, calls=below.calls + node.calls)
