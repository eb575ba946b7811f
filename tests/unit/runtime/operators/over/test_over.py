"""The operators of OVER, against a reference that goes from row to row, under any split of the input."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, batch, feed, operator_context
from over_reference import over

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MAX, Watermark
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs.over import Frame, OverCall, OverSpec, OverTiming

SCHEMA = Schema.of(("key", sql.INT), ("time", sql.timestamp(3)), ("value", sql.BIGINT), ("text", sql.STRING))
KEY, TIME, VALUE, TEXT = range(4)
RUNNING = (
    OverCall("ROW_NUMBER", (), sql.BIGINT),
    OverCall("RANK", (), sql.BIGINT),
    OverCall("DENSE_RANK", (), sql.BIGINT),
    OverCall("COUNT", (), sql.BIGINT),
    OverCall("SUM", (VALUE,), sql.BIGINT),
    OverCall("AVG", (VALUE,), sql.BIGINT, Frame(False)),
    OverCall("MIN", (TEXT,), sql.STRING),
    OverCall("MAX", (VALUE,), sql.BIGINT, Frame(False)),
    OverCall("FIRST_VALUE", (TEXT,), sql.STRING, skips_nulls=True),
    OverCall("LAST_VALUE", (VALUE,), sql.BIGINT, Frame(False), skips_nulls=True),
)
ROWS = (
    OverCall("SUM", (VALUE,), sql.BIGINT, Frame(False, -2, 0)),
    OverCall("COUNT", (VALUE,), sql.BIGINT, Frame(False, -2, -1)),
    OverCall("LAG", (TEXT,), sql.STRING, number=2),
    OverCall("LISTAGG", (TEXT,), sql.STRING, Frame(False, -1, 0)),
)
FOLLOWING = (
    OverCall("SUM", (VALUE,), sql.BIGINT, Frame(False, -1, 2)),
    OverCall("LEAD", (TEXT,), sql.STRING, number=2),
)
RANGE = (
    OverCall("SUM", (VALUE,), sql.BIGINT, Frame(True, -3, 0)),
    OverCall("MAX", (TEXT,), sql.STRING, Frame(True, -2, 2)),
    OverCall("COUNT", (), sql.BIGINT, Frame(True, 0, 2)),
)
ALL_ROWS = (
    OverCall("COUNT", (VALUE,), sql.BIGINT, is_distinct=True),
    OverCall("LISTAGG", (TEXT,), sql.STRING),
    OverCall("SUM", (VALUE,), sql.BIGINT, Frame(True, None, 2)),
)
NEEDED = (
    OverCall("COUNT", (VALUE,), sql.BIGINT, is_distinct=True),
    OverCall("SUM", (VALUE,), sql.BIGINT, Frame(False), is_distinct=True),
    OverCall("LAG", (VALUE,), sql.BIGINT, number=2, skips_nulls=True),
    OverCall("FIRST_VALUE", (TEXT,), sql.STRING),
    OverCall("LAST_VALUE", (TEXT,), sql.STRING, Frame(False)),
    OverCall("NTH_VALUE", (VALUE,), sql.BIGINT, number=2, skips_nulls=True),
)
REACHES: list[tuple[tuple[OverCall, ...], dict[str, int]]] = [
    (RUNNING, {}),
    (ROWS, {"rows_before": 2}),
    (FOLLOWING, {"rows_before": 1, "rows_after": 2}),
    (RANGE, {"ms_before": 3, "ms_after": 2}),
    (ALL_ROWS, {"rows_before": -1, "ms_after": 2}),
    (NEEDED, {"rows_before": -1}),
]
ROW = st.tuples(
    st.integers(0, 2) | st.none(),
    st.integers(0, 12),
    st.integers(-3, 3) | st.none(),
    st.sampled_from(["a", "b", "c"]) | st.none(),
)
CUTS = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def _output(calls: tuple[OverCall, ...]) -> Schema:
    return Schema.of(
        *[(f.name, f.type) for f in SCHEMA.fields], *[(f"c{i}", c.type) for i, c in enumerate(calls)]
    )


def _expected(
    rows: list[Any], calls: tuple[OverCall, ...], has_peers: bool = True, by: int = TIME
) -> Counter[Any]:
    """The rows with their results; `rows` are in order of arrival."""
    found: Counter[Any] = Counter()
    for key in {row[KEY] for row in rows}:
        own = [row for row in rows if row[KEY] == key]
        if has_peers:
            own.sort(key=lambda row: (row[by] is not None, row[by] if row[by] is not None else 0))
        results = [over(own, call, [row[by] for row in own], has_peers) for call in calls]
        found.update(row + values for row, values in zip(own, zip(*results, strict=True), strict=True))
    return found


def _cut(rows: list[Any], sizes: list[int]) -> list[list[Any]]:
    parts, at = [], 0
    while at < len(rows):
        size = sizes[len(parts) % len(sizes)]
        parts.append(rows[at : at + size])
        at += size
    return parts


@given(st.lists(ROW, max_size=16), CUTS, st.sampled_from(REACHES))
@settings(max_examples=150, deadline=None)
def test_rows_in_order_of_time_have_the_results_of_their_frames(rows: Any, sizes: Any, reach: Any) -> None:
    calls, limits = reach
    items: list[Any] = []
    kept: list[Any] = []
    watermark = -1
    for part in _cut(rows, sizes):
        items.append(part)
        kept += [row for row in part if row[TIME] > watermark]
        watermark = max(watermark, max(row[TIME] for row in part) - 4)
        items.append(Watermark(watermark))
    spec = OverSpec((KEY,), (SortKey(TIME),), calls, OverTiming.ROW_TIME, TIME, **limits)
    output = Collected()
    counted: Counter[str] = Counter()
    context = operator_context([SCHEMA], _output(calls), count=lambda name, n: counted.update({name: n}))
    operator = make_operator(spec, context)
    came = 0
    for item in [*items, Watermark(WATERMARK_MAX)]:
        feed(operator, [item], output)
        came += 0 if isinstance(item, Watermark) else len(item)
        assert came == len(output.rows) + counted["numLateRecordsDropped"] + operator.held_rows()
    # LISTAGG takes rows as they are sorted.
    assert Counter(output.rows) == _expected(kept, calls)
    assert counted["numLateRecordsDropped"] == len(rows) - len(kept)
    if not limits.get("rows_after"):
        times = [row[TIME] for row in output.rows]
        assert times == sorted(times)


@given(st.lists(ROW, max_size=16), CUTS)
@settings(max_examples=50, deadline=None)
def test_rows_by_arrival_are_emitted_at_once_and_have_no_peers(rows: Any, sizes: Any) -> None:
    for calls, limits in (REACHES[0], REACHES[1], (ALL_ROWS[:2], {"rows_before": -1}), REACHES[-1]):
        output = Collected()
        spec = OverSpec((KEY,), (SortKey(TIME),), calls, OverTiming.ARRIVAL, **limits)
        operator = make_operator(spec, operator_context([SCHEMA], _output(calls)))
        for part in _cut(rows, sizes):
            feed(operator, [part], output)
        whole = tuple(
            msgspec.structs.replace(c, frame=Frame(False, c.frame.start, c.frame.end)) for c in calls
        )
        assert Counter(output.rows) == _expected(rows, whole, has_peers=False)


def test_a_frame_of_processing_time_forgets_rows_that_are_too_old() -> None:
    calls = (OverCall("SUM", (VALUE,), sql.BIGINT, Frame(False, None, 0)),)
    spec = OverSpec((), (SortKey(TIME),), calls, OverTiming.ARRIVAL, ms_before=10)
    output = Collected()
    context = operator_context([SCHEMA], _output(calls), now_ms=ManualClock(0))
    operator = make_operator(spec, context)
    row = (1, 0, 1, "a")
    feed(operator, [[row], Clock(10), [row, row], Clock(11), [row], Clock(30), [row]], output)
    assert [r[-1] for r in output.rows] == [1, 2, 3, 3, 1]


def test_rows_by_arrival_stay_in_their_order_when_the_clock_is_set_back() -> None:
    calls = (OverCall("LAG", (VALUE,), sql.BIGINT, number=1),)
    spec = OverSpec((), (SortKey(TIME),), calls, OverTiming.ARRIVAL, rows_before=1)
    clock, output = ManualClock(50), Collected()
    operator = make_operator(spec, operator_context([SCHEMA], _output(calls), now_ms=clock))
    for value, clock.now_ms in ((1, 50), (2, 40), (3, 45)):
        feed(operator, [[(1, 0, value, "a")]], output)
    assert [r[-1] for r in output.rows] == [None, 1, 2]


CHANGE_CALLS = (
    OverCall("SUM", (VALUE,), sql.BIGINT),
    OverCall("RANK", (), sql.BIGINT),
    OverCall("ROW_NUMBER", (), sql.BIGINT),
    OverCall("NTILE", (), sql.INT, number=2),
    OverCall("MAX", (TEXT,), sql.STRING, Frame(end=None)),
    OverCall("LEAD", (TEXT,), sql.STRING, number=1),
    OverCall("COUNT", (), sql.BIGINT, Frame(True, -1, 1)),
)


def _changes(data: Any) -> list[Any]:
    """A changelog of rows, in which only rows that are there are retracted."""
    there: list[Any] = []
    changes = []
    for row, retracts in data:
        if retracts and there:
            changes.append(("-D", *there.pop(len(there) // 2)))
        else:
            there.append(row)
            changes.append(("+I", *row))
    return changes


@given(st.lists(st.tuples(ROW, st.sampled_from([False, False, True])), max_size=16), CUTS)
@settings(max_examples=80, deadline=None)
def test_rows_in_any_order_have_the_results_of_the_rows_that_are_there(data: Any, sizes: Any) -> None:
    changes = _changes(data)
    left: list[Any] = []
    for kind, *row in changes:
        if kind == "+I":
            left.append(tuple(row))
        else:
            left.remove(tuple(row))
    for timing in (OverTiming.ON_CHANGE, OverTiming.AT_END):
        spec = OverSpec((KEY,), (SortKey(VALUE), SortKey(TIME), SortKey(TEXT)), CHANGE_CALLS[:-1], timing)
        output = Collected()
        mode = ChangelogMode.RETRACT if timing is OverTiming.ON_CHANGE else ChangelogMode.INSERT_ONLY
        context = operator_context(
            [SCHEMA], _output(spec.calls), input_modes=[ChangelogMode.RETRACT], output_mode=mode
        )
        operator = make_operator(spec, context)
        parts = [batch(SCHEMA, part, ChangelogMode.RETRACT) for part in _cut(changes, sizes)]
        feed(operator, [*parts, Watermark(WATERMARK_MAX)], output)
        assert output.table() == _sorted_by_all(left, spec.calls)


def _sorted_by_all(rows: list[Any], calls: tuple[OverCall, ...]) -> Counter[Any]:
    """As `_expected` with an order in which only equal rows are peers."""

    def place(row: Any) -> Any:
        return (
            *tuple((row[c] is not None, row[c] if row[c] is not None else 0) for c in (VALUE, TIME)),
            (row[TEXT] is not None, row[TEXT] or ""),
        )

    found: Counter[Any] = Counter()
    for key in {row[KEY] for row in rows}:
        own = sorted((row for row in rows if row[KEY] == key), key=place)
        results = [over(own, call, [place(row) for row in own]) for call in calls]
        found.update(row + values for row, values in zip(own, zip(*results, strict=True), strict=True))
    return found


def test_only_rows_whose_results_change_are_emitted_again() -> None:
    calls = (OverCall("RANK", (), sql.BIGINT),)
    spec = OverSpec((KEY,), (SortKey(VALUE),), calls, OverTiming.ON_CHANGE)
    context = operator_context([SCHEMA], _output(calls), output_mode=ChangelogMode.RETRACT)
    operator = make_operator(spec, context)
    output = Collected()
    feed(operator, [[(1, 0, 10, "a"), (1, 0, 30, "c"), (2, 0, 1, "x")], [(1, 0, 20, "b")]], output)
    assert output.rows[3:] == [
        ("-U", 1, 0, 30, "c", 2),
        ("+U", 1, 0, 30, "c", 3),
        ("+I", 1, 0, 20, "b", 2),
    ]


def test_a_watermark_that_comes_again_does_not_pass_rows_that_wait_for_it() -> None:
    calls = (OverCall("COUNT", (), sql.BIGINT, Frame(True, 0, 5)),)
    spec = OverSpec((KEY,), (SortKey(TIME),), calls, OverTiming.ROW_TIME, TIME, ms_after=5)
    operator = make_operator(spec, operator_context([SCHEMA], _output(calls)))
    output = Collected()
    feed(operator, [[(1, 8, 1, "a")]], output)
    # As of restored state, whose watermark the sources reach anew.
    assert [operator.on_watermark(ms, output) for ms in (10, 9, 10)] == [5, 4, 5]
    assert output.rows == []


def test_of_rows_before_those_are_kept_that_decide_results_of_later_rows() -> None:
    rows = [(1, at, at % 3 if at % 7 else None, "a") for at in range(500)]
    for calls, kept_max in ((NEEDED[:2], 3), (NEEDED[2:3], 2), (NEEDED[3:], 4)):
        spec = OverSpec((KEY,), (SortKey(TIME),), calls, OverTiming.ROW_TIME, TIME, rows_before=-1)
        operator = make_operator(spec, operator_context([SCHEMA], _output(calls)))
        feed(operator, [rows, Watermark(400), Watermark(499)], Collected())
        assert operator.context.state.snapshot().whole_rows("rows") <= kept_max
