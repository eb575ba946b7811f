"""Spec of a watermark assigner (Flink: WatermarkAssignerOperator)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from sqlstream.config_option import parse_duration_ms
from sqlstream.expressions import Expression
from sqlstream.specs.spec import OperatorSpec


class EmitStrategy(enum.Enum):
    """When a watermark takes effect: after each batch, or (exactly) before the row that follows the one that raised it."""

    ON_PERIODIC = "on-periodic"
    ON_EVENT = "on-event"


ALIGNMENT_GROUP, ALIGNMENT_MAX_DRIFT, ALIGNMENT_UPDATE_INTERVAL = (
    f"scan.watermark.alignment.{name}" for name in ("group", "max-drift", "update-interval")
)
UPDATE_INTERVAL = "1 s"


class Alignment(msgspec.Struct, frozen=True):
    """A table waits for the others of its group: its watermark is at most `max_drift_ms` ahead of the lowest among theirs, which
    its readers ask for each `update_interval_ms`."""

    group: str
    max_drift_ms: int
    update_interval_ms: int

    @staticmethod
    def of(options: Mapping[str, str]) -> Alignment | None:
        """As the options of a table say; None without a group."""
        if ALIGNMENT_GROUP not in options:
            return None
        return Alignment(
            options[ALIGNMENT_GROUP],
            parse_duration_ms(options[ALIGNMENT_MAX_DRIFT]),
            parse_duration_ms(options.get(ALIGNMENT_UPDATE_INTERVAL, UPDATE_INTERVAL)),
        )


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
