"""Sinks that replace rows by a key get no -U rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.changelog import ChangelogMode
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode
from sqlstream.planner.physical.planning import digest, over
from sqlstream.specs import ChangingSinkSpec, DropUpdateBeforeSpec, SinkSpec
from sqlstream.spi.changelog_options import sink_mode_of
from sqlstream.spi.connector import ConnectorDescriptor


def drop_update_before(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[PhysicalNode, ...]:
    """Insert a DropUpdateBefore before each sink that takes upserts by its primary key and whose input has -U rows, because the
    query needs them, another consumer does, or its key is another one."""
    result = []
    for sink in sinks:
        spec = sink.spec
        assert isinstance(spec, SinkSpec)
        takes_upserts = sink_mode_of(connectors[spec.connector], spec.options) is ChangelogMode.UPSERT
        changes_rows = isinstance(spec, ChangingSinkSpec) and spec.action.changes_rows
        is_retracting = sink.inputs[0].node.changelog_mode is ChangelogMode.RETRACT
        if takes_upserts and spec.primary_key and is_retracting and not changes_rows:
            sink = _behind_drop(sink, spec)
        result.append(sink)
    return tuple(result)


def _behind_drop(sink: PhysicalNode, sink_spec: SinkSpec) -> PhysicalNode:
    (physical_input,) = sink.inputs
    # A row that moves to another partition of the table leaves the one that it was in.
    keys = tuple(dict.fromkeys((*sink_spec.primary_key, *sink_spec.partition_keys)))
    spec = DropUpdateBeforeSpec(keys)
    schema = physical_input.node.schema
    drop = PhysicalNode(
        name="DropUpdateBefore",
        spec=spec,
        inputs=over(physical_input.node),
        schema=schema,
        traits=physical_input.node.traits,
        description=describe("DropUpdateBefore", key=describe_columns(keys, schema)),
        uid=digest(spec, over(physical_input.node), schema),
        span=sink.span,
        changelog_mode=ChangelogMode.UPSERT,
    )
    inputs = (PhysicalInput(drop, physical_input.exchange),)
    return dataclasses.replace(sink, inputs=inputs, changelog_mode=ChangelogMode.UPSERT)
