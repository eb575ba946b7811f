"""LIMIT and OFFSET without ORDER BY."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.exchanges import SINGLETON
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational.nodes import RelationalNode, Sort
from sqlstream.specs.limit import LimitSpec


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
