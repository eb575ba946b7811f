"""Early and late firing of windows, as the settings of the session ask for it."""

from __future__ import annotations

from sqlstream.errors import Span, UserError
from sqlstream.planner.physical.planning import Planning
from sqlstream.specs import EmitSpec, WindowAggregateSpec, WindowKind


def emit_strategy(planning: Planning, spec: WindowAggregateSpec, span: Span | None) -> EmitSpec | None:
    """When the windows of an aggregation emit; None when each emits its final result once. UserError SS4002 for late firing
    without a lateness, SS3011 for sessions that an operator below has found, once they had closed."""
    window = spec.window
    is_early = bool(planning.setting("table.exec.emit.early-fire.enabled"))
    lateness_ms = _lateness_ms(planning, span) if window.is_event_time else 0
    if not is_early and not lateness_ms:
        return None
    if window.kind is WindowKind.SESSION and spec.time_column < 0:
        raise UserError(
            "SS3011",
            "a SESSION whose rows are used one by one cannot fire early or late: its rows come when it closes",
            span=span,
            detail="'table.exec.emit.*' is set, and the aggregation does not group by just the window and its partition keys, or"
            " it reads the rows from another operator, such as a Top-N",
            hint="GROUP BY window_start, window_end and the keys of PARTITION BY, or RESET 'table.exec.emit.early-fire.enabled'"
            " and 'table.exec.emit.allow-lateness' for this query",
        )
    gathers_late = bool(planning.setting("table.exec.emit.late-fire.enabled"))
    return EmitSpec(
        early_ms=int(planning.setting("table.exec.emit.early-fire.delay")) if is_early else -1,
        late_ms=int(planning.setting("table.exec.emit.late-fire.delay")) if gathers_late else 0,
        lateness_ms=lateness_ms,
    )


def _lateness_ms(planning: Planning, span: Span | None) -> int:
    allowed = int(planning.setting("table.exec.emit.allow-lateness"))
    if allowed or not planning.setting("table.exec.emit.late-fire.enabled"):
        return allowed
    if not planning.state_ttl_ms:
        raise UserError(
            "SS4002",
            "'table.exec.emit.late-fire.enabled' needs to know how late a row may be",
            span=span,
            hint="SET 'table.exec.emit.allow-lateness' = '1 h', or 'table.exec.state.ttl'",
        )
    return planning.state_ttl_ms
