"""Top-N equals sorting all rows of each key, with ties in order of arrival."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from typing import Any

import msgspec
import pytest
from changelog_harness import cut, cuts_strategy, run_handed_over, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, Row, feed, operator_context, restore, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Field, Schema
from sqlstream.specs import RankPhase, RankSpec

ROWS = Schema.of(
    ("key", sql.STRING),
    ("n", sql.BIGINT),
    ("name", sql.STRING),
    ("score", sql.DOUBLE),
    ("flag", sql.BOOLEAN),
    ("id", sql.INT),
)
RANKED = Schema((*ROWS.fields, Field("rank", sql.BIGINT)))
RETRACT, UPSERT, APPEND = ChangelogMode.RETRACT, ChangelogMode.UPSERT, ChangelogMode.INSERT_ONLY
row_strategy = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, -(2**63), 2**63 - 1, None]),
    st.sampled_from(["x", "yy", "é", None]),
    st.sampled_from([-1.5, 0.0, -0.0, 2.0, None]),
    st.sampled_from([True, False, None]),
    st.integers(0, 3),
)
sort_keys = st.builds(
    SortKey, column=st.integers(1, 4), is_descending=st.booleans(), is_nulls_first=st.booleans()
)
orders = st.one_of(
    st.tuples(sort_keys), st.lists(sort_keys, min_size=1, max_size=3, unique_by=lambda k: k.column).map(tuple)
)
ranges = st.sampled_from([(1, 1), (1, 2), (1, 5), (2, 4), (3, 3)])


@st.composite
def specs(draw: st.DrawFn, is_retracting: bool = False) -> RankSpec:
    start, end = draw(ranges)
    keys = draw(st.sampled_from([(0,), (), (0, 4)]))
    return RankSpec(keys, draw(orders), start, end, draw(st.booleans()), is_retracting=is_retracting)


def sorted_rows(order: tuple[SortKey, ...], rows: list[Row]) -> list[Row]:
    """By the least significant column first: Python's sort keeps the order of equal items, in reverse too."""
    for key in reversed(order):
        nulls = [r for r in rows if r[key.column] is None]
        present = [r for r in rows if r[key.column] is not None]
        present.sort(key=lambda r: r[key.column], reverse=key.is_descending)
        rows = nulls + present if key.is_nulls_first else present + nulls
    return rows


def reference(spec: RankSpec, rows: list[Row]) -> Counter[Row]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[k] for k in spec.partition_keys)].append(row)
    result: Counter[Row] = Counter()
    for members in groups.values():
        for rank, row in enumerate(sorted_rows(spec.order, members), 1):
            if spec.rank_start <= rank <= spec.rank_end:
                result[(*row, rank) if spec.outputs_rank else row] += 1
    return result


def context_of(spec: RankSpec, mode: ChangelogMode, **others: Any) -> Any:
    schema = RANKED if spec.outputs_rank else ROWS
    input_mode = RETRACT if spec.is_retracting else APPEND
    return operator_context([ROWS], schema, input_modes=[input_mode], output_mode=mode, **others)


def table_of(spec: RankSpec, output: Collected, mode: ChangelogMode) -> Counter[Row]:
    if mode is UPSERT:
        return Counter(output.upserted([*spec.partition_keys, 6]).values())
    return output.table()


def mode_of(spec: RankSpec, wanted: ChangelogMode) -> ChangelogMode:
    """Only ranks that go out make a key by which rows can replace others."""
    return wanted if spec.outputs_rank else RETRACT


@given(
    specs(),
    st.lists(row_strategy, max_size=40),
    cuts_strategy,
    st.sampled_from([RETRACT, UPSERT]),
    st.sampled_from(["one phase", "two tasks", "one task"]),
)
@settings(max_examples=200, deadline=None)
def test_rows_that_only_come_give_the_batch_answer(
    spec: RankSpec, rows: list[Row], cuts: list[int], wanted: ChangelogMode, phases: str
) -> None:
    mode, batches = mode_of(spec, wanted), list[Any](cut(rows, cuts))
    if phases != "one phase":
        local = RankSpec(spec.partition_keys, spec.order, 1, spec.rank_end, False, RankPhase.LOCAL)
        context = operator_context([ROWS], ROWS, feeds_global_phase=phases == "one task")
        batches = run_operator(local, context, batches).batches
    output = run_operator(spec, context_of(spec, mode), batches)
    assert table_of(spec, output, mode) == reference(spec, rows)


@given(
    specs(),
    st.lists(row_strategy, max_size=40),
    cuts_strategy,
    st.integers(0, 6),
    st.sampled_from([RETRACT, UPSERT]),
)
@settings(max_examples=80, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    spec: RankSpec, rows: list[Row], cuts: list[int], at: int, wanted: ChangelogMode
) -> None:
    mode = mode_of(spec, wanted)
    output = run_moved(spec, context_of(spec, mode), cut(rows, cuts), at, [spec.partition_keys])
    assert table_of(spec, output, mode) == reference(spec, rows)


@given(
    specs(),
    st.lists(row_strategy, max_size=40),
    cuts_strategy,
    st.sets(st.integers(0, 2)),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([RETRACT, UPSERT]),
)
@settings(max_examples=80, deadline=None)
def test_rows_wait_for_the_end_of_histories_and_are_emitted_once_whichever_subtasks_knew_of_it(
    spec: RankSpec,
    rows: list[Row],
    cuts: list[int],
    early: set[int],
    moved: int,
    over: int,
    wanted: ChangelogMode,
) -> None:
    spec, mode = msgspec.structs.replace(spec, holds_history=True), mode_of(spec, wanted)
    parts, keys = cut(rows, cuts), spec.partition_keys
    output = run_handed_over(spec, context_of(spec, mode), parts, keys, early, moved, over)
    assert table_of(spec, output, mode) == reference(spec, rows)


def test_of_rows_that_are_held_those_are_emitted_that_rank_in_the_end() -> None:
    spec = RankSpec((0,), (SortKey(1, True, False),), 1, 2, True, holds_history=True)
    operator, output = make_operator(spec, context_of(spec, RETRACT)), Collected()
    feed(operator, [[row("a", 1)], [row("a", 3), row("b", 0)], [row("a", 2)]], output)
    assert operator.on_watermark(5, output) == 5
    assert sorted((kind, r[0], r[1], r[-1]) for kind, *r in output.rows) == [
        ("+I", "a", 2, 2),
        ("+I", "a", 3, 1),
        ("+I", "b", 0, 1),
    ]


DESCENDING = (SortKey(1, True, False),)


def row(key: str | None, n: int | None, name: str | None = None) -> Row:
    return (key, n, name, None, None, 0)


def test_a_rank_is_replaced_and_an_evicted_row_goes() -> None:
    spec = RankSpec((0,), DESCENDING, 1, 2, True)
    batches = [[row("a", 1)], [row("a", 3)], [row("a", 2)], [row("a", 2, "tie")], [row("a", 0)]]
    assert run_operator(spec, context_of(spec, RETRACT), batches).rows == [
        ("+I", *row("a", 1), 1),
        ("-U", *row("a", 1), 1), ("+U", *row("a", 3), 1), ("+I", *row("a", 1), 2),
        ("-U", *row("a", 1), 2), ("+U", *row("a", 2), 2),
    ]  # fmt: skip
    assert run_operator(spec, context_of(spec, UPSERT), batches).rows == [
        ("+I", *row("a", 1), 1),
        ("+U", *row("a", 3), 1), ("+I", *row("a", 1), 2),
        ("+U", *row("a", 2), 2),
    ]  # fmt: skip


def test_without_ranks_only_rows_that_enter_or_leave_go_out() -> None:
    spec = RankSpec((0,), DESCENDING, 1, 2, False)
    batches = [[row("a", 1)], [row("a", 3)], [row("a", 2)], [row("a", 4), row("a", 5)]]
    assert run_operator(spec, context_of(spec, RETRACT), batches).rows == [
        ("+I", *row("a", 1)),
        ("+I", *row("a", 3)),
        ("-D", *row("a", 1)), ("+I", *row("a", 2)),
        ("-D", *row("a", 3)), ("-D", *row("a", 2)), ("+I", *row("a", 5)), ("+I", *row("a", 4)),
    ]  # fmt: skip


def test_a_row_pushed_out_of_the_shown_ranks_from_above_leaves_and_one_pushed_in_enters() -> None:
    spec = RankSpec((0,), DESCENDING, 2, 2, False)
    batches = [[row("a", 1)], [row("a", 3)], [row("a", 2)]]
    assert run_operator(spec, context_of(spec, RETRACT), batches).rows == [
        ("+I", *row("a", 1)), ("-D", *row("a", 1)), ("+I", *row("a", 2))
    ]  # fmt: skip


def test_equal_rows_rank_in_order_of_arrival() -> None:
    spec = RankSpec((0,), DESCENDING, 1, 2, True)
    rows = [row("a", 1, name) for name in ("first", "second", "third")]
    for cuts in ([], [1], [1, 2]):
        output = run_operator(spec, context_of(spec, RETRACT), cut(rows, cuts))
        assert output.table() == Counter([(*rows[0], 1), (*rows[1], 2)])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (SortKey(1, False, False), [1, 2, None]),
        (SortKey(1, False, True), [None, 1, 2]),
        (SortKey(1, True, False), [2, 1, None]),
        (SortKey(1, True, True), [None, 2, 1]),
    ],
)
def test_null_has_its_own_place(key: SortKey, expected: list[int | None]) -> None:
    spec = RankSpec((), (key,), 1, 3, True)
    output = run_operator(spec, context_of(spec, RETRACT), [[row("a", 2), row("a", None), row("a", 1)]])
    assert [r[1] for r in sorted(output.table(), key=lambda r: r[-1])] == expected


def test_a_key_untouched_for_its_ttl_starts_anew() -> None:
    spec = RankSpec((0,), DESCENDING, 1, 2, True, state_ttl_ms=100)
    operator = make_operator(spec, context_of(spec, UPSERT, now_ms=ManualClock(1_000)))
    output = Collected()
    feed(
        operator,
        [[row("a", 5)], Clock(1_050), [row("b", 1)], Clock(1_120), [row("a", 1), row("b", 2)]],
        output,
    )
    assert output.rows[2:] == [("+I", *row("a", 1), 1), ("+U", *row("b", 2), 1), ("+I", *row("b", 1), 2)]
    moved = make_operator(spec, dataclasses.replace(operator.context))
    restore(moved, operator.context.state.snapshot())
    assert moved.context.state.next_sweep_ms == 1_220
    feed(operator, [Clock(9_000)], output)
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 0


def test_without_keys_the_whole_list_expires() -> None:
    spec = RankSpec((), DESCENDING, 1, 2, True, state_ttl_ms=100)
    operator = make_operator(spec, context_of(spec, RETRACT, now_ms=ManualClock(1_000)))
    output = Collected()
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 0
    feed(operator, [[row("a", 5)], Clock(1_200), [row("b", 1)]], output)
    assert output.rows == [("+I", *row("a", 5), 1), ("+I", *row("b", 1), 1)]


def test_a_list_that_no_row_has_come_to_is_saved_as_no_rows() -> None:
    spec = RankSpec((), DESCENDING, 1, 2, True, state_ttl_ms=100)
    operator = make_operator(spec, context_of(spec, RETRACT, now_ms=ManualClock(1_000)))
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 0


def test_many_keys_and_evictions_reuse_the_memory_of_rows() -> None:
    spec = RankSpec((0,), DESCENDING, 1, 2, True)
    operator, output = make_operator(spec, context_of(spec, UPSERT)), Collected()
    rows = [row(f"k{n % 50}", n) for n in range(20_000)]
    feed(operator, cut(rows, list(range(0, 20_000, 500))), output)
    assert Counter(output.upserted([0, 6]).values()) == reference(spec, rows)
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 100


def test_memory_is_at_most_twice_that_of_the_rows_kept_when_one_row_of_each_batch_stays() -> None:
    """Of each batch all rows but one are replaced by the next batch."""
    keys, batches, text = 500, 200, "t" * 100
    spec = RankSpec((0,), DESCENDING, 1, 1, True)
    operator, output = make_operator(spec, context_of(spec, UPSERT)), Collected()
    for turn in range(batches):
        feed(
            operator,
            [[row(f"{n}", turn, text) for n in range(1, keys)] + [row(f"b{turn}", turn, text)]],
            output,
        )
    held = operator.context.state.snapshot().keyed["rows"]
    assert held.num_rows == keys - 1 + batches
    assert sorted(held.column("n").to_pylist())[: batches - 1] == list(range(batches - 1))
    assert operator.context.state.nbytes() <= 2 * held.nbytes + 250_000
    assert keys * batches * len(text) > 20 * (2 * held.nbytes + 250_000)
