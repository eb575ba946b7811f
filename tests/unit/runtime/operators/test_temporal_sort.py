"""ORDER BY time over rows that never end, against a row-at-a-time reference."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import operator_context, run_operator

from sqlstream.elements import Watermark
from sqlstream.expressions import SortKey
from sqlstream.schema import Schema
from sqlstream.specs.rank import TemporalSortSpec
from sqlstream.types import INT, timestamp

SCHEMA = Schema.of(("ts", timestamp(3)), ("v", INT))
ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3) | st.none()), max_size=5)
ITEMS = st.lists(ROWS | st.integers(0, 20).map(Watermark), max_size=8)
SPEC = TemporalSortSpec((SortKey(0), SortKey(1, is_descending=True, is_nulls_first=False)), time_column=0)


def reference(items: list[Any]) -> tuple[list[Any], int]:
    emitted: list[Any] = []
    waiting: list[Any] = []
    passed, late = -1, 0
    for item in items:
        if isinstance(item, Watermark):
            passed = max(passed, item.timestamp_ms)
            ready = [r for r in waiting if r[0] <= passed]
            waiting = [r for r in waiting if r[0] > passed]
            emitted += sorted(ready, key=lambda r: (r[0], r[1] is None, -(r[1] or 0)))
        else:
            late += sum(r[0] <= passed for r in item)
            waiting += [r for r in item if r[0] > passed]
    return emitted, late


@given(ITEMS)
@settings(deadline=None)
def test_rows_come_in_order_when_the_watermark_has_passed_them(items: list[Any]) -> None:
    late: list[int] = []
    context = operator_context([SCHEMA], SCHEMA, count=lambda name, n: late.append(n))
    output = run_operator(SPEC, context, [*items, Watermark(100)])
    assert (output.rows, sum(late)) == reference([*items, Watermark(100)])


def test_rows_by_processing_time_come_at_once_and_those_of_a_batch_by_the_other_columns() -> None:
    context = operator_context([SCHEMA], SCHEMA)
    output = run_operator(
        TemporalSortSpec((SortKey(1),)), context, [[(3, 2), (1, 1)], [(0, 5)], [(9, 0), (8, 7)]]
    )
    assert output.rows == [(1, 1), (3, 2), (0, 5), (9, 0), (8, 7)]
