"""Specs of aggregations: grouped over the whole stream, or by window."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.expressions import AggregateCall
from sqlstream.functions import signature_of
from sqlstream.specs.spec import OperatorSpec, StateBound, keys_or_ttl, until_ttl
from sqlstream.specs.window import WindowSpec


class AggregatePhase(enum.Enum):
    """SINGLE: rows to results. LOCAL: rows to accumulators, no state beyond a few batches. GLOBAL: accumulators to results."""

    SINGLE = "SINGLE"
    LOCAL = "LOCAL"
    GLOBAL = "GLOBAL"


class GroupAggregateSpec(OperatorSpec, frozen=True, tag="group_aggregate"):
    """GROUP BY without a window (Flink: StreamExecGroupAggregate and its Local/Global twins).

    SINGLE and LOCAL read rows: `keys` and the calls' arguments are input columns. LOCAL outputs the key columns, then — when
    `is_retracting` — `$row_count` BIGINT, then each call's accumulator columns in order
    (`sqlstream.functions.aggregates.accumulator_fields`). GLOBAL reads exactly that layout: its `keys` are 0..k-1 and the
    calls' arguments still name the columns LOCAL read, so only their types matter.
    SINGLE and GLOBAL output the key columns, then one column per call, as a changelog: +I for a new group, then updates
    (-U only when the output mode is RETRACT), -D when `is_retracting` and the group's last row was retracted.
    `is_retracting`: the rows that LOCAL or SINGLE reads may be retracted.
    Without keys there is one group, which exists from the start: over bounded input that ends without a row the result is
    the aggregate of no rows (COUNT 0), as in batch. Without calls this is SELECT DISTINCT.
    At most one result row per key and batch is emitted: intermediate results inside a batch are skipped. `holds_history`: none
    is before the histories of the statement have ended, and then that of each group.
    """

    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    phase: AggregatePhase = AggregatePhase.SINGLE
    is_retracting: bool = False
    state_ttl_ms: int = 0
    holds_history: bool = False

    def kept_state(self) -> str:
        if self.phase is AggregatePhase.LOCAL:
            return ""
        return f"one accumulator row per key; dropped: {until_ttl(self.state_ttl_ms)}"

    def state_bound(self) -> StateBound:
        return keys_or_ttl(bool(self.keys), self.state_ttl_ms)


SLICE_END_COLUMN = "$slice_end"
WINDOW_START_COLUMN = "$window_start"


class EmitSpec(msgspec.Struct, frozen=True):
    """When a window that is not final emits its result (Flink: WindowEmitStrategy).

    `early_ms`: how long a change of an open window may wait before it is emitted (0: until the end of its batch, -1: until the
    window closes). `late_ms`: the same for a change by a late row; such a row counts until `lateness_ms` after the window's end.
    """

    early_ms: int = -1
    late_ms: int = 0
    lateness_ms: int = 0

    def __str__(self) -> str:
        early = [f"early={_delay(self.early_ms)}"] if self.early_ms >= 0 else []
        late = [f"late={_delay(self.late_ms)}", f"lateness={self.lateness_ms} ms"] if self.lateness_ms else []
        return f"[{', '.join(early + late)}]"


def _delay(delay_ms: int) -> str:
    return f"every {delay_ms} ms" if delay_ms else "each batch"


class WindowAggregateSpec(OperatorSpec, frozen=True, tag="window_aggregate"):
    """GROUP BY with window_start and window_end of a window TVF (Flink: StreamExecWindowAggregate and its twins).

    The window of a row comes from `time_column`, or, when that is -1, from columns `window_start_column` and
    `window_end_column` that an operator upstream attached ("attached window"; `window` then describes where they came from).
    SINGLE and GLOBAL output, once a window closes (watermark >= end - 1; processing time >= end), the key columns, one
    column per call, then window_start, window_end TIMESTAMP(3) and window_time (end - 1 ms). The output is insert-only.
    LOCAL outputs the key columns, the accumulator columns, then `$slice_end` BIGINT (ms; end of the row's slice, or the
    window's end when attached) and, for attached windows, `$window_start` BIGINT. GLOBAL reads that layout.
    A row is late when all its windows are closed: dropped and counted in `numLateRecordsDropped`. `row_watermark_column`
    (>= 0: SINGLE and LOCAL) holds the watermark in force for each row (specs.watermark.ROW_WATERMARK_COLUMN).
    SESSION has no LOCAL phase. Without keys an empty window has no row. `is_retracting` (SINGLE, not SESSION): rows may be
    retracted; a key whose rows all were has no row, and retractions are late as rows are.
    With `emit` a window emits before it is final, and the output is a changelog: +I and updates (-U only when the
    output mode is RETRACT). -D is for a key whose rows were all retracted, and for a session that has other bounds now. A row is
    late when the watermark has passed the end of all its windows by `lateness_ms`. When a window closes, and again when it is
    forgotten, it emits what it has not yet.
    """

    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: WindowSpec
    time_column: int = -1
    window_start_column: int = -1
    window_end_column: int = -1
    phase: AggregatePhase = AggregatePhase.SINGLE
    row_watermark_column: int = -1
    is_retracting: bool = False
    emit: EmitSpec | None = None

    @property
    def lateness_ms(self) -> int:
        return self.emit.lateness_ms if self.emit is not None else 0

    def kept_state(self) -> str:
        if self.phase is AggregatePhase.LOCAL:
            return ""
        if self.emit is not None:
            later = f"{self.lateness_ms} ms after " if self.lateness_ms else "when "
            return f"one accumulator row per key and window, and the result emitted last; dropped: {later}the window closes"
        return "one accumulator row per key and slice; dropped: when the slice's last window closes"

    def state_bound(self) -> StateBound:
        clock = "watermark" if self.window.is_event_time else "clock"
        if self.emit is not None:
            return StateBound(f"the {clock}, which closes windows", True, "key and window")
        # What has no partial result is computed when the window closes.
        is_partial = not self.is_retracting and all(
            signature_of(c).accumulator is not None and not c.is_distinct for c in self.aggregates
        )
        return StateBound(
            f"the {clock}, which closes windows", True, "key and slice" if is_partial else "row"
        )
