"""Spec of a watermark assigner (Flink: WatermarkAssignerOperator)."""

from __future__ import annotations

import enum

from sqlstream.expressions import Expression
from sqlstream.specs.spec import OperatorSpec


class EmitStrategy(enum.Enum):
    """When a watermark takes effect: after each batch, or (exactly) before the row that follows the one that raised it."""

    ON_PERIODIC = "on-periodic"
    ON_EVENT = "on-event"


ROW_WATERMARK_COLUMN = "$watermark"
"""BIGINT column added with ON_EVENT: the watermark in force when the row arrived, i.e. the highest value of the watermark
expression over the rows before it (of its own split, where the source has several), in ms since the epoch. A window operator
that reads it decides lateness row by row, so the answer does not depend on how the input was cut into batches."""


class WatermarkAssignerSpec(OperatorSpec, frozen=True, tag="watermark_assigner"):
    """Watermark = running maximum of `expression` (a timestamp; NULL values are skipped), in ms.

    Watermarks from upstream are dropped, except the final one. After `idle_timeout_ms` without a row (0: never) the output
    turns idle. A row whose `rowtime_column` is NULL fails the job, as in Flink. With ON_EVENT the output schema ends with
    ROW_WATERMARK_COLUMN. A `rowtime_column` of -1 is checked by another assigner, above.

    With `is_by_source` the reader of the table creates the watermarks (SourceSpec.watermark). If the table's strategy is
    ON_EVENT, it also creates the column, as the last of the input. Both are forwarded, the column only with ON_EVENT here.
    """

    rowtime_column: int
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    idle_timeout_ms: int = 0
    is_by_source: bool = False
