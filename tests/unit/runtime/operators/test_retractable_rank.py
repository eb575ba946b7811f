"""Top-N over a changelog equals sorting what the changelog leaves of each key."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from changelog_harness import changelogs, cut, cuts_strategy, final_rows, run_handed_over, run_moved
from hypothesis import example, given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, Row, feed, operator_context, restore, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.rank import retractable_rank
from sqlstream.schema import Field, Schema
from sqlstream.specs import RankSpec
from sqlstream.specs.rank import Ties

ROWS = Schema.of(("key", sql.STRING), ("n", sql.BIGINT), ("name", sql.STRING))
RANKED = Schema((*ROWS.fields, Field("rank", sql.BIGINT)))
RETRACT, UPSERT = ChangelogMode.RETRACT, ChangelogMode.UPSERT
rows = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from(["x", "a longer name", None]),
)
orders = st.lists(
    st.builds(SortKey, column=st.integers(1, 2), is_descending=st.booleans(), is_nulls_first=st.booleans()),
    min_size=1, max_size=2, unique_by=lambda k: k.column,
).map(tuple)  # fmt: skip
specs = st.builds(
    lambda keys, order, ranks, outputs_rank: RankSpec(
        keys, order, ranks[0], ranks[1], outputs_rank, is_retracting=True
    ),
    st.sampled_from([(0,), ()]), orders, st.sampled_from([(1, 1), (1, 3), (2, 4)]), st.booleans(),
)  # fmt: skip


def context_of(spec: RankSpec, mode: ChangelogMode) -> Any:
    schema = RANKED if spec.outputs_rank else ROWS
    return operator_context([ROWS], schema, input_modes=[RETRACT], output_mode=mode)


def order_values(spec: RankSpec, row: Row) -> tuple[object, ...]:
    return tuple(row[k.column] for k in spec.order)


def reference(spec: RankSpec, live: list[Row]) -> Counter[Row]:
    """The order values at each rank: which of the rows with equal order values rank depends on when each came last."""
    groups: dict[Row, list[Row]] = {}
    for row in live:
        groups.setdefault(tuple(row[k] for k in spec.partition_keys), []).append(row)
    result: Counter[Row] = Counter()
    for key, members in groups.items():
        for sort_key in reversed(spec.order):
            nulls = [r for r in members if r[sort_key.column] is None]
            present = [r for r in members if r[sort_key.column] is not None]
            present.sort(key=lambda r: r[sort_key.column], reverse=sort_key.is_descending)
            members = nulls + present if sort_key.is_nulls_first else present + nulls
        for rank, row in enumerate(members, 1):
            if spec.rank_start <= rank <= spec.rank_end:
                result[(key, order_values(spec, row), rank if spec.outputs_rank else 0)] += 1
    return result


def seen(spec: RankSpec, table: Counter[Row]) -> Counter[Row]:
    result: Counter[Row] = Counter()
    for row, count in table.items():
        key = tuple(row[k] for k in spec.partition_keys)
        result[(key, order_values(spec, row), row[3] if spec.outputs_rank else 0)] += count
    return result


def table_of(spec: RankSpec, output: Collected, mode: ChangelogMode) -> Counter[Row]:
    if mode is UPSERT:
        return Counter(output.upserted([*spec.partition_keys, 3]).values())
    return output.table()


@given(specs, changelogs(rows), cuts_strategy, st.sampled_from([RETRACT, UPSERT]))
@settings(max_examples=150, deadline=None)
def test_rows_that_are_taken_back_leave_no_trace(
    spec: RankSpec, log: list[Row], cuts: list[int], wanted: ChangelogMode
) -> None:
    mode = wanted if spec.outputs_rank else RETRACT
    output = run_operator(spec, context_of(spec, mode), cut(log, cuts))
    table = table_of(spec, output, mode)
    assert seen(spec, table) == reference(spec, final_rows(log))
    assert not Counter(r[:3] for r in table.elements()) - Counter(final_rows(log))


@given(specs, changelogs(rows), cuts_strategy, st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    spec: RankSpec, log: list[Row], cuts: list[int], at: int
) -> None:
    output = run_moved(spec, context_of(spec, RETRACT), cut(log, cuts), at, [spec.partition_keys])
    assert seen(spec, output.table()) == reference(spec, final_rows(log))


@given(
    specs,
    changelogs(rows),
    cuts_strategy,
    st.sets(st.integers(0, 2)),
    st.integers(0, 5),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_rows_wait_for_the_end_of_histories_and_are_emitted_once_whichever_subtasks_knew_of_it(
    spec: RankSpec, log: list[Row], cuts: list[int], early: set[int], moved: int, over: int
) -> None:
    spec = msgspec.structs.replace(spec, holds_history=True)
    parts, keys = cut(log, cuts), spec.partition_keys
    output = run_handed_over(spec, context_of(spec, RETRACT), parts, keys, early, moved, over)
    assert seen(spec, output.table()) == reference(spec, final_rows(log))


ASCENDING = (SortKey(1, False, False),)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows_in_order_from", [retractable_rank._MANY_ROWS, 0, 7])
def test_lists_are_right_after_every_batch_however_their_rows_come_and_go(
    seed: int, rows_in_order_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retractable_rank, "_MANY_ROWS", rows_in_order_from)
    monkeypatch.setattr(retractable_rank, "_ROWS_READ_FOR_A_PLACE", 0)
    rng = random.Random(seed)
    spec = RankSpec((0,), ASCENDING, 1, 3, True, is_retracting=True)
    operator, output = make_operator(spec, context_of(spec, RETRACT)), Collected()
    live: list[Row] = []
    for _ in range(60):
        log: list[Row] = []
        for _ in range(rng.randint(1, 6)):
            best = sorted(live, key=lambda r: r[1])[:6]
            if best and rng.random() < 0.6:
                gone = rng.choice(best if rng.random() < 0.7 else live)
                live.remove(gone)
                log.append(("-D", *gone))
            for _ in range(rng.randint(0, 2)):
                live.append((rng.choice("ab"), rng.randint(0, 30), rng.choice("xy")))
                log.append(("+I", *live[-1]))
        feed(operator, [log] if log else [], output)
        assert seen(spec, output.table()) == reference(spec, live)
        if rng.random() < 0.1:
            snapshot = operator.context.state.snapshot()
            operator = make_operator(spec, context_of(spec, RETRACT))
            restore(operator, snapshot)


def test_a_key_whose_best_rows_go_one_after_the_other_reads_all_its_rows_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = RankSpec((0,), ASCENDING, 1, 3, True, is_retracting=True)
    operator, output = make_operator(spec, context_of(spec, RETRACT)), Collected()
    live = [("a", n, "x") for n in range(10_000)]
    feed(operator, [[("+I", *row) for row in live]], output)
    read: list[int] = []
    match = operator._table.match  # type: ignore[attr-defined]
    monkeypatch.setattr(operator._table, "match", lambda keys: (read.append(len(keys)), match(keys))[1])  # type: ignore[attr-defined]
    for row in live[:20]:
        feed(operator, [[("-D", *row)]], output)
    assert seen(spec, output.table()) == reference(spec, live[20:])
    # Once more to put them in order.
    assert len(read) == 3


@example(
    [("+I", "a", None, None), ("+I", "a", 0, "x"), ("-U", "a", None, None), ("+U", "a", None, None)],
    [2],
    Ties.LONGEST,
    -1,
)
@given(changelogs(rows), cuts_strategy, st.sampled_from([Ties.LONGEST, Ties.LAST]), st.integers(-1, 6))
@settings(max_examples=150, deadline=None)
def test_ties_are_decided_as_if_each_row_came_alone(
    log: list[Row], cuts: list[int], ties: Ties, moves_at: int
) -> None:
    spec = RankSpec((0,), (), 1, 1, False, is_retracting=True, ties=ties)
    batches = cut(log, cuts)
    if moves_at < 0:
        output = run_operator(spec, context_of(spec, RETRACT), batches)
    else:
        output = run_moved(spec, context_of(spec, RETRACT), batches, moves_at, [(0,)])
    counts: Counter[Row] = Counter()
    since: dict[Row, int] = {}
    for number, (kind, *values) in enumerate(log):
        row = tuple(values)
        is_added = kind in ("+I", "+U")
        counts[row] += 1 if is_added else -1
        if is_added and (ties is Ties.LAST or counts[row] == 1):
            since[row] = number
    expected: dict[object, Row] = {}
    for row in sorted(
        (r for r in counts if counts[r] > 0), key=lambda r: since[r], reverse=ties is Ties.LONGEST
    ):
        expected[row[0]] = row
    assert output.table() == Counter(expected.values())


def test_the_next_best_takes_the_place_of_a_row_that_is_taken_back() -> None:
    spec = RankSpec((0,), ASCENDING, 1, 2, True, is_retracting=True)
    log = [[("+I", "a", n, None) for n in (1, 2, 3)], [("-D", "a", 1, None)], [("-D", "a", 3, None)]]
    assert run_operator(spec, context_of(spec, RETRACT), log).rows == [
        ("+I", "a", 1, None, 1), ("+I", "a", 2, None, 2),
        ("-U", "a", 1, None, 1), ("+U", "a", 2, None, 1), ("-U", "a", 2, None, 2), ("+U", "a", 3, None, 2),
        ("-D", "a", 3, None, 2),
    ]  # fmt: skip


def test_equal_rows_take_a_rank_each() -> None:
    spec = RankSpec((0,), ASCENDING, 1, 3, True, is_retracting=True)
    log = [[("+I", "a", 1, "x")] * 2, [("+I", "a", 1, "x")] * 2, [("-D", "a", 1, "x")] * 2]
    output = run_operator(spec, context_of(spec, RETRACT), log)
    assert output.table() == Counter([("a", 1, "x", 1), ("a", 1, "x", 2)])


def test_a_row_taken_back_before_it_comes_vanishes_when_it_comes() -> None:
    spec = RankSpec((0,), ASCENDING, 1, 3, True, is_retracting=True)
    output = run_operator(spec, context_of(spec, RETRACT), [[("-D", "a", 1, "x")], [("+I", "a", 1, "x")]])
    assert output.rows == []


def test_a_key_is_forgotten_with_its_last_row() -> None:
    spec = RankSpec((0,), ASCENDING, 1, 3, True, is_retracting=True)
    operator, output = make_operator(spec, context_of(spec, RETRACT)), Collected()
    sizes = []
    for n in range(300):
        feed(operator, [[("+I", f"a longer key {n}", 1, "x")], [("-D", f"a longer key {n}", 1, "x")]], output)
        sizes.append(operator.context.state.nbytes())
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 0
    assert sizes[-1] == sizes[100]


def test_a_list_takes_as_much_memory_as_its_rows_however_many_ranks_there_may_be() -> None:
    sizes = []
    for ranks in (10, 10_000):
        spec = RankSpec((0,), ASCENDING, 1, ranks, True, is_retracting=True)
        operator = make_operator(spec, context_of(spec, RETRACT))
        feed(operator, [[("+I", f"key {n}", 1, "x") for n in range(100)]], Collected())
        sizes.append(operator.context.state.nbytes())
    assert sizes[0] == sizes[1]


def test_a_key_untouched_for_its_ttl_starts_anew() -> None:
    spec = RankSpec((0,), ASCENDING, 1, 3, True, is_retracting=True, state_ttl_ms=100)
    context = dataclasses.replace(context_of(spec, RETRACT), now_ms=ManualClock(1_000))
    first, output = make_operator(spec, context), Collected()
    feed(first, [[("+I", "a", 1, "x")], Clock(1_060), [("+I", "b", 1, "x")]], output)
    operator = make_operator(spec, context)
    restore(operator, first.context.state.snapshot())
    feed(operator, [Clock(1_110), [("+I", "a", 2, "x"), ("+I", "b", 2, "x")]], output)
    assert output.rows[2:] == [("+I", "a", 2, "x", 1), ("+I", "b", 2, "x", 2)]
    feed(operator, [Clock(9_000)], output)
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 0


def test_without_keys_the_whole_list_expires() -> None:
    spec = RankSpec((), ASCENDING, 1, 3, True, is_retracting=True, state_ttl_ms=100)
    context = dataclasses.replace(context_of(spec, RETRACT), now_ms=ManualClock(1_000))
    operator, output = make_operator(spec, context), Collected()
    feed(operator, [[("+I", "a", 1, "x")], Clock(1_200), [("+I", "a", 2, "x")]], output)
    assert output.rows[-1] == ("+I", "a", 2, "x", 1)


def test_more_ranks_than_ids_can_tell_apart_are_refused() -> None:
    spec = RankSpec((0,), ASCENDING, 1, 1 << 16, True, is_retracting=True)
    with pytest.raises(UserError, match="at most 65535 ranks"):
        make_operator(spec, context_of(spec, RETRACT))
