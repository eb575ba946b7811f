"""Top-N of each window equals sorting the rows of each window and key."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from typing import Any

import pytest
from changelog_harness import cut, cuts_strategy, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, Row, feed, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.elements import Watermark
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.window import window_rank
from sqlstream.schema import Field, Schema
from sqlstream.specs import WindowRankSpec

TIME = sql.timestamp(3)
ROWS = Schema.of(
    ("key", sql.STRING), ("n", sql.BIGINT), ("name", sql.STRING), ("window_start", TIME), ("window_end", TIME)
)
RANKED = Schema((*ROWS.fields, Field("rank", sql.BIGINT)))
rows_strategy = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from(["x", "yy", None]),
    st.sampled_from([(0, 10), (0, 20), (10, 20), (20, 30)]),
).map(lambda r: (*r[:3], *r[3]))
orders = st.lists(
    st.builds(SortKey, column=st.integers(1, 2), is_descending=st.booleans(), is_nulls_first=st.booleans()),
    min_size=1, max_size=2, unique_by=lambda k: k.column,
).map(tuple)  # fmt: skip
specs = st.builds(
    lambda keys, order, ranks, outputs_rank: WindowRankSpec(
        keys, order, 3, 4, ranks[0], ranks[1], outputs_rank
    ),
    st.sampled_from([(0,), ()]), orders, st.sampled_from([(1, 1), (1, 3), (2, 4)]), st.booleans(),
)  # fmt: skip


def reference(spec: WindowRankSpec, rows: list[Row]) -> Counter[Row]:
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        groups[(row[3:5], *(row[k] for k in spec.partition_keys))].append(row)
    result: Counter[Row] = Counter()
    for members in groups.values():
        for key in reversed(spec.order):
            nulls = [r for r in members if r[key.column] is None]
            present = [r for r in members if r[key.column] is not None]
            present.sort(key=lambda r: r[key.column], reverse=key.is_descending)
            members = nulls + present if key.is_nulls_first else present + nulls
        for rank, row in enumerate(members, 1):
            if spec.rank_start <= rank <= spec.rank_end:
                result[(*row, rank) if spec.outputs_rank else row] += 1
    return result


def context_of(spec: WindowRankSpec) -> Any:
    return operator_context([ROWS], RANKED if spec.outputs_rank else ROWS)


def in_time(rows: list[Row], cuts: list[int]) -> list[Any]:
    """Batches, each behind the latest watermark that makes no later row late."""
    batches, items = cut(rows, cuts), list[Any]()
    for place, batch in enumerate(batches):
        items += [Watermark(min(row[4] for rest in batches[place:] for row in rest) - 2), batch]
    return items


@given(specs, st.lists(rows_strategy, max_size=40), cuts_strategy)
@settings(max_examples=100, deadline=None)
def test_the_best_rows_of_each_window_go_out(spec: WindowRankSpec, rows: list[Row], cuts: list[int]) -> None:
    assert run_operator(spec, context_of(spec), in_time(rows, cuts)).table() == reference(spec, rows)


@given(specs, st.lists(rows_strategy, max_size=40), cuts_strategy, st.integers(0, 12))
@settings(max_examples=50, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    spec: WindowRankSpec, rows: list[Row], cuts: list[int], at: int
) -> None:
    output = run_moved(spec, context_of(spec), in_time(rows, cuts), at, [spec.partition_keys])
    assert output.table() == reference(spec, rows)


@given(specs, st.lists(rows_strategy, max_size=60))
@settings(max_examples=40, deadline=None)
def test_throwing_away_what_cannot_rank_changes_nothing(spec: WindowRankSpec, rows: list[Row]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_rank, "_PRUNE_ROWS_MIN", 2)
        output = run_operator(spec, context_of(spec), [[row] for row in rows])
    assert output.table() == reference(spec, rows)


def test_rows_of_a_closed_window_come_best_first_and_late_rows_are_counted() -> None:
    counts: Counter[str] = Counter()
    spec = WindowRankSpec((0,), (SortKey(1, True, False),), 3, 4, 1, 2, True)
    context = dataclasses.replace(context_of(spec), count=lambda name, n: counts.update({name: n}))
    operator, output = make_operator(spec, context), Collected()
    rows = [("a", n, None, 0, 10) for n in (1, 3, 2)] + [("a", 9, None, 10, 20)]
    feed(operator, [rows, Watermark(8)], output)
    assert output.rows == []
    feed(operator, [Watermark(9), [("a", 7, None, 0, 10)]], output)
    assert output.rows == [("a", 3, None, 0, 10, 1), ("a", 2, None, 0, 10, 2)]
    assert counts == {"numLateRecordsDropped": 1}
    assert operator.context.state.snapshot().keyed["rows"].num_rows == 1
