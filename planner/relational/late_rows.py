"""The rows of a table that are behind its watermark."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.relational.node import RelationalNode, SingleInputNode
from sqlstream.planner.relational.watermark import Watermark
from sqlstream.schema import Field, Schema
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.types import LogicalType, is_rowtime

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
