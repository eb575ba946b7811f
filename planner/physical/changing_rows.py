"""The rows that a sink gets which changes those of its table."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.sort import plan_final_rows
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.nodes import Sink
from sqlstream.specs import ChangingSinkSpec, MarkChangesSpec
from sqlstream.specs.sink import SinkAction


def changing_rows(
    planning: Planning, source: PhysicalNode, node: Sink, spec: ChangingSinkSpec
) -> PhysicalNode:
    """Of UPDATE and DELETE, the rows with the kinds that their last column says. UserError SS3493 for input without an end: old
    and new rows change places when there are no more."""
    if not source.traits.is_bounded:
        what = "INSERT OVERWRITE" if spec.action is SinkAction.OVERWRITE else spec.action.value
        raise UserError(
            "SS3493",
            f'{what} of table "{spec.table}" would never be done: what it reads has no end',
            span=node.span,
            hint="read bounded tables, or write INSERT INTO",
        )
    if not spec.action.changes_rows:
        return source
    if not source.traits.is_insert_only:
        # Which rows change is known when all rows have been read.
        source = plan_final_rows(planning, source)
    mark = MarkChangesSpec(spec.action is SinkAction.DELETE)
    keys = frozenset({frozenset(spec.primary_key)}) if spec.primary_key else frozenset()
    return planning.node(
        "MarkChanges",
        mark,
        over(source),
        spec.schema,
        Traits(is_insert_only=False, is_bounded=True, keys=keys),
        describe("MarkChanges", kind="DELETE" if mark.is_deleting else "UPDATE"),
        node.span,
    )
