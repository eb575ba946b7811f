"""Window functions that no aggregation absorbs, because other nodes read their columns."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import Span, UserError
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.exchanges import hash_or_singleton
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.refusals import producer, require_prompt_rows
from sqlstream.planner.physical.traits import WindowTrait
from sqlstream.planner.relational.nodes import WindowTvf
from sqlstream.schema import Schema
from sqlstream.specs import WindowKind, WindowTvfSpec


def plan_window_tvf(planning: Planning, source: PhysicalNode, node: WindowTvf) -> PhysicalNode:
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
