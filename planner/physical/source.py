"""Sources: table scans and literal rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from sqlstream.catalog import CatalogTable
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError, choose_one_of
from sqlstream.expressions import conjunction
from sqlstream.planner.physical.changelog_functions import (
    filtered_by_key,
    normalizes,
    plan_changelog_normalize,
)
from sqlstream.planner.physical.description import describe, describe_expression
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.relational.nodes import TableScan, Values
from sqlstream.schema import Field, Schema
from sqlstream.specs import EventSourceSpec, SourceSpec, ValuesSpec
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN, EmitStrategy
from sqlstream.spi.changelog_options import has_tombstones, reads_events_by_key
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.spi.format import UNKNOWN_VALUES, VALUE_PREFIX
from sqlstream.types import BIGINT, STRING, is_rowtime


def plan_source(planning: Planning, node: TableScan) -> PhysicalNode:
    """A connector's source. UserError SS3010 when the connector cannot be read."""
    options = dict(node.options)
    descriptor = find_connector(planning.connectors, node.table, options, node.span)
    spec = source_spec(node, descriptor)
    holds_changes = not node.mode.is_insert_only
    # Without operations the rows themselves are the changes, and one with nothing but its key deletes.
    has_kinds = holds_changes and not has_tombstones(options)
    keys = _keys(node) if has_kinds else frozenset()
    schema, traits = node.schema, Traits(not has_kinds, node.is_bounded, keys)
    if has_kinds and node.mode is ChangelogMode.UPSERT:
        traits = dataclasses.replace(traits, is_by_key=True)
    if node.marks_unknown:
        schema = Schema((*schema.fields, Field(UNKNOWN_VALUES, STRING)))
    if node.watermark is not None and node.watermark.emit_strategy is EmitStrategy.ON_EVENT:
        traits = dataclasses.replace(traits, row_watermark_column=len(schema))
        schema = Schema((*schema.fields, Field(ROW_WATERMARK_COLUMN, BIGINT)))
    condition = conjunction(spec.filters)
    description = describe(
        "TableSourceScan",
        table=f"[{node.table.path.name}]",
        connector=descriptor.identifier,
        fields=f"[{', '.join(node.schema.names)}]",
        filters="" if condition is None else f"[{describe_expression(condition, node.schema)}]",
        limit="" if node.limit < 0 else str(node.limit),
        watermark=""
        if node.watermark is None
        else f"[{describe_expression(node.watermark.expression, node.schema)}]",
        bounded=str(node.is_bounded).lower(),
        changelog=str(node.mode) if holds_changes else "",
    )
    parallelism = parallelism_option(descriptor, options, "scan.parallelism", node.span)
    source = planning.node(
        f"Source: {node.table.path.name}",
        spec,
        (),
        schema,
        traits,
        description,
        node.span,
        # Changes of a row are applied in the order in which they stand.
        parallelism=1 if holds_changes else parallelism,
    )
    if node.keeps_events:
        return source
    if normalizes(planning, node):
        return plan_changelog_normalize(planning, source, node)
    return filtered_by_key(planning, source, node) if holds_changes else source


def _keys(node: TableScan) -> frozenset[Columns]:
    """The primary key of the rows that the changes describe, if all of it is read."""
    names = node.schema.names
    primary_key = node.table.primary_key
    if not primary_key or not set(primary_key) <= set(names):
        return frozenset()
    return frozenset({frozenset(names.index(name) for name in primary_key)})


def source_spec(node: TableScan, descriptor: ConnectorDescriptor) -> SourceSpec:
    """What a scan reads. UserError SS3010 when the connector cannot be read."""
    if not descriptor.is_source:
        raise UserError(
            "SS3010",
            f'table "{node.table.path.name}" cannot be read:'
            f' connector "{descriptor.identifier}" is a sink only',
            span=node.span,
            hint="read from a table whose connector is a source",
        )
    for field in node.metadata:
        if field.name.removeprefix(VALUE_PREFIX) in node.varying_metadata:
            raise UserError(
                "SS3498",
                f'metadata "{field.name}" of table "{node.table.path.name}" is that of each event, so a row and the event that'
                " retracts it differ",
                span=node.span,
            )
    return scan_spec(node, descriptor)


def scan_spec(node: TableScan, descriptor: ConnectorDescriptor) -> SourceSpec:
    """What a scan names of its table, whether it is read as a stream or by key."""
    spec = SourceSpec(
        table=node.table.path.name,
        connector=descriptor.identifier,
        options=dict(node.options),
        schema=node.table.physical_schema(),
        columns=node.columns,
        metadata=node.metadata,
        filters=node.filters if node.mode.is_insert_only else (),
        limit=node.limit,
        is_bounded=node.is_bounded,
        watermark=node.watermark,
        change_key=() if node.mode.is_insert_only else node.table.primary_key,
        are_versions=node.keeps_events,
    )
    if not reads_events_by_key(dict(node.options), node.mode):
        return spec
    fields = msgspec.structs.asdict(spec)
    return EventSourceSpec(**fields, keys=node.table.primary_key, marks_unknown=node.marks_unknown)


def plan_values(planning: Planning, node: Values) -> PhysicalNode:
    """Literal rows, emitted by one subtask. No row is behind the watermark where there is none."""
    times = frozenset(i for i, t in enumerate(node.schema.types) if not node.rows and is_rowtime(t))
    description = describe("Values", rows=str(len(node.rows)), fields=f"[{', '.join(node.schema.names)}]")
    return planning.node(
        "Source: Values",
        ValuesSpec(rows=node.rows),
        (),
        node.schema,
        Traits(times=times),
        description,
        node.span,
        parallelism=1,
    )


# A table's connector, as planning reads it: descriptor and parallelism.


def find_connector(
    connectors: Mapping[str, ConnectorDescriptor],
    table: CatalogTable,
    options: dict[str, str],
    span: Span | None,
) -> ConnectorDescriptor:
    """The descriptor of the table's connector. UserError SS4004 when there is no connector of that name."""
    name = options.get("connector", "")
    descriptor = connectors.get(name)
    if descriptor is None:
        raise UserError(
            "SS4004",
            f'table "{table.path.name}" has the unknown connector "{name}"',
            span=span,
            hint=choose_one_of(name, sorted(connectors)),
        )
    return descriptor


def parallelism_option(
    descriptor: ConnectorDescriptor, options: dict[str, str], key: str, span: Span | None
) -> int:
    """The parallelism in the table's options, 0 without one. UserError SS4002 when it is no positive number."""
    if key not in options or key not in {o.key for o in descriptor.options}:
        return 0
    text = options[key].strip()
    if not text.isdecimal() or int(text) < 1:
        raise UserError(
            "SS4002", f'option "{key}" takes a positive number, not "{text}"', span=span, hint="write '2'"
        )
    return int(text)
