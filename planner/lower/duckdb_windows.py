"""Window table-valued functions as DuckDB SQL: each row once per window that contains it."""

from __future__ import annotations

from planner.lower.duckdb_casts import require_utc
from planner.lower.refusals import refuse
from planner.relational.nodes import WindowTvf
from sqlstream.specs.window import WindowKind
from sqlstream.types import TypeRoot


def lower_window_tvf(node: WindowTvf, input_sql: str) -> str:
    """The rows of `input_sql` with window_start, window_end and window_time as their last columns."""
    if not node.window.is_event_time:
        raise refuse("a window of processing time", hint="use a column with a watermark", span=node.span)
    if node.input.schema.types[node.time_column].root is TypeRoot.TIMESTAMP_LTZ:
        require_utc(node.window.time_zone)
    width = len(node.input.schema)
    columns = ", ".join(f"c{i}" for i in range(width))
    bounds = (
        _session(node, input_sql, columns)
        if node.window.kind is WindowKind.SESSION
        else _aligned(node, input_sql, columns)
    )
    return (
        f"SELECT {columns}, make_timestamp(start_ms * 1000) AS c{width},"
        f" make_timestamp(end_ms * 1000) AS c{width + 1},"
        f" make_timestamp((end_ms - 1) * 1000) AS c{width + 2} FROM ({bounds})"
    )


def _aligned(node: WindowTvf, input_sql: str, columns: str) -> str:
    """TUMBLE, HOP and CUMULATE: bounds are multiples of the step, plus the offset."""
    window, time = node.window, f"epoch_ms(c{node.time_column})"
    size, step = window.size_ms, window.slide_ms
    match window.kind:
        case WindowKind.TUMBLE:
            start = _floor(time, size, window.offset_ms)
            return f"SELECT {columns}, {start} AS start_ms, start_ms + {size} AS end_ms FROM ({input_sql})"
        case WindowKind.HOP:
            start = f"{_floor(time, step, window.offset_ms)} - step * {step}"
            bounds, steps = f"{start} AS start_ms, start_ms + {size} AS end_ms", -(-size // step)
        case _:
            start = _floor(time, size, window.offset_ms)
            bounds = f"{start} AS start_ms, start_ms + (step + 1) * {step} AS end_ms"
            steps = -(-size // step)
    rows = f"SELECT {columns}, {time} AS at_ms, {bounds} FROM ({input_sql}), range({steps}) AS steps(step)"
    return f"SELECT * FROM ({rows}) WHERE at_ms >= start_ms AND at_ms < end_ms"


def _floor(time: str, step: int, offset: int) -> str:
    """The last multiple of `step` (plus offset) that is not after `time`, before 1970 too."""
    return f"({time} - ((({time} - {offset}) % {step}) + {step}) % {step})"


def _session(node: WindowTvf, input_sql: str, columns: str) -> str:
    """SESSION: two rows are in different sessions only when more than the gap is between them, as in Flink."""
    gap = node.window.size_ms
    keys = ", ".join(f"c{k}" for k in node.partition_keys) or "TRUE"
    gaps = f"lag(at_ms) OVER (PARTITION BY {keys} ORDER BY at_ms)"
    timed = f"SELECT {columns}, epoch_ms(c{node.time_column}) AS at_ms FROM ({input_sql})"
    marked = f"SELECT *, CAST(coalesce(at_ms - {gaps} > {gap}, TRUE) AS INTEGER) AS is_first FROM ({timed})"
    numbered = f"SELECT *, sum(is_first) OVER (PARTITION BY {keys} ORDER BY at_ms) AS session FROM ({marked})"
    over = f"OVER (PARTITION BY {keys}, session)"
    return f"SELECT {columns}, min(at_ms) {over} AS start_ms, max(at_ms) {over} + {gap} AS end_ms FROM ({numbered})"
