"""Calc: filters and projections, merged into one operator."""

from __future__ import annotations

from sqlstream.errors import Span
from sqlstream.expressions import Expression, InputRef, conjunction, conjuncts, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.description import describe, describe_expression, describe_select
from sqlstream.planner.physical.kept_values import keeps_values, plan_kept_values
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.single_row_check import plan_single_row_check
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.injective import cast_column
from sqlstream.planner.rules.substitution import can_substitute
from sqlstream.schema import Field, Schema
from sqlstream.specs import CalcSpec
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN
from sqlstream.types import BIGINT


def plan_calc(
    planning: Planning,
    source: PhysicalNode,
    projections: tuple[Expression, ...],
    condition: Expression | None,
    schema: Schema,
    span: Span | None,
    may_merge: bool = True,
    keeps_row_watermark: bool = True,
) -> PhysicalNode:
    """`source` filtered, then projected. A Calc over a Calc becomes one Calc; a Calc that changes nothing is left out.

    What differs each time it is computed is kept by row, where rows are retracted. The watermark of each row (see traits), if
    there is one, stays the last column.
    """
    column = source.traits.row_watermark_column
    if column >= 0 and keeps_row_watermark:
        projections = (*projections, InputRef(column, BIGINT))
        schema = Schema((*schema.fields, Field(ROW_WATERMARK_COLUMN, BIGINT)))
    inner = source.spec
    if isinstance(inner, CalcSpec) and (may_merge or is_rename(inner)):
        reads = projections if condition is None else (*projections, condition)
        if can_substitute(reads, inner.projections):
            lowered = () if condition is None else conjuncts(substitute(condition, inner.projections))
            condition = conjunction(conjuncts(inner.condition) + lowered)
            projections = tuple(substitute(p, inner.projections) for p in projections)
            source = source.inputs[0].node
    source = plan_single_row_check(planning, source, projections, condition, span)
    drawn = projections if condition is None else (*projections, condition)
    if not is_deterministic(*drawn) and keeps_values(planning, source):
        certain = tuple(part for part in conjuncts(condition) if is_deterministic(part))
        if certain and source.traits.row_watermark_column < 0:
            # Rows that are dropped have no values to keep.
            condition = conjunction(tuple(part for part in conjuncts(condition) if part not in certain))
            passed, every = conjunction(certain), identity(source.schema)
            source = plan_calc(planning, source, every, passed, source.schema, span, may_merge)
        source, projections, condition = plan_kept_values(planning, source, projections, condition, span)
    spec = CalcSpec(projections=projections, condition=condition)
    if (
        condition is None
        and is_rename(spec)
        and len(projections) == len(source.schema)
        and _is_in_order(spec)
    ):
        return source
    return planning.node(
        "Calc",
        spec,
        over(source),
        schema,
        calc_traits(source.traits, projections),
        _describe(spec, schema, source.schema),
        span,
    )


def identity(schema: Schema) -> tuple[Expression, ...]:
    return tuple(InputRef(i, f.type) for i, f in enumerate(schema.fields))


def narrow(planning: Planning, source: PhysicalNode, columns: tuple[int, ...]) -> PhysicalNode:
    """`source` with these columns alone, before an exchange."""
    refs = tuple(InputRef(c, source.schema.types[c]) for c in columns)
    return plan_calc(
        planning, source, refs, None, source.schema.select(columns), source.span, keeps_row_watermark=False
    )


def calc_traits(traits: Traits, projections: tuple[Expression, ...]) -> Traits:
    """The traits after a projection: keys, windows and times whose columns it copies, and keys whose columns it casts without
    making values equal."""
    places: dict[int, set[int]] = {}
    casts: dict[int, int] = {}
    for new, expression in enumerate(projections):
        if isinstance(expression, InputRef):
            places.setdefault(expression.index, set()).add(new)
        elif (column := cast_column(expression)) >= 0:
            casts.setdefault(column, new)
    return traits.projected({column: frozenset(found) for column, found in places.items()}, casts)


def is_rename(spec: CalcSpec) -> bool:
    """Whether the Calc computes nothing and drops no row."""
    return spec.condition is None and all(isinstance(p, InputRef) for p in spec.projections)


def _is_in_order(spec: CalcSpec) -> bool:
    return all(isinstance(p, InputRef) and p.index == i for i, p in enumerate(spec.projections))


def _describe(spec: CalcSpec, schema: Schema, source: Schema) -> str:
    where = "" if spec.condition is None else describe_expression(spec.condition, source)
    select = describe_select(spec.projections, schema.names, source)
    return describe("Calc", select=select, where=f"[{where}]")
