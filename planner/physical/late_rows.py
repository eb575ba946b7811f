"""The late rows of a table: a filter over rows that have their watermark as a column."""

from __future__ import annotations

import dataclasses

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef
from sqlstream.planner.physical.calc import identity, plan_calc
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.relational.late_rows import watermark_type
from sqlstream.planner.relational.nodes import LateRows


def plan_late_rows(planning: Planning, source: PhysicalNode, node: LateRows) -> PhysicalNode:
    """`source` has the watermark of each row. Milliseconds are compared, as operators do that find a row late."""
    column = source.traits.row_watermark_column
    time: Expression = InputRef(node.time_column, node.input.schema.types[node.time_column])
    type_ = watermark_type(time.type)
    watermark = Call("CURRENT_WATERMARK", (InputRef(column, sql.BIGINT),), type_)
    if time.type.precision != 3:
        time = Call("CAST", (time,), type_.with_nullable(time.type.nullable))
    is_late = Call("<=", (time, watermark), sql.BOOLEAN)
    projections = (*identity(node.schema)[:-1], watermark)
    made = plan_calc(
        planning, source, projections, is_late, node.schema, node.span, keeps_row_watermark=False
    )
    traits = dataclasses.replace(made.traits, times=frozenset(), row_watermark_column=-1)
    return dataclasses.replace(made, traits=traits)
