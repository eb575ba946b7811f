"""Window aggregation of rows that may be retracted equals that of the rows that are left when the window closes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import batch, operator_context, run_operator
from window_reference import windows_of

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import Watermark
from sqlstream.expressions import AggregateCall
from sqlstream.schema import Schema
from sqlstream.specs import WindowAggregateSpec, WindowKind, WindowSpec

ROWS = Schema.of(("k", sql.STRING), ("v", sql.BIGINT), ("ts", sql.timestamp(3)), ("f", sql.BOOLEAN))
CALLS = (
    AggregateCall("COUNT", (), sql.BIGINT),
    AggregateCall("SUM", (1,), sql.BIGINT),
    AggregateCall("MAX", (1,), sql.BIGINT),
    AggregateCall("COUNT", (1,), sql.BIGINT, is_distinct=True),
    AggregateCall("COUNT", (), sql.BIGINT, filter=3),
)
RESULT = Schema.of(
    ("k", sql.STRING), *((f"c{i}", sql.BIGINT) for i in range(len(CALLS))),
    ("window_start", sql.timestamp(3)), ("window_end", sql.timestamp(3)), ("window_time", sql.timestamp(3)),
)  # fmt: skip
WINDOWS = [
    WindowSpec(WindowKind.TUMBLE, 10),
    WindowSpec(WindowKind.HOP, 10, 4, 1),
    WindowSpec(WindowKind.CUMULATE, 12, 4),
]


def reference(window: WindowSpec, rows: Counter[Any]) -> list[Any]:
    groups: dict[Any, list[Any]] = {}
    for k, v, ts, f in rows.elements():
        for bounds in windows_of(window, ts):
            groups.setdefault((k, *bounds), []).append((v, f))
    results = []
    for (k, start, end), found in groups.items():
        values = [v for v, _ in found if v is not None]
        calls = (
            len(found),
            sum(values) if values else None,
            max(values, default=None),
            len(set(values)),
            sum(f is True for _, f in found),
        )
        results.append((k, *calls, start, end, end - 1))
    return results


VALUES = st.tuples(
    st.sampled_from("ab") | st.none(),
    st.integers(0, 3) | st.none(),
    st.integers(0, 30),
    st.booleans() | st.none(),
)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: w.kind.value)
@given(st.lists(VALUES, max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_a_window_has_the_rows_that_were_not_retracted(
    window: WindowSpec, rows: list[Any], fate: random.Random
) -> None:
    left: Counter[Any] = Counter()
    changes = []
    for row in rows:
        changes.append((fate.choice(["+I", "+U"]), *row))
        left[row] += 1
        if fate.random() < 0.5:
            gone = fate.choice(sorted(left.elements(), key=repr))
            changes.append((fate.choice(["-U", "-D"]), *gone))
            left[gone] -= 1
    mode = ChangelogMode.RETRACT
    spec = WindowAggregateSpec((0,), CALLS, window, time_column=2, is_retracting=True)
    context = operator_context([ROWS], RESULT, input_modes=[mode])
    cut = fate.randint(0, len(changes))
    parts = [batch(ROWS, part, mode) for part in (changes[:cut], changes[cut:]) if part]
    output = run_operator(spec, context, [*parts, Watermark(1_000)])
    assert sorted(output.rows, key=repr) == sorted(reference(window, left), key=repr)


def test_a_retraction_behind_its_window_is_late() -> None:
    counts: Counter[str] = Counter()
    mode = ChangelogMode.RETRACT
    spec = WindowAggregateSpec((0,), CALLS[:1], WINDOWS[0], time_column=2, is_retracting=True)
    schema = Schema((*RESULT.fields[:2], *RESULT.fields[-3:]))
    context = operator_context(
        [ROWS], schema, input_modes=[mode], count=lambda name, n: counts.update({name: n})
    )
    first = batch(ROWS, [("+I", "a", 1, 3, None)], mode)
    second = batch(ROWS, [("-D", "a", 1, 3, None), ("+I", "a", 1, 12, None)], mode)
    output = run_operator(spec, context, [first, Watermark(9), second, Watermark(100)])
    assert output.rows == [("a", 1, 0, 10, 9), ("a", 1, 10, 20, 19)]
    assert counts["numLateRecordsDropped"] == 1


def test_a_window_of_more_retractions_than_rows_has_no_result() -> None:
    mode = ChangelogMode.RETRACT
    spec = WindowAggregateSpec((0,), CALLS[:1], WINDOWS[0], time_column=2, is_retracting=True)
    schema = Schema((*RESULT.fields[:2], *RESULT.fields[-3:]))
    context = operator_context([ROWS], schema, input_modes=[mode])
    rows = batch(ROWS, [("-D", "a", 1, 3, None), ("+I", "b", 1, 3, None)], mode)
    assert run_operator(spec, context, [rows, Watermark(9)]).rows == [("b", 1, 0, 10, 9)]
