"""Window table-valued functions."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import Columns, PhysicalNode, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import producer, require_prompt_rows
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind, WindowSpec, WindowTvfSpec
from sqlstream.types import BOOLEAN, TypeRoot

NS_PER_MS = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowTvf(base.SingleInputNode):
    """Appends window_start, window_end TIMESTAMP(3) NOT NULL and window_time (a time attribute like `time_column`).

    `partition_keys` belong to SESSION.
    """

    window: WindowSpec
    time_column: int
    partition_keys: tuple[int, ...] = ()

    def describe(self) -> str:
        return base.join_parts(
            f"window=[{self.window}]",
            f"time=[${self.time_column}]",
            f"partition=[{base.columns_text(self.partition_keys)}]" if self.partition_keys else "",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        own = len(self.input.schema)
        below = frozenset(c for c in wanted if c < own) | {self.time_column} | set(self.partition_keys)
        source, places = pruning.trim(self.input, below, time or self.window.is_event_time)
        count = len(source.schema)
        places = {c: places[c] for c in below} | {own + i: count + i for i in range(3)}
        schema = Schema(source.schema.fields + self.schema.fields[own:])
        keys = tuple(places[k] for k in self.partition_keys)
        column = places[self.time_column]
        return base.over_input(self, source, schema=schema, time_column=column, partition_keys=keys), places

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        """The bounds of a window as bounds of the time column."""
        width = len(self.input.schema)
        passed = base.of_columns(conditions, range(width))
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
                    passed.append(base.Condition(compared, condition.is_of_key))
        return [passed]

    def _bounds(self, place: int, value: int) -> tuple[int | None, int | None]:
        """The start and the end of the window whose start (0), end (1) or time (2) is `value`, as far as known."""
        end = None if place == 0 else value if place == 1 else value + NS_PER_MS
        if self.window.kind not in (WindowKind.TUMBLE, WindowKind.HOP):
            return (value if place == 0 else None), end
        size = self.window.size_ms * NS_PER_MS
        return (value, value + size) if end is None else (end - size, end)

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return self.copied(column)


def _column_value(expression: Expression) -> tuple[int, int] | None:
    """The column and the whole number of `column IS NOT DISTINCT FROM number`."""
    if not isinstance(expression, Call) or expression.function not in (base.EQUAL, "="):
        return None
    column, value = expression.args
    if isinstance(column, InputRef) and isinstance(value, Literal) and isinstance(value.value, int):
        return column.index, value.value
    return None


# Window functions that no aggregation absorbs, because other nodes read their columns.


def plan_window_tvf(planning: Planning, inputs: Inputs, node: WindowTvf) -> PhysicalNode:
    is_session = node.window.kind is WindowKind.SESSION
    source = inputs.of(node.input, needs_row_watermark=True) if is_session else inputs[0]
    return window_rows(planning, source, node)


def window_rows(planning: Planning, source: PhysicalNode, node: WindowTvf) -> PhysicalNode:
    """The operator that appends window columns. The bounds of a SESSION are fixed only when it closes; rows are emitted then.
    UserError SS3018 for a SESSION whose rows have watermarks of their own."""
    is_session = node.window.kind is WindowKind.SESSION
    if is_session:
        require_common_watermark(source, node.span)
    if node.window.is_event_time:
        require_prompt_rows(source, node.time_column, "a window", node.span)
    if is_session and not source.traits.is_insert_only:
        _require_row_time(source, node)
    # Behind the columns of the plan's node may be the watermark of each row.
    own = len(source.schema)
    schema = Schema(source.schema.fields + node.schema.fields[len(node.input.schema) :])
    window = WindowTrait(
        node.window,
        starts=frozenset({own}),
        ends=frozenset({own + 1}),
        times=frozenset({own + 2}),
        is_closed=is_session,
        row_times=frozenset({node.time_column}),
    )
    # A row is emitted once per window that contains it, so no key of the input identifies it.
    times = frozenset({own + 2}) if node.window.is_event_time else frozenset()
    if not is_session:
        # Those of a session's rows are behind the watermark when it closes.
        times |= source.traits.times
    traits = dataclasses.replace(
        source.traits,
        is_insert_only=is_session or source.traits.is_insert_only,
        keys=frozenset(),
        moving_keys=frozenset(),
        windows=(*source.traits.windows, window),
        times=times,
        is_single_row_per_window=False,
    )
    description = describe(
        "WindowTableFunction", window=f"[{node.window}, time={node.input.schema.names[node.time_column]}]"
    )
    spec = WindowTvfSpec(window=node.window, time_column=node.time_column, keys=node.partition_keys)
    exchange = hash_or_singleton(node.partition_keys) if is_session else FORWARD
    return planning.node(
        "WindowTableFunction",
        spec,
        over(source, exchange),
        schema,
        traits,
        description,
        node.span,
        parallelism=1 if is_session and not node.partition_keys else 0,
    )


def _require_row_time(source: PhysicalNode, node: WindowTvf) -> None:
    """UserError SS3011 for sessions by processing time over updating rows: a retraction comes at another time than its row."""
    if node.window.is_event_time:
        return
    raise UserError(
        "SS3011",
        "SESSION window by processing time doesn't support consuming update and delete changes, which"
        f" {producer(source).name} produces",
        span=node.span,
        hint="use a row time: declare WATERMARK FOR a TIMESTAMP(3) column of the table, and name that in DESCRIPTOR",
    )


def require_common_watermark(source: PhysicalNode, span: Span | None) -> None:
    """UserError SS3018 for a session of rows that have watermarks of their own."""
    if source.traits.row_watermark_column >= 0:
        raise UserError(
            "SS3018",
            "a SESSION of a table whose watermark is emitted on-event is refused",
            span=span,
            detail="which session a late row extends would depend on how the input is cut into batches",
            hint="write t /*+ OPTIONS('scan.watermark.emit.strategy' = 'on-periodic') */",
        )
