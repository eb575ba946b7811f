"""Deduplication equals keeping the first or the last row of each key, one row at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changelog_harness import cut, cuts_strategy, run_moved
from hypothesis import example, given, settings
from hypothesis import strategies as st
from operator_harness import (
    Clock,
    Collected,
    ManualClock,
    Row,
    batch,
    feed,
    operator_context,
    restore,
    run_operator,
)

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Field, Schema
from sqlstream.specs import DeduplicateSpec, Keep, RankPhase

ROWS = Schema.of(("key", sql.STRING), ("k2", sql.BIGINT), ("t", sql.timestamp(3)), ("name", sql.STRING))
RANKED = Schema((*ROWS.fields, Field("rank", sql.BIGINT)))
RETRACT, UPSERT, APPEND = ChangelogMode.RETRACT, ChangelogMode.UPSERT, ChangelogMode.INSERT_ONLY
rows_strategy = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "a longer key", None]),
        st.sampled_from([1, 2, None]),
        st.integers(0, 6),
        st.sampled_from(["x", "a longer name", None]),
    ),
    max_size=40,
)
specs = st.builds(
    DeduplicateSpec, keys=st.sampled_from([(0,), (0, 1), (1,), ()]), keep=st.sampled_from(list(Keep)),
    time_column=st.sampled_from([2, -1]), outputs_rank=st.booleans(),
)  # fmt: skip


def reference(spec: DeduplicateSpec, rows: list[Row]) -> Counter[Row]:
    kept: dict[Row, Row] = {}
    for row in rows:
        key = tuple(row[k] for k in spec.keys)
        held = kept.get(key)
        if held is None:
            wins = True
        elif spec.time_column < 0:
            wins = spec.keep is Keep.LAST
        else:
            time, best = row[spec.time_column], held[spec.time_column]
            wins = time >= best if spec.keep is Keep.LAST else time < best
        if wins:
            kept[key] = row
    return Counter((*row, 1) if spec.outputs_rank else row for row in kept.values())


def context_of(spec: DeduplicateSpec, mode: ChangelogMode, **others: Any) -> Any:
    return operator_context([ROWS], RANKED if spec.outputs_rank else ROWS, output_mode=mode, **others)


def table_of(spec: DeduplicateSpec, output: Collected, mode: ChangelogMode) -> Counter[Row]:
    return Counter(output.upserted(spec.keys).values()) if mode is UPSERT else output.table(spec.keys)


@given(specs, rows_strategy, cuts_strategy, st.sampled_from([RETRACT, UPSERT]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_one_row_a_key_is_kept(
    spec: DeduplicateSpec, rows: list[Row], cuts: list[int], mode: ChangelogMode, is_two_phase: bool
) -> None:
    batches: list[Any] = cut(rows, cuts)
    if is_two_phase:
        local = local_of(spec)
        batches = run_operator(local, operator_context([ROWS], ROWS), batches).batches
    output = run_operator(spec, context_of(spec, mode), batches)
    assert table_of(spec, output, mode) == reference(spec, rows)


def local_of(spec: DeduplicateSpec) -> DeduplicateSpec:
    return DeduplicateSpec(spec.keys, spec.keep, spec.time_column, phase=RankPhase.LOCAL)


@given(specs, rows_strategy, cuts_strategy, st.integers(0, 6), st.sampled_from([RETRACT, UPSERT]))
@example(DeduplicateSpec((), Keep.FIRST, 2), [("a", 1, 0, "x")] * 2, [1], 1, RETRACT)
@settings(max_examples=60, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    spec: DeduplicateSpec, rows: list[Row], cuts: list[int], at: int, mode: ChangelogMode
) -> None:
    output = run_moved(spec, context_of(spec, mode), cut(rows, cuts), at, [spec.keys])
    assert table_of(spec, output, mode) == reference(spec, rows)


@given(rows_strategy, cuts_strategy)
@settings(max_examples=40, deadline=None)
def test_first_by_processing_time_only_inserts(rows: list[Row], cuts: list[int]) -> None:
    spec = DeduplicateSpec((0,), Keep.FIRST, -1)
    output = run_operator(spec, context_of(spec, APPEND), cut(rows, cuts))
    assert output.table(spec.keys) == reference(spec, rows)


A1, A2, A3 = ("a", 1, 1, "x"), ("a", 1, 2, "y"), ("a", 1, 2, "z")


@pytest.mark.parametrize(
    ("keep", "time", "mode", "expected"),
    [
        (Keep.LAST, 2, RETRACT, [("+I", *A2), ("-U", *A2), ("+U", *A3)]),
        (Keep.LAST, 2, UPSERT, [("+I", *A2), ("+U", *A3)]),
        (Keep.FIRST, 2, RETRACT, [("+I", *A2), ("-U", *A2), ("+U", *A1)]),
        (Keep.LAST, -1, RETRACT, [("+I", *A2), ("-U", *A2), ("+U", *A1), ("-U", *A1), ("+U", *A3)]),
        (Keep.FIRST, -1, RETRACT, [("+I", *A2)]),
    ],
)
def test_a_better_row_replaces_the_one_before(
    keep: Keep, time: int, mode: ChangelogMode, expected: list[Row]
) -> None:
    spec = DeduplicateSpec((0,), keep, time)
    assert run_operator(spec, context_of(spec, mode), [[A2], [A1], [A3]]).rows == expected


def test_of_one_batch_only_the_best_row_goes_out_after_what_it_replaces() -> None:
    spec = DeduplicateSpec((0,), Keep.LAST, 2, outputs_rank=True)
    b1, b2 = ("b", 1, 1, None), ("b", 1, 5, "x")
    output = run_operator(spec, context_of(spec, RETRACT), [[b1, A1], [A2, b2, A3]])
    assert output.rows[:2] == [("+I", *b1, 1), ("+I", *A1, 1)]
    assert Counter(output.rows[2:]) == Counter(
        [("-U", *A1, 1), ("+U", *A3, 1), ("-U", *b1, 1), ("+U", *b2, 1)]
    )
    for before, after in zip(output.rows[2::2], output.rows[3::2], strict=True):
        assert (before[0], after[0], before[1]) == ("-U", "+U", after[1])


def test_branches_of_a_union_may_name_their_columns_as_they_like() -> None:
    spec = DeduplicateSpec((0,), Keep.LAST, 2)
    other = batch(ROWS, [A2]).rename_columns(["a", "b", "c", "d"])
    output = run_operator(spec, context_of(spec, RETRACT), [[A1], other])
    assert output.rows == [("+I", *A1), ("-U", *A1), ("+U", *A2)]


@pytest.mark.parametrize("mode", [RETRACT, UPSERT])
def test_a_key_not_seen_for_its_ttl_is_new(mode: ChangelogMode) -> None:
    spec = DeduplicateSpec((0,), Keep.LAST, 2, state_ttl_ms=100)
    operator = make_operator(spec, context_of(spec, mode, now_ms=ManualClock(1_000)))
    output = Collected()
    feed(operator, [[A3], Clock(1_060), [A1], Clock(1_150)], output)
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 1
    feed(operator, [Clock(1_160), [A1]], output)
    assert output.rows == [("+I", *A3), ("+I", *A1)]
    feed(operator, [Clock(9_000)], output)
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 0


def test_keys_that_expire_are_counted() -> None:
    counts: Counter[str] = Counter()
    spec = DeduplicateSpec((0,), Keep.LAST, 2, state_ttl_ms=100)
    context = context_of(
        spec, RETRACT, now_ms=ManualClock(1_000), count=lambda name, n: counts.update({name: n})
    )
    feed(make_operator(spec, context), [[A1], Clock(1_050), Clock(9_000)], Collected())
    assert +counts == {"numStateEntriesExpired": 1}


@pytest.mark.parametrize("mode", [RETRACT, UPSERT])
def test_a_key_that_has_expired_is_new_although_no_timer_was_called(mode: ChangelogMode) -> None:
    clock = ManualClock(1_000)
    spec = DeduplicateSpec((0,), Keep.LAST, 2, state_ttl_ms=100)
    operator, output = make_operator(spec, context_of(spec, mode, now_ms=clock)), Collected()
    feed(operator, [[A3]], output)
    clock.now_ms = 1_100
    feed(operator, [[A1]], output)
    assert output.rows == [("+I", *A3), ("+I", *A1)]


@pytest.mark.parametrize("keys", [(0,), ()])
def test_what_was_kept_and_when_it_was_touched_is_known_after_a_restore(keys: tuple[int, ...]) -> None:
    spec = DeduplicateSpec(keys, Keep.LAST, 2, state_ttl_ms=100)
    before = make_operator(spec, context_of(spec, RETRACT, now_ms=ManualClock(1_000)))
    late = ("a", 1, 5_000, "late")
    feed(before, [[late]], Collected())
    after = make_operator(spec, context_of(spec, RETRACT, now_ms=ManualClock(1_050)))
    restore(after, before.context.state.snapshot())
    output = Collected()
    feed(after, [[A3], [("a", 1, 5_000, "equal")]], output)
    assert output.rows == [("-U", *late), ("+U", "a", 1, 5_000, "equal")]
    assert after.context.state.next_sweep_ms is not None
    assert after.context.state.snapshot().keyed["rows"].num_rows == 1
    feed(after, [Clock(1_150)], output)
    assert after.context.state.snapshot().keyed["rows"].num_rows == 0


def test_the_order_of_arrival_goes_on_after_a_restore() -> None:
    spec = DeduplicateSpec((0,), Keep.LAST, -1)
    before = make_operator(spec, context_of(spec, RETRACT))
    feed(before, [[("b", 1, 1, "x")] * 3 + [A1]], Collected())
    after, output = make_operator(spec, context_of(spec, RETRACT)), Collected()
    restore(after, before.context.state.snapshot())
    feed(after, [[A2]], output)
    assert output.rows == [("-U", *A1), ("+U", *A2)]
    first = DeduplicateSpec((0,), Keep.FIRST, -1)
    fresh, output = make_operator(first, context_of(first, RETRACT)), Collected()
    restore(fresh, before.context.state.snapshot())
    feed(fresh, [[A2]], output)
    assert output.rows == []


def test_the_time_may_be_the_first_column() -> None:
    rows = Schema.of(("t", sql.timestamp(3)), ("key", sql.STRING))
    spec = DeduplicateSpec((1,), Keep.FIRST, 0)
    output = run_operator(
        spec, operator_context([rows], rows, output_mode=UPSERT), [[(5, "a"), (3, "a")], [(4, "a")]]
    )
    assert output.rows == [("+I", 3, "a")]
