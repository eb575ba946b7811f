"""Joins of two relations."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.expressions import Call, Expression, InputRef, conjuncts, inputs_of, remap, substitute
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.node import Key, RelationalNode, TwoInputNode
from sqlstream.planner.relational.tracing import Condition, accepts_null, of_columns
from sqlstream.planner.relational.trimming import Columns, Pruning, one_column, places_of, reads_time
from sqlstream.specs.join import RetryOnMiss

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


class RelationalJoinKind(enum.Enum):
    """All kinds of SQL."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"

    @property
    def outputs_left_alone(self) -> bool:
        return self in (RelationalJoinKind.SEMI, RelationalJoinKind.ANTI)


_OUTER_RIGHT = (RelationalJoinKind.LEFT, RelationalJoinKind.FULL)
_OUTER_LEFT = (RelationalJoinKind.RIGHT, RelationalJoinKind.FULL)
_SIDES = {
    RelationalJoinKind.INNER: None,
    RelationalJoinKind.LEFT: "LEFT",
    RelationalJoinKind.RIGHT: "RIGHT",
    RelationalJoinKind.FULL: "FULL",
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Join(TwoInputNode):
    """`condition` ranges over left then right columns; None is TRUE. SEMI and ANTI output the left columns alone.
    `ttls_ms`: what hints say of the state of the sides."""

    kind: RelationalJoinKind
    condition: Expression | None
    ttls_ms: tuple[int | None, int | None] = (None, None)

    def describe(self) -> str:
        condition = "TRUE" if self.condition is None else str(self.condition)
        sides = zip(("left", "right"), self.ttls_ms, strict=True)
        ttls = [f"{side}={ttl} ms" for side, ttl in sides if ttl is not None]
        return f"kind=[{self.kind.value}], condition=[{condition}]" + (
            f", stateTtl=[{', '.join(ttls)}]" if ttls else ""
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        split = len(self.left.schema)
        time = time or any(reads_time(p) for p in conjuncts(self.condition))
        columns = wanted | (inputs_of(self.condition) if self.condition is not None else frozenset())
        left_columns = frozenset(c for c in columns if c < split) or one_column(self.left.schema)
        right_columns = frozenset(c - split for c in columns if c >= split) or one_column(self.right.schema)
        left = pruning.exactly(self.left, left_columns, time)
        right = pruning.exactly(self.right, right_columns, time)
        kept = tuple(sorted(left_columns)) + tuple(split + c for c in sorted(right_columns))
        places = places_of(kept)
        condition = None if self.condition is None else remap(self.condition, places)
        own = tuple(sorted(left_columns)) if self.kind.outputs_left_alone else kept
        schema = self.schema.select(own)
        return dataclasses.replace(self, left=left, right=right, condition=condition, schema=schema), places

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        left_width = len(self.left.schema)

        def column(index: int) -> exp.Expr:
            is_left = index < left_width
            return tree.input_column(index if is_left else index - left_width, "l" if is_left else "r")

        left, right = inputs
        condition = lowering.join_condition(
            self.condition, column, left_width, is_inner=self.kind is RelationalJoinKind.INNER
        )
        if self.kind.outputs_left_alone:
            matches = tree.select([tree.number(1)], tree.subquery(right, "r"), where=condition)
            exists: exp.Expr = exp.Exists(this=matches)
            if self.kind is RelationalJoinKind.ANTI:
                exists = tree.negated(exists)
            return tree.select_all(left, "l", where=exists)
        columns = numbered(column(i) for i in range(len(self.schema)))
        join = exp.Join(this=tree.subquery(right, "r"), side=_SIDES[self.kind], on=condition)
        return tree.select(columns, tree.subquery(left, "l"), joins=[join])

    def result_keys(self) -> tuple[Key, ...]:
        if self.kind.outputs_left_alone:
            return self.left.result_keys()
        width = len(self.left.schema)
        right = [tuple(width + column for column in key) for key in self.right.result_keys()]
        both = tuple((*a, *b) for a in self.left.result_keys() for b in right)
        if self.kind is not RelationalJoinKind.FULL:
            return both
        # A key that may be NULL on both sides may be that of two rows, one of each side.
        types = (*self.left.schema.types, *self.right.schema.types)
        return tuple(key for key in both if any(not types[column].nullable for column in key))

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        """What each side gets: conditions on its own columns, and those on columns that the join equates with its own."""
        width, count = len(self.left.schema), len(self.left.schema) + len(self.right.schema)
        types = (*self.left.schema.types, *self.right.schema.types)
        known, inputs = [*conditions], tuple(InputRef(i, t) for i, t in enumerate(types))
        for a, b in self._equated():
            for condition in conditions:
                read = inputs_of(condition.expression)
                for source, target in ((a, b), (b, a)):
                    if read == {source.index} and not accepts_null(condition):
                        columns = (*inputs[: source.index], target, *inputs[source.index + 1 :])
                        known.append(
                            Condition(substitute(condition.expression, columns), condition.is_of_key)
                        )
        left = of_columns(known, range(width))
        right = of_columns(known, range(width, count))
        if self.kind in _OUTER_LEFT:
            left = [c for c in left if not accepts_null(c)]
        if self.kind in _OUTER_RIGHT:
            right = [c for c in right if not accepts_null(c)]
        shifted = tuple(InputRef(max(i - width, 0), t.type) for i, t in enumerate(inputs))
        return [left, [Condition(substitute(c.expression, shifted), c.is_of_key) for c in right]]

    def _equated(self) -> Iterator[tuple[InputRef, InputRef]]:
        """The pairs of columns that the join holds equal."""
        for part in conjuncts(self.condition):
            if isinstance(part, Call) and part.function == "=":
                a, b = part.args
                if isinstance(a, InputRef) and isinstance(b, InputRef) and a.type.root is b.type.root:
                    yield a, b

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        width = len(self.left.schema)
        return (self.left, column) if column < width else (self.right, column - width)

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LookupJoin(Join):
    """A join with the rows that `right` has when a left row arrives (FOR SYSTEM_TIME AS OF processing time): `right` is read by
    key, and its later changes do not change the result. Over a table that does not change it is the plain join.

    INNER or LEFT; `right` is a table with filters and projections. `is_shuffled`: the rows of a key meet in one subtask.
    """

    retry: RetryOnMiss | None = None
    is_shuffled: bool = False

    def describe(self) -> str:
        return f"{super().describe()}, as_of=[PROCTIME]"
