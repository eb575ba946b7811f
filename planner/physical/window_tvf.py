"""Window functions that no aggregation absorbs, because other nodes read their columns."""

from __future__ import annotations

import dataclasses

from planner.physical.description import describe
from planner.physical.node import PhysicalNode
from planner.physical.planning import Planning, over
from planner.physical.refusals import require_insert_only
from planner.physical.traits import WindowTrait
from planner.relational.nodes import WindowTvf
from sqlstream.errors import UserError
from sqlstream.specs import WindowKind, WindowTvfSpec


def plan_window_tvf(planning: Planning, source: PhysicalNode, node: WindowTvf) -> PhysicalNode:
    """The operator that appends window columns. UserError SS3013 for SESSION, whose bounds are fixed only when it ends."""
    if node.window.kind is WindowKind.SESSION:
        raise UserError(
            "SS3013",
            "SESSION needs an aggregation right above it",
            span=node.span,
            hint="GROUP BY its keys, window_start and window_end; put WHERE in a view that SESSION reads",
        )
    require_insert_only(source, "window table function", node.span)
    own = len(node.input.schema)
    window = WindowTrait(
        node.window, starts=frozenset({own}), ends=frozenset({own + 1}), times=frozenset({own + 2})
    )
    # A row is emitted once per window that contains it, so no key of the input identifies it.
    times = source.traits.times | ({own + 2} if node.window.is_event_time else frozenset())
    traits = dataclasses.replace(
        source.traits,
        keys=frozenset(),
        windows=(*source.traits.windows, window),
        times=times,
        is_single_row_per_window=False,
    )
    description = describe(
        "WindowTableFunction", window=f"[{node.window}, time={node.input.schema.names[node.time_column]}]"
    )
    spec = WindowTvfSpec(window=node.window, time_column=node.time_column)
    return planning.node(
        "WindowTableFunction", spec, over(source), node.schema, traits, description, node.span
    )
