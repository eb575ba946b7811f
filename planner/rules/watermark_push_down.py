"""Copy the watermark into scans whose connector makes one per split."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.expressions import Expression, InputRef, conjuncts, inputs_of, remap, substitute, transform
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.rules.filter_push_down import make_filter, window_columns
from sqlstream.schema import Field, Schema
from sqlstream.specs.source import SourceWatermark
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.spi.connector import ConnectorDescriptor


def push_watermark_into_scan(
    node: plan.RelationalNode, connectors: Mapping[str, ConnectorDescriptor]
) -> plan.RelationalNode:
    """In Watermark(TableScan) and Watermark(Project(TableScan)) the scan receives the expression; the Watermark stays, to
    check the row time and to turn idle (Flink: PushWatermarkIntoTableSourceScanRule, and …AcrossCalcRule).

    Computed columns are substituted in the expression, and a computed row time becomes a column of the scan. A row time
    that is not deterministic would differ between the scan and the rows: its watermark stays above the scan only.
    """
    if not isinstance(node, plan.Watermark):
        return node
    project = node.input if isinstance(node.input, plan.Project) else None
    scan = node.input if project is None else project.input
    if not isinstance(scan, plan.TableScan) or scan.watermark is not None:
        return node
    descriptor = connectors.get(dict(scan.options).get("connector", ""))
    if descriptor is None or not descriptor.reading.watermarks:
        return node
    changes = not scan.mode.is_insert_only
    if changes and node.emit_strategy is EmitStrategy.ON_EVENT:
        # What makes a changelog of changes by key has no place for the watermark of each row.
        return node
    rowtime: Expression = InputRef(node.column, node.input.schema.types[node.column])
    watermark = node.expression
    if project is not None:
        rowtime, watermark = (substitute(e, project.expressions) for e in (rowtime, watermark))
    if not is_deterministic(rowtime, watermark):
        return node
    # Nor has it one for a column that is not the table's: the row time of changes is computed again above the scan.
    is_computed = not isinstance(rowtime, InputRef) and not changes
    schema = scan.schema
    if is_computed:
        schema = Schema((*schema.fields, Field(node.schema.names[node.column], rowtime.type)))
    made_by_source = SourceWatermark(
        rowtime, watermark, node.emit_strategy, is_computed, node.idle_timeout_ms
    )
    told = dataclasses.replace(scan, schema=schema, watermark=made_by_source)
    if project is None:
        return dataclasses.replace(node, input=told)
    expressions = project.expressions
    if is_computed:
        made = InputRef(len(scan.schema), rowtime.type)
        expressions = tuple(_replace(e, rowtime, made) for e in expressions)
    return dataclasses.replace(node, input=dataclasses.replace(project, input=told, expressions=expressions))


def _replace(expression: Expression, computed: Expression, column: InputRef) -> Expression:
    return transform(expression, lambda node: column if node == computed else node)


# Move filters on window columns above the aggregation of the window, so that it can assign the windows itself.


def pull_window_filter_up(node: plan.RelationalNode) -> plan.RelationalNode:
    """Aggregate(Filter(WindowTvf)) becomes Filter(Aggregate(WindowTvf)) for conjuncts on window columns
    that are keys.

    A Project between Aggregate and Filter first swaps places with the Filter: it is then right above the window
    function, below which its expressions can move.
    """
    if isinstance(node, plan.Project) and isinstance(node.input, plan.Filter):
        return _above_project(node, node.input)
    if not isinstance(node, plan.Aggregate) or not isinstance(node.input, plan.Filter):
        return node
    below = node.input
    movable = window_columns(below.input) & frozenset(node.keys)
    parts = conjuncts(below.condition)
    moved = tuple(p for p in parts if inputs_of(p) and inputs_of(p) <= movable)
    if not moved:
        return node
    rest = tuple(p for p in parts if p not in moved)
    aggregate = dataclasses.replace(node, input=make_filter(below.input, rest, below))
    places = {k: i for i, k in enumerate(node.keys)}
    return make_filter(aggregate, tuple(remap(p, places) for p in moved), below)


def _above_project(node: plan.Project, below: plan.Filter) -> plan.RelationalNode:
    """Project(Filter on window columns(WindowTvf)) with computed columns becomes
    Filter(Project(WindowTvf))."""
    if not isinstance(below.input, plan.WindowTvf) or all(isinstance(e, InputRef) for e in node.expressions):
        return node
    columns = window_columns(below.input)
    places: dict[int, int] = {}
    for new, expression in enumerate(node.expressions):
        if isinstance(expression, InputRef) and expression.index in columns:
            places.setdefault(expression.index, new)
    parts: tuple[Expression, ...] = conjuncts(below.condition)
    if not all(inputs_of(p) and inputs_of(p) <= frozenset(places) for p in parts):
        return node
    project = dataclasses.replace(node, input=below.input)
    return make_filter(project, tuple(remap(p, places) for p in parts), below)


# Move a plain LIMIT below projections, where fewer rows are computed.


def push_limit_down(node: plan.RelationalNode) -> plan.RelationalNode:
    """Limit(Project(x)) becomes Project(Limit(x)); a limit over a limit becomes the smaller one."""
    if not isinstance(node, plan.Sort) or node.order:
        return node
    if node.offset == 0 and node.fetch < 0:
        return node.input
    inner = node.input
    if isinstance(inner, plan.Project):
        limit = dataclasses.replace(node, input=inner.input, schema=inner.input.schema)
        return dataclasses.replace(inner, input=limit)
    if isinstance(inner, plan.Sort) and not inner.order:
        return _merge(node, inner)
    return node


def _merge(outer: plan.Sort, inner: plan.Sort) -> plan.RelationalNode:
    left = -1 if inner.fetch < 0 else max(inner.fetch - outer.offset, 0)
    fetches = [f for f in (outer.fetch, left) if f >= 0]
    return dataclasses.replace(
        inner, offset=inner.offset + outer.offset, fetch=min(fetches) if fetches else -1, span=outer.span
    )
