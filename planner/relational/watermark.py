"""The watermark of a table."""

from __future__ import annotations

import dataclasses

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, inputs_of, references, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.description import describe, describe_expression
from sqlstream.planner.physical.node import Columns, PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.calc import Project
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.scan import TableScan, normalized
from sqlstream.schema import Field, Schema
from sqlstream.specs import CalcSpec, ChangelogNormalizeSpec
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN, Alignment, EmitStrategy, WatermarkAssignerSpec
from sqlstream.types import BIGINT, LogicalType, is_rowtime


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Watermark(base.SameColumnsNode):
    """WATERMARK FOR `column` AS `expression`; the schema marks the column as ROWTIME."""

    column: int
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    idle_timeout_ms: int = 0
    alignment: Alignment | None = None

    def describe(self) -> str:
        strategy = self.emit_strategy
        return base.join_parts(
            f"rowtime=[{self.schema.names[self.column]}]",
            f"watermark=[{self.expression}]",
            f"emit=[{strategy.value}]" if strategy is not EmitStrategy.ON_PERIODIC else "",
            f"idle_timeout=[{self.idle_timeout_ms} ms]" if self.idle_timeout_ms else "",
            f"aligned=[{_aligned(self)}]" if self.alignment else "",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        # Its reader waits for others by the watermark, whoever else needs it.
        time = time or self.alignment is not None
        inner = wanted | ({self.column} | inputs_of(self.expression) if time else frozenset())
        # The scan below belongs to this source: its columns were decided with those of the watermark.
        is_scan = isinstance(self.input, TableScan)
        trim = self.input.trim(pruning, inner, False) if is_scan else pruning.trim(self.input, inner, False)
        source, places = trim
        type_ = self.schema.types[self.column]
        if not time:
            # The column stays a time attribute in type: deduplication by row time needs its order, not its
            # watermark.
            return _marked_source(source, places.get(self.column, -1), type_), places
        column = places[self.column]
        made = dataclasses.replace(
            self,
            input=source,
            column=column,
            expression=remap(self.expression, places),
            schema=base.marked(source.schema, column, type_),
        )
        return made, places


def _marked_source(node: base.RelationalNode, column: int, time: LogicalType) -> base.RelationalNode:
    """A scan, or computed columns over one, whose column has the type of a time attribute."""
    if column < 0:
        return node
    schema = base.marked(node.schema, column, time)
    if isinstance(node, Project):
        expression = node.expressions[column]
        if isinstance(expression, InputRef):
            # Mark the column down to the scan: a projection that changes nothing else is removed.
            reference = InputRef(expression.index, time)
            expressions = (*node.expressions[:column], reference, *node.expressions[column + 1 :])
            source = _marked_source(node.input, expression.index, time)
            return dataclasses.replace(node, input=source, expressions=expressions, schema=schema)
    return dataclasses.replace(node, schema=schema)


# The rows of a table that are behind its watermark.


WATERMARK_COLUMN = "$watermark"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LateRows(base.SingleInputNode):
    """The rows of a table whose row time is not after the watermark that the rows before them in their split have made: with
    that watermark in a last column. Row times are plain times here, since every row is behind the watermark."""

    time_column: int

    @staticmethod
    def of(watermark: Watermark) -> LateRows:
        """Each row has its own watermark, whatever the table says of when it takes effect."""
        source = dataclasses.replace(watermark, emit_strategy=EmitStrategy.ON_EVENT)
        time = source.schema.types[source.column]
        return LateRows(
            input=source,
            time_column=source.column,
            schema=Schema(
                (*map(_plain, source.schema.fields), Field(WATERMARK_COLUMN, watermark_type(time)))
            ),
            span=watermark.span,
        )

    def describe(self) -> str:
        return f"time=[${self.time_column}]"

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return self.copied(column)


def watermark_type(time: LogicalType) -> LogicalType:
    """That of the watermarks of a row time."""
    return LogicalType(time.root, nullable=False, precision=3)


def _plain(field: Field) -> Field:
    return Field(field.name, field.type.without_time_attribute()) if is_rowtime(field.type) else field


# Watermark assigners.


def plan_watermark(planning: Planning, inputs: Inputs, node: Watermark) -> PhysicalNode:
    """The assigner over its input.

    ON_EVENT means that the rows before a row decide whether it is late. Only window aggregates decide lateness per row:
    for them the watermark of each row is added as a column, and for other consumers both strategies are the same. A
    source that makes the watermarks itself adds the column for all consumers; it is dropped here for those that do not
    read it.
    """
    source = inputs[0]
    is_exact = inputs.needs_row_watermark and node.emit_strategy is EmitStrategy.ON_EVENT
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
        aligned=_aligned(node),
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
        rowtime_column=-1,
        expression=expression,
        idle_timeout_ms=node.idle_timeout_ms,
        is_by_source=_is_by_source(node),
    )
    description = describe(
        "WatermarkAssigner",
        watermark=f"[{describe_expression(expression, changes.schema)}]",
        idle=f"{node.idle_timeout_ms} ms" if node.idle_timeout_ms else "",
        by="source" if spec.is_by_source else "",
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


def _aligned(node: Watermark) -> str:
    """The group, and how far the table may be ahead; empty for one that waits for nobody."""
    aligned = node.alignment
    return f"{aligned.group} within {aligned.max_drift_ms} ms" if aligned is not None else ""


def _is_by_source(node: Watermark) -> bool:
    scan = node.input.input if isinstance(node.input, Project) else node.input
    return isinstance(scan, TableScan) and scan.watermark is not None


# The late rows of a table: a filter over rows that have their watermark as a column.


def plan_late_rows(planning: Planning, inputs: Inputs, node: LateRows) -> PhysicalNode:
    """The input has the watermark of each row. Milliseconds are compared, as operators do that find a row late."""
    source = inputs.of(node.input, needs_row_watermark=True)
    column = source.traits.row_watermark_column
    time: Expression = InputRef(node.time_column, node.input.schema.types[node.time_column])
    type_ = watermark_type(time.type)
    watermark = Call("CURRENT_WATERMARK", (InputRef(column, sql.BIGINT),), type_)
    if time.type.precision != 3:
        time = Call("CAST", (time,), type_.with_nullable(time.type.nullable))
    is_late = Call("<=", (time, watermark), sql.BOOLEAN)
    projections: tuple[Expression, ...] = (*references(node.schema.types)[:-1], watermark)
    made = plan_calc(
        planning, source, projections, is_late, node.schema, node.span, keeps_row_watermark=False
    )
    traits = dataclasses.replace(made.traits, times=frozenset(), row_watermark_column=-1)
    return dataclasses.replace(made, traits=traits)
