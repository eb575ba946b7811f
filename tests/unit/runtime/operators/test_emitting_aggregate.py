"""Early and late firing of windows against windows that are computed row by row."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import (
    Clock,
    Collected,
    ManualClock,
    batch,
    feed,
    finish,
    operator_context,
    restored,
    run_operator,
)
from window_reference import windows_of

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import Watermark
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import EmitSpec, WindowAggregateSpec, WindowKind, WindowSpec

ROWS = Schema.of(("k", sql.STRING), ("v", sql.BIGINT), ("ts", sql.timestamp(3)))
CALLS = (
    AggregateCall("COUNT", (), sql.BIGINT),
    AggregateCall("MAX", (1,), sql.BIGINT),
    AggregateCall("COUNT", (1,), sql.BIGINT, is_distinct=True),
)
BOUNDS = (
    ("window_start", sql.timestamp(3)),
    ("window_end", sql.timestamp(3)),
    ("window_time", sql.timestamp(3)),
)
RESULT = Schema.of(("k", sql.STRING), *((f"c{i}", sql.BIGINT) for i in range(len(CALLS))), *BOUNDS)
WINDOWS = [
    WindowSpec(WindowKind.TUMBLE, 10),
    WindowSpec(WindowKind.HOP, 10, 4, 1),
    WindowSpec(WindowKind.HOP, 4, 6),
    WindowSpec(WindowKind.CUMULATE, 12, 4),
]
EMITS = [EmitSpec(0), EmitSpec(7), EmitSpec(0, 0, 6), EmitSpec(-1, 0, 6), EmitSpec(5, 9, 6)]
RETRACT = ChangelogMode.RETRACT


class Reference:
    """Every row by key and window, and what a window has to say at any moment."""

    def __init__(self, window: WindowSpec, lateness_ms: int) -> None:
        self.window, self.lateness_ms = window, lateness_ms
        self.watermark, self.late = -(10**9), 0
        self.groups: dict[Any, list[Any]] = {}

    def add(self, kind: str, k: str, v: int | None, ts: int) -> None:
        windows = windows_of(self.window, ts)
        kept = [b for b in windows if b[1] - 1 + self.lateness_ms > self.watermark]
        self.late += bool(windows) and not kept
        for bounds in kept:
            values = self.groups.setdefault((k, *bounds), [])
            values.append(v) if kind in ("+I", "+U") else values.remove(v)

    def table(self, closed_only: bool) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for (k, start, end), values in self.groups.items():
            if values and (not closed_only or end - 1 <= self.watermark):
                known = {v for v in values if v is not None}
                found[k, len(values), max(known, default=None), len(known), start, end, end - 1] += 1
        return found


def script(fate: random.Random, is_retracting: bool) -> list[Any]:
    """Batches of changes and watermarks; rows come in order of time but for some that are late."""
    items: list[Any] = []
    live: list[Any] = []
    time = 0
    for _ in range(fate.randint(1, 6)):
        changes = []
        for _ in range(fate.randint(0, 5)):
            if is_retracting and live and fate.random() < 0.4:
                changes.append((fate.choice(["-U", "-D"]), *live.pop(fate.randrange(len(live)))))
                continue
            row = (
                fate.choice(["a", "b", None]),
                fate.choice([None, 1, 2, 3]),
                max(0, time + fate.randint(-15, 8)),
            )
            live.append(row)
            changes.append((fate.choice(["+I", "+U"]), *row))
        items.append(changes)
        time += fate.randint(0, 9)
        items.append(Watermark(time))
    return items


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w.kind.value}{w.size_ms}")
@pytest.mark.parametrize("emit", EMITS, ids=str)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=25)
def test_the_changelog_is_the_windows_so_far_at_any_time_and_after_any_restore(
    window: WindowSpec, emit: EmitSpec, fate: random.Random, is_retracting: bool, is_upsert: bool
) -> None:

    mode = ChangelogMode.UPSERT if is_upsert else RETRACT
    spec = WindowAggregateSpec((0,), CALLS, window, time_column=2, is_retracting=is_retracting, emit=emit)
    late: list[int] = []
    context = operator_context(
        [ROWS],
        RESULT,
        input_modes=[RETRACT if is_retracting else ChangelogMode.INSERT_ONLY],
        output_mode=mode,
        now_ms=ManualClock(0),
        count=lambda name, n: late.append(n) if name == "numLateRecordsDropped" else None,
    )
    operator, output = make_operator(spec, context), Collected()
    reference = Reference(window, emit.lateness_ms)
    key = [0, 4, 5]

    def table() -> Counter[Any]:
        return Counter(output.upserted(key).values()) if is_upsert else output.table([*key])

    for item in script(fate, is_retracting):
        if fate.random() < 0.3:
            snapshot = operator.context.state.snapshot()
            operator = restored(spec, context, [snapshot], 0, 1)
        if isinstance(item, Watermark):
            feed(operator, [item], output)
            reference.watermark = item.timestamp_ms
            if emit.early_ms < 0:
                assert table() == reference.table(closed_only=True)
            continue
        for change in item:
            reference.add(*change)
        rows = item if is_retracting else [change[1:] for change in item]
        feed(operator, [rows], output)
        if emit.early_ms > 0 or emit.late_ms > 0:
            feed(operator, [Clock(operator.context.now_ms() + 20)], output)
        if emit.early_ms >= 0:
            assert table() == reference.table(closed_only=False)
    finish(operator, output)
    assert table() == reference.table(closed_only=False)
    assert sum(late) == reference.late
    assert operator.next_processing_time_ms() is None


def test_changes_wait_for_their_delay_and_are_emitted_when_the_window_closes_or_is_forgotten() -> None:
    clock = ManualClock(0)
    spec = WindowAggregateSpec((0,), CALLS[:1], WINDOWS[0], time_column=2, emit=EmitSpec(100, 50, 10))
    schema = Schema((*RESULT.fields[:2], *RESULT.fields[-3:]))
    context = operator_context([ROWS], schema, output_mode=RETRACT, now_ms=clock)
    row = ("a", 1, 3)
    items = [
        [row],
        Clock(60),
        [row],
        Clock(99),
        Clock(100),
        [row],
        Watermark(9),
        [row],
        Clock(149),
        Clock(150),
        [row],
        Watermark(19),
        [row],
    ]
    output = run_operator(spec, context, items)
    said = [
        (kind, count, None if isinstance(kind, Watermark) else end)
        for kind, _, count, _, end, _ in output.rows
    ]
    assert said == [
        ("+I", 2, 10), ("-U", 2, 10), ("+U", 3, 10), ("-U", 3, 10), ("+U", 4, 10), ("-U", 4, 10), ("+U", 5, 10),
    ]  # fmt: skip
    assert output.watermarks[:2] == [9, 19]


def test_a_window_of_the_clock_fires_early_and_closes_by_the_clock() -> None:
    clock = ManualClock(3)
    window = WindowSpec(WindowKind.TUMBLE, 10, is_event_time=False)
    spec = WindowAggregateSpec((), CALLS[:1], window, time_column=2, emit=EmitSpec(4))
    schema = Schema((RESULT.fields[1], *RESULT.fields[-3:]))
    context = operator_context([ROWS], schema, output_mode=RETRACT, now_ms=clock)
    first = batch(ROWS, [("a", 1, 0), ("b", 1, 0)])
    operator, output = make_operator(spec, context), Collected()
    feed(operator, [first, Clock(6)], output)
    assert output.rows == []
    feed(operator, [Clock(7), first, Clock(10), Clock(12), first], output)
    finish(operator, output)
    assert [row[:4] for row in output.rows] == [
        ("+I", 2, 0, 10), ("-U", 2, 0, 10), ("+U", 4, 0, 10), ("+I", 2, 10, 20),
    ]  # fmt: skip


class SessionReference:
    """Every row of the sessions that a row may still extend, by key, and the results of those that are forgotten."""

    def __init__(self, gap_ms: int, lateness_ms: int) -> None:
        self.gap_ms, self.lateness_ms = gap_ms, lateness_ms
        self.watermark, self.late = -(10**9), 0
        self.rows: list[tuple[Any, ...]] = []
        self.forgotten: Counter[Any] = Counter()

    def sessions(self) -> list[list[tuple[Any, ...]]]:
        found: list[list[tuple[Any, ...]]] = []
        for row in sorted(self.rows, key=lambda r: (str(r[0]), r[2])):
            last = found[-1][-1] if found else None
            if last is not None and last[0] == row[0] and row[2] <= last[2] + self.gap_ms:
                found[-1].append(row)
            else:
                found.append([row])
        return found

    def end(self, session: list[tuple[Any, ...]]) -> int:
        return int(session[-1][2]) + self.gap_ms

    def add(self, rows: list[Any]) -> None:
        self.rows += rows
        for session in self.sessions():
            if self.end(session) - 1 + self.lateness_ms <= self.watermark:
                self.late += len(session)
                for row in session:
                    self.rows.remove(row)

    def advance(self, watermark: int) -> None:
        self.watermark = watermark
        for session in self.sessions():
            if self.end(session) - 1 + self.lateness_ms <= watermark:
                self.forgotten[self.result(session)] += 1
                for row in session:
                    self.rows.remove(row)

    def result(self, session: list[tuple[Any, ...]]) -> Any:
        known = {v for _, v, _ in session if v is not None}
        end = self.end(session)
        return session[0][0], len(session), max(known, default=None), len(known), session[0][2], end, end - 1

    def table(self, closed_only: bool) -> Counter[Any]:
        shown = [s for s in self.sessions() if not closed_only or self.end(s) - 1 <= self.watermark]
        return self.forgotten + Counter(map(self.result, shown))


@pytest.mark.parametrize("emit", EMITS, ids=str)
@given(st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_changelog_is_the_sessions_so_far_at_any_time_and_after_any_restore(
    emit: EmitSpec, fate: random.Random, is_upsert: bool, has_distinct: bool
) -> None:
    # Without DISTINCT the log holds partial results, with it the rows.
    calls = CALLS if has_distinct else (*CALLS[:2], AggregateCall("COUNT", (1,), sql.BIGINT))
    window = WindowSpec(WindowKind.SESSION, 5)
    spec = WindowAggregateSpec((0,), calls, window, time_column=2, emit=emit)
    late: list[int] = []
    context = operator_context(
        [ROWS],
        RESULT,
        output_mode=ChangelogMode.UPSERT if is_upsert else RETRACT,
        now_ms=ManualClock(0),
        count=lambda name, n: late.append(n) if name == "numLateRecordsDropped" else None,
    )
    operator, output = make_operator(spec, context), Collected()
    reference = SessionReference(5, emit.lateness_ms)
    key = [0, 4, 5]

    def agrees(closed_only: bool) -> None:
        found = Counter(output.upserted(key).values()) if is_upsert else output.table([*key])
        expected = reference.table(closed_only)
        if not has_distinct:
            found, expected = (_without_distinct(t) for t in (found, expected))
        assert found == expected

    for item in script(fate, False):
        if fate.random() < 0.3:
            operator = restored(spec, context, [operator.context.state.snapshot()], 0, 1)
        feed(operator, [item if isinstance(item, Watermark) else [row[1:] for row in item]], output)
        if isinstance(item, Watermark):
            reference.advance(item.timestamp_ms)
            if emit.early_ms < 0 and not emit.late_ms:
                agrees(closed_only=True)
            continue
        reference.add([row[1:] for row in item])
        if emit.early_ms > 0 or emit.late_ms > 0:
            feed(operator, [Clock(operator.context.now_ms() + 20)], output)
        if emit.early_ms >= 0:
            agrees(closed_only=False)
    finish(operator, output)
    agrees(closed_only=False)
    assert sum(late) == reference.late
    assert operator.next_processing_time_ms() is None


def _without_distinct(table: Counter[Any]) -> Counter[Any]:
    left: Counter[Any] = Counter()
    for row, count in table.items():
        left[(*row[:3], *row[4:])] += count
    return left


def test_sessions_that_a_row_joins_are_deleted_before_the_one_they_become() -> None:
    spec = WindowAggregateSpec(
        (0,), CALLS[:1], WindowSpec(WindowKind.SESSION, 5), time_column=2, emit=EmitSpec(0)
    )
    schema = Schema((*RESULT.fields[:2], *RESULT.fields[-3:]))
    context = operator_context([ROWS], schema, output_mode=RETRACT, now_ms=ManualClock(0))
    output = run_operator(
        spec, context, [[("a", 1, 1)], [("a", 1, 8)], [("b", 1, 8)], [("a", 1, 4), ("b", 1, 8)]]
    )
    said = [row[:-1] for row in output.rows if not isinstance(row[0], Watermark)]
    assert said == [
        ("+I", "a", 1, 1, 6), ("+I", "a", 1, 8, 13), ("+I", "b", 1, 8, 13),
        ("-D", "a", 1, 1, 6), ("-D", "a", 1, 8, 13), ("-U", "b", 1, 8, 13), ("+U", "b", 2, 8, 13), ("+I", "a", 3, 1, 13),
    ]  # fmt: skip
