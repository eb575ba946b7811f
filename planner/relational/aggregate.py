"""GROUP BY and DISTINCT."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from sqlstream.expressions import AggregateCall, InputRef, substitute
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.node import Key, RelationalNode, SingleInputNode
from sqlstream.planner.relational.tracing import Condition, of_columns
from sqlstream.planner.relational.trimming import Columns, Pruning, over_input, places_of
from sqlstream.planner.relational.window_tvf import WindowTvf
from sqlstream.planner.relational.wording import columns_text, join_parts
from sqlstream.specs.window import WindowKind

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Aggregate(SingleInputNode):
    """GROUP BY columns `keys`; schema: key columns, then one column per call. DISTINCT is an Aggregate without calls.
    `ttl_ms`: what a hint says of its state."""

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    ttl_ms: int | None = None

    def describe(self) -> str:
        calls = zip(self.schema.names[len(self.keys) :], self.calls, strict=True)
        return join_parts(
            f"group=[{columns_text(self.keys)}]",
            *(f"{name}=[{call}]" for name, call in calls),
            "" if self.ttl_ms is None else f"stateTtl=[{self.ttl_ms} ms]",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        key_count = len(self.keys)
        kept = tuple(i for i in range(len(self.calls)) if key_count + i in wanted)
        if not self.keys and not kept:
            kept = (0,)
        calls = tuple(self.calls[i] for i in kept)
        below = set(self.keys)
        for call in calls:
            below |= {*call.args, *([call.filter] if call.filter >= 0 else [])}
        source, places = pruning.trim(self.input, frozenset(below), time)
        calls = tuple(
            msgspec.structs.replace(
                c, args=tuple(places[a] for a in c.args), filter=places[c.filter] if c.filter >= 0 else -1
            )
            for c in calls
        )
        columns = tuple(range(key_count)) + tuple(key_count + i for i in kept)
        keys = tuple(places[k] for k in self.keys)
        aggregate = over_input(self, source, keys=keys, calls=calls, schema=self.schema.select(columns))
        return aggregate, places_of(columns)

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        columns = [tree.input_column(k) for k in self.keys]
        columns += [lowering.aggregate(self, call) for call in self.calls]
        group = [tree.input_column(k) for k in self.keys]
        return tree.select(numbered(columns), tree.subquery(inputs[0], "i"), group=group)

    def result_keys(self) -> tuple[Key, ...]:
        every = tuple(range(len(self.keys)))
        bounds = {}
        for column in every:
            window, place = _window_column(self.input, self.keys[column])
            if window is not None and window.window.kind in (WindowKind.TUMBLE, WindowKind.HOP):
                bounds[place] = column
        if not bounds.keys() >= {0, 1}:
            return (every,)
        # The two bounds of a window that always has the same size follow from each other.
        return (every, _without(every, bounds[1]), _without(every, bounds[0]))

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        keys = tuple(InputRef(k, self.input.schema.types[k]) for k in self.keys)
        found = of_columns(conditions, range(len(keys)))
        return [[Condition(substitute(c.expression, keys), c.is_of_key) for c in found]]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return (self.input, self.keys[column]) if column < len(self.keys) else None


def _window_column(node: RelationalNode, column: int) -> tuple[WindowTvf | None, int]:
    """The window that makes a column, and whether it is its start (0), end (1) or time (2)."""
    while not isinstance(node, Aggregate):
        if isinstance(node, WindowTvf) and column >= len(node.input.schema):
            return node, column - len(node.input.schema)
        found = node.origin(column)
        # The sides of a join may have different windows.
        if found is None or len(node.inputs) != 1:
            break
        node, column = found
    return None, 0


def _without(key: Key, column: int) -> Key:
    return tuple(each for each in key if each != column)
