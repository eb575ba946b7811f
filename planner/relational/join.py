"""Joins of two relations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    conjuncts,
    inputs_of,
    references,
    remap,
    substitute,
)
from sqlstream.planner.physical.join import join_rows
from sqlstream.planner.physical.join_condition import JoinSides
from sqlstream.planner.physical.node import Columns, PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.aggregate import history_below
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs.join import JoinKind


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Join(base.TwoInputNode):
    """`condition` ranges over left then right columns; None is TRUE. SEMI and ANTI output the left columns alone.
    `ttls_ms`: what hints say of the state of the sides."""

    kind: JoinKind
    condition: Expression | None
    ttls_ms: tuple[int | None, int | None] = (None, None)

    def describe(self) -> str:
        condition = "TRUE" if self.condition is None else str(self.condition)
        sides = zip(("left", "right"), self.ttls_ms, strict=True)
        ttls = [f"{side}={ttl} ms" for side, ttl in sides if ttl is not None]
        return f"kind=[{self.kind.value}], condition=[{condition}]" + (
            f", stateTtl=[{', '.join(ttls)}]" if ttls else ""
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        split = len(self.left.schema)
        time = time or any(base.reads_time(p) for p in conjuncts(self.condition))
        columns = wanted | (inputs_of(self.condition) if self.condition is not None else frozenset())
        left_columns = frozenset(c for c in columns if c < split) or base.one_column(self.left.schema)
        right_columns = frozenset(c - split for c in columns if c >= split) or base.one_column(
            self.right.schema
        )
        left = pruning.exactly(self.left, left_columns, time)
        right = pruning.exactly(self.right, right_columns, time)
        kept = tuple(sorted(left_columns)) + tuple(split + c for c in sorted(right_columns))
        places = base.places_of(kept)
        condition = None if self.condition is None else remap(self.condition, places)
        own = tuple(sorted(left_columns)) if self.kind.is_left_only else kept
        schema = self.schema.select(own)
        return dataclasses.replace(self, left=left, right=right, condition=condition, schema=schema), places

    def result_keys(self) -> tuple[base.Key, ...]:
        if self.kind.is_left_only:
            return self.left.result_keys()
        width = len(self.left.schema)
        right = [tuple(width + column for column in key) for key in self.right.result_keys()]
        both = tuple((*a, *b) for a in self.left.result_keys() for b in right)
        if self.kind is not JoinKind.FULL:
            return both
        # A key that may be NULL on both sides may be that of two rows, one of each side.
        types = (*self.left.schema.types, *self.right.schema.types)
        return tuple(key for key in both if any(not types[column].nullable for column in key))

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        """What each side gets: conditions on its own columns, and those on columns that the join equates with its own."""
        width, count = len(self.left.schema), len(self.left.schema) + len(self.right.schema)
        types = (*self.left.schema.types, *self.right.schema.types)
        known, inputs = [*conditions], references(types)
        for a, b in self._equated():
            for condition in conditions:
                read = inputs_of(condition.expression)
                for source, target in ((a, b), (b, a)):
                    if read == {source.index} and not base.accepts_null(condition):
                        columns = (*inputs[: source.index], target, *inputs[source.index + 1 :])
                        known.append(
                            base.Condition(substitute(condition.expression, columns), condition.is_of_key)
                        )
        left = base.of_columns(known, range(width))
        right = base.of_columns(known, range(width, count))
        if self.kind.pads(1):
            left = [c for c in left if not base.accepts_null(c)]
        if self.kind.pads(0):
            right = [c for c in right if not base.accepts_null(c)]
        shifted = tuple(InputRef(max(i - width, 0), t.type) for i, t in enumerate(inputs))
        return [left, [base.Condition(substitute(c.expression, shifted), c.is_of_key) for c in right]]

    def _equated(self) -> Iterator[tuple[InputRef, InputRef]]:
        """The pairs of columns that the join holds equal."""
        for part in conjuncts(self.condition):
            if isinstance(part, Call) and part.function == "=":
                a, b = part.args
                if isinstance(a, InputRef) and isinstance(b, InputRef) and a.type.root is b.type.root:
                    yield a, b

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        width = len(self.left.schema)
        return (self.left, column) if column < width else (self.right, column - width)

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)


def _with_histories(planning: Planning, inputs: Inputs, node: Join) -> tuple[PhysicalNode, PhysicalNode]:
    from sqlstream.planner.relational.backfill import plan_backfilled_sides

    return plan_backfilled_sides(planning, inputs, node)


def plan_join(planning: Planning, inputs: Inputs, node: Join) -> PhysicalNode:
    """By window, by interval, or over all rows, as the condition allows."""
    left, right = (
        inputs if not any(map(history_below, node.inputs)) else _with_histories(planning, inputs, node)
    )
    sides = JoinSides(
        kind=node.kind,
        left=left,
        right=right,
        condition=node.condition,
        schema=node.schema,
        span=node.span,
        ttls_ms=node.ttls_ms,
        are_shared=(node.left in planning.shared, node.right in planning.shared),
    )
    return join_rows(planning, sides)
