"""Watermark assigners."""

from __future__ import annotations

import dataclasses

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, inputs_of, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.calc import identity, plan_calc
from sqlstream.planner.physical.changelog_functions import normalized
from sqlstream.planner.physical.description import describe, describe_expression
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational.nodes import LateRows, Project, TableScan, Watermark
from sqlstream.planner.relational.watermark import watermark_type
from sqlstream.schema import Field, Schema
from sqlstream.specs import CalcSpec, ChangelogNormalizeSpec
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
    made = None if is_exact else _made_before_keys(planning, source, node)
    source = made or source
    idle_timeout_ms = 0 if made else node.idle_timeout_ms
    spec = WatermarkAssignerSpec(
        rowtime_column=node.column,
        expression=node.expression,
        emit_strategy=EmitStrategy.ON_EVENT if is_exact else EmitStrategy.ON_PERIODIC,
        idle_timeout_ms=idle_timeout_ms,
        is_by_source=made is not None or _is_by_source(node),
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
        idle=f"{idle_timeout_ms} ms" if idle_timeout_ms else "",
        by="source" if spec.is_by_source else "",
    )
    return planning.node("WatermarkAssigner", spec, over(source), schema, traits, description, node.span)


def _made_before_keys(planning: Planning, source: PhysicalNode, node: Watermark) -> PhysicalNode | None:
    """`source` with its watermark made of the changes as they come, before ChangelogNormalize distributes them by key (Flink:
    WatermarkAssignerChangelogNormalizeTransposeRule): a subtask that gets no key would hold it back for ever. None for other
    sources. The assigner above stays, to check the row time, which a deletion by key alone does not have."""
    calc = source if isinstance(source.spec, CalcSpec) else None
    normalize = source if calc is None else calc.inputs[0].node
    if not isinstance(normalize.spec, ChangelogNormalizeSpec):
        return None
    expression = node.expression
    if calc is not None:
        assert isinstance(calc.spec, CalcSpec)
        expression = substitute(expression, calc.spec.projections)
    if not inputs_of(expression) or not is_deterministic(expression):
        return None
    changes = normalize.inputs[0].node
    spec = WatermarkAssignerSpec(
        rowtime_column=-1, expression=expression, idle_timeout_ms=node.idle_timeout_ms
    )
    description = describe(
        "WatermarkAssigner",
        watermark=f"[{describe_expression(expression, changes.schema)}]",
        idle=f"{node.idle_timeout_ms} ms" if node.idle_timeout_ms else "",
    )
    assigner = planning.node(
        "WatermarkAssigner", spec, over(changes), changes.schema, changes.traits, description, node.span
    )
    keys, values, marks = normalize.spec.keys, normalize.spec.values, normalize.spec.marks
    made = normalized(planning, assigner, keys, values, normalize.span, marks)
    if calc is None:
        return made
    return planning.node(
        calc.name, calc.spec, over(made), calc.schema, calc.traits, calc.description, calc.span
    )


def _is_by_source(node: Watermark) -> bool:
    scan = node.input.input if isinstance(node.input, Project) else node.input
    return isinstance(scan, TableScan) and scan.watermark is not None


# The late rows of a table: a filter over rows that have their watermark as a column.


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
