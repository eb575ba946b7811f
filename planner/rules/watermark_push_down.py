"""Hand the watermark to scans whose connector makes one for each of its splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from planner.relational.nodes import Project, RelationalNode, TableScan, Watermark
from planner.rules.determinism import is_deterministic
from sqlstream.expressions import Expression, InputRef, substitute
from sqlstream.specs.source import SourceWatermark
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.spi.connector import ConnectorDescriptor


def push_watermark_into_scan(
    node: RelationalNode, connectors: Mapping[str, ConnectorDescriptor]
) -> RelationalNode:
    """Watermark(TableScan) and Watermark(Project(TableScan)) tell the connector; the Watermark stays, as what checks the
    row time and turns idle (Flink: PushWatermarkIntoTableSourceScanRule, and …AcrossCalcRule).

    Computed columns are written out in the expressions, so one that is not deterministic would be another in the
    scan than in the rows: such a table keeps the watermark of its rows as they come.
    """
    if not isinstance(node, Watermark):
        return node
    rowtime = InputRef(node.column, node.input.schema.types[node.column])
    told = _tell_scan(node.input, (rowtime, node.expression), node.emit_strategy, connectors)
    return node if told is None else dataclasses.replace(node, input=told)


def _tell_scan(
    below: RelationalNode,
    expressions: tuple[Expression, Expression],
    strategy: EmitStrategy,
    connectors: Mapping[str, ConnectorDescriptor],
) -> RelationalNode | None:
    """`below` with the watermark in its scan; `expressions` are row time and watermark over the columns of `below`."""
    if isinstance(below, Project):
        rowtime, watermark = (substitute(e, below.expressions) for e in expressions)
        told = _tell_scan(below.input, (rowtime, watermark), strategy, connectors)
        return None if told is None else dataclasses.replace(below, input=told)
    if not isinstance(below, TableScan) or below.watermark is not None:
        return None
    descriptor = connectors.get(dict(below.options).get("connector", ""))
    if descriptor is None or not descriptor.watermarks or not is_deterministic(*expressions):
        return None
    return dataclasses.replace(below, watermark=SourceWatermark(*expressions, strategy))
