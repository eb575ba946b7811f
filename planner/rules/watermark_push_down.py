"""Copy the watermark into scans whose connector makes one per split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.expressions import Expression, InputRef, substitute, transform
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Project, RelationalNode, TableScan, Watermark
from sqlstream.schema import Field, Schema
from sqlstream.specs.source import SourceWatermark
from sqlstream.spi.connector import ConnectorDescriptor


def push_watermark_into_scan(
    node: RelationalNode, connectors: Mapping[str, ConnectorDescriptor]
) -> RelationalNode:
    """In Watermark(TableScan) and Watermark(Project(TableScan)) the scan receives the expression; the Watermark stays, to
    check the row time and to turn idle (Flink: PushWatermarkIntoTableSourceScanRule, and …AcrossCalcRule).

    Computed columns are substituted in the expression, and a computed row time becomes a column of the scan. A row time
    that is not deterministic would differ between the scan and the rows: its watermark stays above the scan only.
    """
    if not isinstance(node, Watermark):
        return node
    project = node.input if isinstance(node.input, Project) else None
    scan = node.input if project is None else project.input
    if not isinstance(scan, TableScan) or scan.watermark is not None:
        return node
    descriptor = connectors.get(dict(scan.options).get("connector", ""))
    if descriptor is None or not descriptor.reading.watermarks or not scan.mode.is_insert_only:
        return node
    rowtime: Expression = InputRef(node.column, node.input.schema.types[node.column])
    watermark = node.expression
    if project is not None:
        rowtime, watermark = (substitute(e, project.expressions) for e in (rowtime, watermark))
    if not is_deterministic(rowtime, watermark):
        return node
    is_computed = not isinstance(rowtime, InputRef)
    schema = scan.schema
    if is_computed:
        schema = Schema((*schema.fields, Field(node.schema.names[node.column], rowtime.type)))
    told = dataclasses.replace(
        scan, schema=schema, watermark=SourceWatermark(rowtime, watermark, node.emit_strategy, is_computed)
    )
    if project is None:
        return dataclasses.replace(node, input=told)
    expressions = project.expressions
    if is_computed:
        made = InputRef(len(scan.schema), rowtime.type)
        expressions = tuple(_replace(e, rowtime, made) for e in expressions)
    return dataclasses.replace(node, input=dataclasses.replace(project, input=told, expressions=expressions))


def _replace(expression: Expression, computed: Expression, column: InputRef) -> Expression:
    return transform(expression, lambda node: column if node == computed else node)
