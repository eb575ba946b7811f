"""ORDER BY, with or without LIMIT."""

from __future__ import annotations

from planner.physical.description import describe, describe_order
from planner.physical.exchanges import SINGLETON
from planner.physical.node import PhysicalNode
from planner.physical.planning import Planning, over
from planner.physical.rank import plan_rank
from planner.physical.traits import Traits
from planner.relational.nodes import Rank, Sort
from sqlstream.errors import UserError
from sqlstream.specs import SortSpec


def plan_sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    """Bounded input: a Sort that emits at the end of input. Unbounded: ORDER BY … LIMIT is an updating Top-N.

    UserError SS3014 for ORDER BY without LIMIT over an unbounded table: no row could ever be emitted.
    """
    if source.traits.is_bounded:
        return _sort(planning, source, node)
    if node.fetch < 0:
        raise UserError(
            "SS3014",
            "ORDER BY on an unbounded table never comes to an end",
            span=node.span,
            hint="add LIMIT, or rank a window: ROW_NUMBER() OVER (PARTITION BY window_start, window_end …)",
        )
    return _top_n(planning, source, node)


def _sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    spec = SortSpec(order=node.order, offset=node.offset, fetch=node.fetch)
    traits = Traits(is_bounded=True, keys=source.traits.keys)
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
