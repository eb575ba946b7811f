"""WindowTvf."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import ManualClock, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.operators.window.windowing import WindowClock, window_batch
from sqlstream.schema import Schema
from sqlstream.specs import WindowKind, WindowSpec, WindowTvfSpec
from sqlstream.times import timestamp_bounds
from sqlstream.types import INT

TS = sql.timestamp(3)
WINDOW = Schema.of(("window_start", TS), ("window_end", TS), ("window_time", TS))
INPUT = Schema.of(("k", INT), ("ts", TS))
OUTPUT = INPUT.concat(WINDOW)
HOUR = 3_600_000


def windows_of(time: int, window: WindowSpec) -> list[tuple[int, int]]:
    """By trying every start in reach."""
    step = window.slide_ms if window.kind is WindowKind.HOP else window.size_ms
    first = (time - window.size_ms - window.offset_ms) // step * step + window.offset_ms
    found = []
    for start in range(first - step, time + 1, step):
        ends = [start + window.size_ms]
        if window.kind is WindowKind.CUMULATE:
            ends = list(range(start + window.slide_ms, start + window.size_ms + 1, window.slide_ms))
        found += [(start, end) for end in ends if start <= time < end]
    return found


SPECS = [
    WindowSpec(WindowKind.TUMBLE, 10),
    WindowSpec(WindowKind.TUMBLE, 10, offset_ms=3),
    WindowSpec(WindowKind.HOP, 10, 2),
    WindowSpec(WindowKind.HOP, 10, 3, offset_ms=-1),
    WindowSpec(WindowKind.HOP, 4, 10),
    WindowSpec(WindowKind.CUMULATE, 12, 3),
    WindowSpec(WindowKind.CUMULATE, 12, 4, offset_ms=5),
]


@pytest.mark.parametrize("window", SPECS, ids=str)
@given(batches=st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(-60, 60)), max_size=6), max_size=3))
@settings(max_examples=40, deadline=None)
def test_every_window_of_every_row_earliest_first(
    window: WindowSpec, batches: list[list[tuple[int, int]]]
) -> None:
    output = run_operator(WindowTvfSpec(window, 1), operator_context([INPUT], OUTPUT), batches)
    expected = [(k, t, s, e, e - 1) for rows in batches for k, t in rows for s, e in windows_of(t, window)]
    assert output.rows == expected


def test_row_kinds_are_repeated_with_the_row() -> None:
    mode = ChangelogMode.RETRACT
    context = operator_context([INPUT], OUTPUT, input_modes=[mode], output_mode=mode)
    rows = run_operator(WindowTvfSpec(SPECS[5], 1), context, [[("-D", 1, 8)]]).rows
    assert rows == [("-D", 1, 8, 0, 9, 8), ("-D", 1, 8, 0, 12, 11)]


def test_zoned_time_is_cut_by_the_local_clock() -> None:
    instant = sql.timestamp_ltz(3)
    schema = Schema.of(("ts", instant))
    output_schema = schema.concat(
        Schema.of(("window_start", TS), ("window_end", TS), ("window_time", instant))
    )
    window = WindowSpec(WindowKind.TUMBLE, 24 * HOUR, time_zone="Asia/Shanghai")
    (row,) = run_operator(
        WindowTvfSpec(window, 0), operator_context([schema], output_schema), [[(17 * HOUR,)]]
    ).rows
    assert row == (17 * HOUR, 24 * HOUR, 48 * HOUR, 40 * HOUR - 1)


def test_processing_time_comes_from_the_clock() -> None:
    window = WindowSpec(WindowKind.TUMBLE, 10, is_event_time=False)
    context = operator_context([INPUT], OUTPUT, now_ms=ManualClock(25))
    assert run_operator(WindowTvfSpec(window, 1), context, [[(1, None)]]).rows == [(1, None, 20, 30, 29)]


def test_a_row_without_event_time_fails() -> None:
    with pytest.raises(UserError, match='rowtime "ts" is null'):
        run_operator(WindowTvfSpec(SPECS[0], 1), operator_context([INPUT], OUTPUT), [[(1, None)]])


def test_a_window_that_ends_beyond_the_range_of_timestamps_fails() -> None:
    window = WindowSpec(WindowKind.TUMBLE, HOUR)
    last = timestamp_bounds("ms")[1]
    with pytest.raises(UserError, match="timestamp out of range"):
        run_operator(WindowTvfSpec(window, 1), operator_context([INPUT], OUTPUT), [[(1, last)]])
    with pytest.raises(UserError, match="timestamp out of range"):
        window_batch(
            to_arrow_schema(WINDOW), [], np.array([last + 1 - HOUR]), np.array([last + 1]), WindowClock("UTC")
        )
