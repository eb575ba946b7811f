"""The watermark of a table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.expressions import Expression, InputRef, inputs_of, remap
from sqlstream.planner.lower import tree
from sqlstream.planner.relational.calc import Project
from sqlstream.planner.relational.node import RelationalNode, SameColumnsNode, SingleInputNode
from sqlstream.planner.relational.scan import TableScan
from sqlstream.planner.relational.trimming import Columns, Pruning, marked
from sqlstream.planner.relational.wording import join_parts
from sqlstream.schema import Field, Schema
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.types import BOOLEAN, LogicalType, is_rowtime

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Watermark(SameColumnsNode):
    """WATERMARK FOR `column` AS `expression`; the schema marks the column as ROWTIME."""

    column: int
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    idle_timeout_ms: int = 0

    def describe(self) -> str:
        strategy = self.emit_strategy
        return join_parts(
            f"rowtime=[{self.schema.names[self.column]}]",
            f"watermark=[{self.expression}]",
            f"emit=[{strategy.value}]" if strategy is not EmitStrategy.ON_PERIODIC else "",
            f"idle_timeout=[{self.idle_timeout_ms} ms]" if self.idle_timeout_ms else "",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
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
            schema=marked(source.schema, column, type_),
        )
        return made, places

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """The rows, or an error where the row time is NULL, as in a stream."""
        field = self.input.schema.fields[self.column]
        if not field.type.nullable:
            return inputs[0]
        fail = lowering.engine.failure(f'rowtime "{field.name}" is null', BOOLEAN)
        is_null = tree.is_null(tree.input_column(self.column))
        return tree.select_all(inputs[0], where=tree.case([(is_null, fail)], tree.boolean(True)))


def _marked_source(node: RelationalNode, column: int, time: LogicalType) -> RelationalNode:
    """A scan, or computed columns over one, whose column has the type of a time attribute."""
    if column < 0:
        return node
    schema = marked(node.schema, column, time)
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
class LateRows(SingleInputNode):
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

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return self.copied(column)


def watermark_type(time: LogicalType) -> LogicalType:
    """That of the watermarks of a row time."""
    return LogicalType(time.root, nullable=False, precision=3)


def _plain(field: Field) -> Field:
    return Field(field.name, field.type.without_time_attribute()) if is_rowtime(field.type) else field
