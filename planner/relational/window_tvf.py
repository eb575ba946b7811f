"""Window table-valued functions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.lower.windows import lower_window_tvf
from sqlstream.planner.relational.node import RelationalNode, SingleInputNode
from sqlstream.planner.relational.tracing import EQUAL, Condition, of_columns
from sqlstream.planner.relational.trimming import Columns, Pruning, over_input
from sqlstream.planner.relational.wording import columns_text, join_parts
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.types import BOOLEAN, TypeRoot

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed

NS_PER_MS = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowTvf(SingleInputNode):
    """Appends window_start, window_end TIMESTAMP(3) NOT NULL and window_time (a time attribute like `time_column`).

    `partition_keys` belong to SESSION.
    """

    window: WindowSpec
    time_column: int
    partition_keys: tuple[int, ...] = ()

    def describe(self) -> str:
        return join_parts(
            f"window=[{self.window}]",
            f"time=[${self.time_column}]",
            f"partition=[{columns_text(self.partition_keys)}]" if self.partition_keys else "",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        own = len(self.input.schema)
        below = frozenset(c for c in wanted if c < own) | {self.time_column} | set(self.partition_keys)
        source, places = pruning.trim(self.input, below, time or self.window.is_event_time)
        count = len(source.schema)
        places = {c: places[c] for c in below} | {own + i: count + i for i in range(3)}
        schema = Schema(source.schema.fields + self.schema.fields[own:])
        keys = tuple(places[k] for k in self.partition_keys)
        column = places[self.time_column]
        return over_input(self, source, schema=schema, time_column=column, partition_keys=keys), places

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        engine = lowering.engine
        if not self.window.is_event_time:
            hint = "use a column with a watermark"
            raise refuse(engine.title, "a window of processing time", hint=hint, span=self.span)
        return lower_window_tvf(self, inputs[0], engine)

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        """The bounds of a window as bounds of the time column."""
        width = len(self.input.schema)
        passed = of_columns(conditions, range(width))
        time = InputRef(self.time_column, self.input.schema.types[self.time_column])
        if time.type.root is TypeRoot.TIMESTAMP_LTZ and self.window.time_zone != "UTC":
            return [passed]
        for condition in conditions:
            found = _column_value(condition.expression)
            if found is None or not width <= found[0] < width + 3:
                continue
            plain = time.type.without_time_attribute()
            for function, bound in zip((">=", "<"), self._bounds(found[0] - width, found[1]), strict=True):
                if bound is not None:
                    compared = Call(function, (time, Literal(bound, plain.not_null())), BOOLEAN)
                    passed.append(Condition(compared, condition.is_of_key))
        return [passed]

    def _bounds(self, place: int, value: int) -> tuple[int | None, int | None]:
        """The start and the end of the window whose start (0), end (1) or time (2) is `value`, as far as known."""
        end = None if place == 0 else value if place == 1 else value + NS_PER_MS
        if self.window.kind not in (WindowKind.TUMBLE, WindowKind.HOP):
            return (value if place == 0 else None), end
        size = self.window.size_ms * NS_PER_MS
        return (value, value + size) if end is None else (end - size, end)

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return self.copied(column)


def _column_value(expression: Expression) -> tuple[int, int] | None:
    """The column and the whole number of `column IS NOT DISTINCT FROM number`."""
    if not isinstance(expression, Call) or expression.function not in (EQUAL, "="):
        return None
    column, value = expression.args
    if isinstance(column, InputRef) and isinstance(value, Literal) and isinstance(value.value, int):
        return column.index, value.value
    return None
