"""Refusals that several operators share, in Flink's words."""

from __future__ import annotations

from planner.physical.node import PhysicalNode
from sqlstream.errors import Span, UserError


def require_insert_only(source: PhysicalNode, operator: str, span: Span | None) -> None:
    """UserError SS3011 when the input takes rows back and the operator cannot."""
    if not source.traits.is_insert_only:
        raise UserError(
            "SS3011",
            f"{operator} doesn't support consuming update and delete changes,"
            f" which {producer(source).name} produces",
            span=span or source.span,
            hint="aggregate by window_start and window_end below it: a window's result is never taken back",
        )


def producer(node: PhysicalNode) -> PhysicalNode:
    """The operator that first takes rows back, on the way to `node`."""
    for physical_input in node.inputs:
        if not physical_input.node.traits.is_insert_only:
            return producer(physical_input.node)
    return node
