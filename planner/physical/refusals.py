"""Refusals that several operators share, in Flink's words."""

from __future__ import annotations

from planner.physical.node import PhysicalNode
from sqlstream.errors import Span, UserError


def require_insert_only(source: PhysicalNode, operator: str, span: Span | None) -> None:
    """UserError SS3011 when the input retracts rows, which the operator cannot consume."""
    if not source.traits.is_insert_only:
        raise UserError(
            "SS3011",
            f"{operator} doesn't support consuming update and delete changes,"
            f" which {producer(source).name} produces",
            span=span or source.span,
            hint="aggregate by window_start and window_end below it: a window's result is never retracted",
        )


def producer(node: PhysicalNode) -> PhysicalNode:
    """The first operator that retracts rows, upstream of `node`."""
    for physical_input in node.inputs:
        if not physical_input.node.traits.is_insert_only:
            return producer(physical_input.node)
    return node
