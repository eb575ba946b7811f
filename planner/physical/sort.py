"""ORDER BY, with or without LIMIT."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import UserError
from sqlstream.planner.physical.description import describe, describe_order
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import SINGLETON, Planning, over
from sqlstream.planner.physical.rank import plan_rank
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.nodes import Rank, RelationalNode, Sort
from sqlstream.specs import SortSpec, TemporalSortSpec
from sqlstream.specs.calc import LimitSpec
from sqlstream.types import TimeAttribute, is_rowtime


def plan_sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    """Bounded input: a Sort that emits at the end of input. Unbounded: ORDER BY … LIMIT is an updating Top-N.

    Without LIMIT it is a sort by time: UserError SS3014 for any other order, by which no row could ever be emitted.
    """
    if source.traits.is_bounded:
        return _sort(planning, source, node)
    if node.fetch < 0:
        return _temporal_sort(planning, source, node)
    return _top_n(planning, source, node)


def plan_final_rows(planning: Planning, source: PhysicalNode) -> PhysicalNode:
    """The rows that are left at the end of bounded input, insert-only."""
    return planning.node(
        "FinalRows",
        SortSpec(order=(), offset=0, fetch=-1),
        over(source, SINGLETON),
        source.schema,
        Traits(is_bounded=True, keys=source.traits.unique_keys),
        describe("FinalRows"),
        source.span,
        parallelism=1,
    )


def _sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    spec = SortSpec(order=node.order, offset=node.offset, fetch=node.fetch)
    traits = Traits(is_bounded=True, keys=source.traits.unique_keys)
    return planning.node(
        "Sort",
        spec,
        over(source, SINGLETON),
        node.schema,
        traits,
        describe(
            "Sort",
            orderBy=describe_order(node.order, source.schema),
            offset=str(node.offset) if node.offset else "",
            fetch=str(node.fetch) if node.fetch >= 0 else "",
        ),
        node.span,
        parallelism=1,
    )


def _temporal_sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    first = node.order[0] if node.order else None
    time = source.schema.types[first.column] if first is not None else None
    is_time = time is not None and time.time_attribute is not TimeAttribute.NONE
    if first is None or time is None or not is_time or first.is_descending or node.offset:
        raise UserError(
            "SS3014",
            "ORDER BY on an unbounded table never comes to an end",
            span=node.span,
            hint="add LIMIT, order by a time attribute first, ascending and without OFFSET, or rank a window:"
            " ROW_NUMBER() OVER (PARTITION BY window_start, window_end …)",
        )
    require_insert_only(source, "ORDER BY time", node.span)
    is_event_time = is_rowtime(time)
    if is_event_time:
        require_time(source, first.column, "ORDER BY time", node.span)
    spec = TemporalSortSpec(
        order=node.order if is_event_time else node.order[1:],
        time_column=first.column if is_event_time else -1,
    )
    # Other times of the rows may be behind the watermark by now.
    traits = Traits(
        is_bounded=False,
        keys=source.traits.keys,
        times=source.traits.times & {first.column},
    )
    return planning.node(
        "TemporalSort",
        spec,
        over(source, SINGLETON),
        node.schema,
        traits,
        describe("TemporalSort", orderBy=describe_order(node.order, source.schema)),
        node.span,
        parallelism=1,
    )


def _top_n(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    rank = Rank(
        schema=node.schema,
        span=node.span,
        input=node.input,
        partition_keys=(),
        order=node.order,
        rank_start=node.offset + 1,
        rank_end=node.offset + node.fetch,
        outputs_rank=False,
    )
    return plan_rank(planning, source, rank)


# LIMIT and OFFSET without ORDER BY.


def plan_limit(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """One subtask counts the rows of an insert-only input; the traits of the input stay true."""
    if not isinstance(node, Sort) or node.order or not inputs[0].traits.is_insert_only:
        return None
    offset = str(node.offset) if node.offset else ""
    fetch = str(node.fetch) if node.fetch >= 0 else ""
    return planning.node(
        "Limit",
        LimitSpec(fetch=node.fetch, offset=node.offset),
        over(inputs[0], SINGLETON),
        node.schema,
        dataclasses.replace(inputs[0].traits, row_watermark_column=-1),
        describe("Limit", offset=offset, fetch=fetch),
        node.span,
        parallelism=1,
    )
