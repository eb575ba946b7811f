"""Sinks: the row kinds that a table takes, matched with those of the query."""

from __future__ import annotations

import dataclasses

from planner.physical.connectors import find_connector, parallelism_option
from planner.physical.description import describe
from planner.physical.node import PhysicalNode
from planner.physical.planning import Planning, over
from planner.physical.refusals import producer
from planner.relational.nodes import Sink
from sqlstream.catalog import ColumnKind
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.schema import Field, Schema
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT
from sqlstream.spi.connector import ConnectorDescriptor


def plan_sink(planning: Planning, source: PhysicalNode, node: Sink) -> PhysicalNode:
    """The operator that writes. UserError SS3010 for a table that cannot be written, SS3015 for an
    append-only table under an updating query, SS3016 for an upsert whose key is not the table's primary
    key."""
    options = dict(node.options)
    descriptor = find_connector(planning.connectors, node.table, options, node.span)
    spec = sink_spec(node, descriptor)
    name, schema = spec.table, spec.schema
    if not source.traits.is_insert_only:
        _check_updates(planning, source, node, descriptor, spec)
    parallelism = parallelism_option(descriptor, options, "sink.parallelism", node.span)
    parallelism = 1 if descriptor.identifier == COLLECT else parallelism
    return planning.node(
        f"Sink: {name}",
        spec,
        over(source, _exchange(source, spec, parallelism)),
        source.schema,
        dataclasses.replace(source.traits, row_watermark_column=-1),
        describe("Sink", table=f"[{name}]", connector=spec.connector, fields=f"[{', '.join(schema.names)}]"),
        node.span,
        parallelism=parallelism,
        is_reusable=False,
    )


def sink_spec(node: Sink, descriptor: ConnectorDescriptor) -> SinkSpec:
    """What a sink writes. UserError SS3010 when the connector cannot be written."""
    name = node.table.path.name
    if not descriptor.is_sink:
        raise UserError(
            "SS3010",
            f'table "{name}" cannot be written: connector "{descriptor.identifier}" is a source only',
            span=node.span,
            hint="INSERT INTO a table whose connector is a sink",
        )
    schema = Schema(_sink_fields(node))
    return SinkSpec(
        table=name,
        connector=descriptor.identifier,
        options=dict(node.options),
        schema=schema,
        primary_key=tuple(schema.index_of(k) for k in node.table.primary_key),
        partition_keys=tuple(schema.index_of(k) for k in node.table.partition_keys),
    )


def needs_update_before(
    spec: SinkSpec, descriptor: ConnectorDescriptor, keys: frozenset[frozenset[int]]
) -> bool:
    """Whether the sink requires -U rows; it does not when it ignores them, or replaces rows by the query's own key."""
    if descriptor.sink_takes_upserts:
        return False
    return descriptor.sink_mode is not ChangelogMode.UPSERT or frozenset(spec.primary_key) not in keys


def _sink_fields(node: Sink) -> tuple[Field, ...]:
    fields = tuple(
        Field(c.name, c.type)
        for c in node.table.columns
        if c.kind is ColumnKind.PHYSICAL or (c.kind is ColumnKind.METADATA and not c.is_virtual)
    )
    assert len(fields) == len(node.input.schema), "the binder casts to the table's writable columns"
    return fields


def _check_updates(
    planning: Planning, source: PhysicalNode, node: Sink, descriptor: ConnectorDescriptor, spec: SinkSpec
) -> None:
    name = node.table.path.name
    if descriptor.sink_mode.is_insert_only:
        cause = producer(source)
        raise UserError(
            "SS3015",
            f'table sink "{name}" doesn\'t support consuming update and delete changes,'
            f" which {cause.name} produces",
            span=cause.span or node.span,
            hint="aggregate by window, whose result is append-only, or write where updates can go",
        )
    if descriptor.sink_mode is not ChangelogMode.UPSERT or descriptor.sink_takes_upserts:
        return
    if not spec.primary_key:
        raise UserError(
            "SS3016",
            f'table sink "{name}" takes upserts, but has no primary key to replace rows by',
            span=node.span,
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table",
        )
    wants_same_key = bool(planning.setting("table.exec.sink.require-on-conflict"))
    if wants_same_key and frozenset(spec.primary_key) not in source.traits.keys:
        raise UserError(
            "SS3016",
            f"the query's upsert key {_key_names(source, spec)} differs from the primary key"
            f' ({", ".join(node.table.primary_key)}) of table "{name}": rows could overwrite each other',
            span=node.span,
            hint="group by the primary key, or SET 'table.exec.sink.require-on-conflict' = 'false'",
        )


def _key_names(source: PhysicalNode, spec: SinkSpec) -> str:
    if not source.traits.keys:
        return "(none)"
    shortest = min(source.traits.keys, key=lambda k: (len(k), sorted(k)))
    return f"({', '.join(spec.schema.names[c] for c in sorted(shortest))})"


def _exchange(source: PhysicalNode, spec: SinkSpec, parallelism: int) -> Exchange:
    if spec.connector == COLLECT:
        return Exchange(ExchangeKind.SINGLETON)
    if parallelism == 0 or source.traits.is_insert_only:
        return FORWARD
    if parallelism == 1:
        return Exchange(ExchangeKind.SINGLETON)
    # Changes of one row must stay in order: they are distributed by key, or by the whole row without one.
    key = min(source.traits.keys, key=sorted, default=frozenset())
    columns = spec.primary_key or tuple(sorted(key)) or tuple(range(len(source.schema)))
    return Exchange(ExchangeKind.HASH, columns)
