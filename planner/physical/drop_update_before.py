"""Upsert sinks drop the -U rows that another consumer of their input requires."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from planner.physical.changelog import can_leave_out_update_before
from planner.physical.node import PhysicalInput, PhysicalNode, walk_plan
from planner.physical.planning import digest, over
from planner.physical.sink import needs_update_before
from sqlstream.changelog import ChangelogMode
from sqlstream.specs import DropUpdateBeforeSpec, SinkSpec
from sqlstream.spi.changelog_options import sink_mode_of
from sqlstream.spi.connector import ConnectorDescriptor


def drop_update_before(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[PhysicalNode, ...]:
    """Insert a DropUpdateBefore before each sink that takes upserts by the query's key while another consumer of its
    input requires -U rows.

    Only where each -U has its +U: behind a filter a lone -U deletes a row, and the sink must receive it.
    """
    can = can_leave_out_update_before(list(walk_plan(sinks)))
    result = []
    for sink in sinks:
        source = sink.inputs[0].node
        spec = sink.spec
        assert isinstance(spec, SinkSpec)
        descriptor = connectors[spec.connector]
        takes_upserts = sink_mode_of(descriptor, spec.options) is ChangelogMode.UPSERT
        is_free = takes_upserts and not needs_update_before(spec, descriptor, source.traits.keys)
        if is_free and can[id(source)] and source.changelog_mode is ChangelogMode.RETRACT:
            sink = _behind_drop(sink)
        result.append(sink)
    return tuple(result)


def _behind_drop(sink: PhysicalNode) -> PhysicalNode:
    (physical_input,) = sink.inputs
    spec = DropUpdateBeforeSpec()
    schema = physical_input.node.schema
    drop = PhysicalNode(
        name="DropUpdateBefore",
        spec=spec,
        inputs=over(physical_input.node),
        schema=schema,
        traits=physical_input.node.traits,
        description="DropUpdateBefore",
        uid=digest(spec, over(physical_input.node), schema),
        span=sink.span,
        changelog_mode=ChangelogMode.UPSERT,
    )
    inputs = (PhysicalInput(drop, physical_input.exchange),)
    return dataclasses.replace(sink, inputs=inputs, changelog_mode=ChangelogMode.UPSERT)
