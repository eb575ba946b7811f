"""Watermark assigners."""

from __future__ import annotations

import dataclasses

from planner.physical.description import describe, describe_expression
from planner.physical.node import PhysicalNode
from planner.physical.planning import Planning, over
from planner.relational.nodes import Project, TableScan, Watermark
from sqlstream.schema import Field, Schema
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN, EmitStrategy, WatermarkAssignerSpec
from sqlstream.types import BIGINT


def plan_watermark(
    planning: Planning, source: PhysicalNode, node: Watermark, needs_row_watermark: bool
) -> PhysicalNode:
    """The assigner over `source`.

    ON_EVENT means that the rows before a row decide whether it is late. Only window aggregates decide lateness per row:
    for them the watermark of each row is added as a column, and for other consumers both strategies are the same. A
    source that makes the watermarks itself adds the column for all consumers; it is dropped here for those that do not
    read it.
    """
    is_exact = needs_row_watermark and node.emit_strategy is EmitStrategy.ON_EVENT
    spec = WatermarkAssignerSpec(
        rowtime_column=node.column,
        expression=node.expression,
        emit_strategy=EmitStrategy.ON_EVENT if is_exact else EmitStrategy.ON_PERIODIC,
        idle_timeout_ms=node.idle_timeout_ms,
        is_by_source=_is_by_source(node),
    )
    schema = node.schema
    traits = dataclasses.replace(
        source.traits, times=source.traits.times | {node.column}, row_watermark_column=-1
    )
    if is_exact:
        traits = dataclasses.replace(traits, row_watermark_column=len(schema))
        schema = Schema((*schema.fields, Field(ROW_WATERMARK_COLUMN, BIGINT)))
    description = describe(
        "WatermarkAssigner",
        rowtime=f"[{node.schema.fields[node.column].name}]",
        watermark=f"[{describe_expression(node.expression, source.schema)}]",
        emit=spec.emit_strategy.value if is_exact else "",
        idle=f"{node.idle_timeout_ms} ms" if node.idle_timeout_ms else "",
        by="source" if spec.is_by_source else "",
    )
    return planning.node("WatermarkAssigner", spec, over(source), schema, traits, description, node.span)


def _is_by_source(node: Watermark) -> bool:
    scan = node.input.input if isinstance(node.input, Project) else node.input
    return isinstance(scan, TableScan) and scan.watermark is not None
