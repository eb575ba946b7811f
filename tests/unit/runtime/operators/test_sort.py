"""ORDER BY over bounded input equals a stable sort of what the input leaves."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from changelog_harness import changelogs, cut, cuts_strategy, final_rows, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, Row, batch, feed, finish, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.order import sort
from sqlstream.schema import Schema
from sqlstream.specs import SortSpec

ROWS = Schema.of(("n", sql.BIGINT), ("name", sql.STRING), ("flag", sql.BOOLEAN), ("score", sql.DOUBLE))
RETRACT = ChangelogMode.RETRACT
CONTEXT = operator_context([ROWS], ROWS)
CHANGES = operator_context([ROWS], ROWS, input_modes=[RETRACT])
rows_strategy = st.tuples(
    st.sampled_from([0, 1, 2, None]),
    st.sampled_from(["x", "yy", None]),
    st.sampled_from([True, False, None]),
    st.sampled_from([-1.5, 0.0, 2.0, None]),
)
orders = st.lists(
    st.builds(SortKey, column=st.integers(0, 3), is_descending=st.booleans(), is_nulls_first=st.booleans()),
    max_size=3, unique_by=lambda k: k.column,
).map(tuple)  # fmt: skip
specs = st.builds(SortSpec, orders, st.sampled_from([0, 1, 5]), st.sampled_from([-1, 0, 1, 4]))


def sorted_rows(spec: SortSpec, rows: list[Row]) -> list[Row]:
    for key in reversed(spec.order):
        nulls = [r for r in rows if r[key.column] is None]
        present = [r for r in rows if r[key.column] is not None]
        present.sort(key=lambda r: r[key.column], reverse=key.is_descending)
        rows = nulls + present if key.is_nulls_first else present + nulls
    return rows[spec.offset : None if spec.fetch < 0 else spec.offset + spec.fetch]


@given(specs, st.lists(rows_strategy, max_size=40), cuts_strategy, st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_rows_come_out_in_order_ties_in_order_of_arrival(
    spec: SortSpec, rows: list[Row], cuts: list[int], at: int
) -> None:
    assert run_operator(spec, CONTEXT, cut(rows, cuts)).rows == sorted_rows(spec, rows)
    assert run_moved(spec, CONTEXT, cut(rows, cuts), at, [()]).rows == sorted_rows(spec, rows)


@given(specs, changelogs(rows_strategy), cuts_strategy, st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_only_rows_that_are_left_come_out(spec: SortSpec, log: list[Row], cuts: list[int], at: int) -> None:
    for output in (
        run_operator(spec, CHANGES, cut(log, cuts)),
        run_moved(spec, CHANGES, cut(log, cuts), at, [()]),
    ):
        left = final_rows(log)
        order = [[row[k.column] for k in spec.order] for row in sorted_rows(spec, left)]
        assert [[row[k.column] for k in spec.order] for row in output.rows] == order
        assert not Counter(output.rows) - Counter(left)


@given(specs, st.lists(rows_strategy, max_size=60))
@settings(max_examples=40, deadline=None)
def test_throwing_away_what_cannot_be_fetched_changes_nothing(spec: SortSpec, rows: list[Row]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sort, "_PRUNE_ROWS_MIN", 2)
        assert run_operator(spec, CONTEXT, [[row] for row in rows]).rows == sorted_rows(spec, rows)


def test_with_fetch_only_rows_that_can_be_fetched_are_kept() -> None:
    spec = SortSpec((SortKey(0, True, False),), 0, 3)
    operator, output = make_operator(spec, CONTEXT), Collected()
    for start in range(0, 1_000_000, 100_000):
        part = batch(ROWS, [(n, None, None, None) for n in range(start, start + 100_000, 50)])
        feed(operator, [pa.concat_batches([part] * 50)], output)
    assert operator.context.state.nbytes() < 20_000_000
    finish(operator, output)
    assert [row[0] for row in output.rows] == [999_950] * 3


def test_not_a_number_is_greater_than_every_number_in_both_directions() -> None:
    rows = [(n, None, None, score) for n, score in enumerate([float("nan"), 1.0, None, -1.0])]
    for is_descending, expected in ((False, [3, 1, 0, 2]), (True, [0, 1, 3, 2])):
        spec = SortSpec((SortKey(3, is_descending, False),))
        assert [row[0] for row in run_operator(spec, CONTEXT, [rows]).rows] == expected


def test_changes_of_rows_with_nested_columns_are_sorted() -> None:
    schema = Schema.of(("n", sql.BIGINT), ("tags", sql.map_of(sql.STRING, sql.INT)))
    context = operator_context([schema], schema, input_modes=[ChangelogMode.RETRACT])
    assert make_operator(SortSpec((SortKey(0),)), context) is not None
