"""The join with the versions of rows that were valid at a time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.expressions import Expression, inputs_of, remap
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.join import RelationalJoinKind
from sqlstream.planner.relational.node import Key, RelationalNode, TwoInputNode
from sqlstream.planner.relational.trimming import Columns, Pruning, places_of

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TemporalJoin(TwoInputNode):
    """Each row of `left` with the row of `right` that was valid at its time (FOR SYSTEM_TIME AS OF a row time). The rows of
    `right` are versions: each is valid from `right_time` until the next one with the same `right_keys`.

    `condition` ranges over left then right columns and is asked of the valid version; None is TRUE. INNER or LEFT.
    A version matches only where the column `right_valid` is TRUE, as `condition` says too; -1: each one may.
    """

    kind: RelationalJoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    condition: Expression | None
    right_valid: int = -1

    def describe(self) -> str:
        keys = ", ".join(
            f"${a} = ${b + len(self.left.schema)}"
            for a, b in zip(self.left_keys, self.right_keys, strict=True)
        )
        times = f"as_of=[${self.left_time}], valid_from=[${self.right_time + len(self.left.schema)}]"
        condition = "" if self.condition is None else f", condition=[{self.condition}]"
        return f"kind=[{self.kind.value}], keys=[{keys}], {times}{condition}"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        split = len(self.left.schema)
        columns = wanted | (inputs_of(self.condition) if self.condition is not None else frozenset())
        left_columns = {c for c in columns if c < split} | {*self.left_keys, self.left_time}
        own = {*self.right_keys, self.right_time} | ({self.right_valid} if self.right_valid >= 0 else set())
        right_columns = {c - split for c in columns if c >= split} | own
        kept = tuple(sorted(left_columns)) + tuple(split + c for c in sorted(right_columns))
        places = places_of(kept)
        right_places = places_of(tuple(sorted(right_columns)))
        node = dataclasses.replace(
            self,
            left=pruning.exactly(self.left, frozenset(left_columns), True),
            right=pruning.exactly(self.right, frozenset(right_columns), True),
            left_keys=tuple(places[k] for k in self.left_keys),
            right_keys=tuple(right_places[k] for k in self.right_keys),
            left_time=places[self.left_time],
            right_time=right_places[self.right_time],
            right_valid=right_places.get(self.right_valid, -1),
            condition=None if self.condition is None else remap(self.condition, places),
            schema=self.schema.select(kept),
        )
        return node, places

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """A join of ranges: a version is valid until the next one of its key."""
        left, right = inputs
        split, width = len(self.left.schema), len(self.right.schema)

        def column(index: int) -> exp.Expr:
            return tree.input_column(index, "l") if index < split else tree.input_column(index - split, "r")

        time = tree.input_column(self.right_time)
        partition = [tree.input_column(k) for k in self.right_keys]
        until = tree.over(tree.call("lead", time), partition, [exp.Ordered(this=time.copy(), desc=False)])
        versions = tree.select([exp.Star(), tree.alias(until, f"c{width}")], tree.subquery(right, "i"))
        as_of, until = tree.input_column(self.left_time, "l"), tree.input_column(width, "r")
        parts = [
            tree.operate(exp.EQ, tree.input_column(a, "l"), tree.input_column(b, "r"))
            for a, b in zip(self.left_keys, self.right_keys, strict=True)
        ]
        parts.append(tree.operate(exp.GTE, as_of, tree.input_column(self.right_time, "r")))
        parts.append(tree.any_of([tree.is_null(until), tree.operate(exp.LT, as_of.copy(), until.copy())]))
        if self.condition is not None:
            is_inner = self.kind is RelationalJoinKind.INNER
            parts.append(lowering.join_condition(self.condition, column, split, is_inner=is_inner))
        side = "LEFT" if self.kind is RelationalJoinKind.LEFT else None
        join = exp.Join(this=tree.subquery(versions, "r"), side=side, on=tree.all_of(parts))
        columns = numbered(column(i) for i in range(len(self.schema)))
        return tree.select(columns, tree.subquery(left, "l"), joins=[join])

    def result_keys(self) -> tuple[Key, ...]:
        # A row has one match at most.
        return self.left.result_keys()

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        width = len(self.left.schema)
        return (self.left, column) if column < width else (self.right, column - width)

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)
