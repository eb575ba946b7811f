"""Rows per element of a collection, against a row-at-a-time reference."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, batch, operator_context, run_operator

from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.unnest import ROWS_MAX
from sqlstream.schema import Schema
from sqlstream.specs.calc import UnnestSpec
from sqlstream.types import INT, STRING, array, multiset, row

ELEMENTS = st.lists(st.integers(0, 9) | st.none(), max_size=4)
ROWS = st.lists(st.tuples(st.integers(0, 9), ELEMENTS | st.none()), max_size=5)
INPUT = Schema.of(("id", INT), ("a", array(INT)))
RETRACT = ChangelogMode.RETRACT


def reference(rows: list[Any], is_outer: bool, has_ordinality: bool) -> list[Any]:
    found = []
    for id, elements in rows:
        numbered = [(e, i) for i, e in enumerate(elements or [], 1)] or ([(None, None)] if is_outer else [])
        found += [(id, e, i) if has_ordinality else (id, e) for e, i in numbered]
    return found


@given(st.lists(ROWS, max_size=3), st.booleans(), st.booleans())
@settings(deadline=None)
def test_each_element_is_a_row_however_rows_are_cut_into_batches(
    batches: list[Any], is_outer: bool, has_ordinality: bool
) -> None:
    output = Schema.of(("id", INT), ("e", INT), *([("i", INT)] if has_ordinality else []))
    spec = UnnestSpec(1, (0,), is_outer, has_ordinality)
    found = run_operator(spec, operator_context([INPUT], output), batches)
    rows = [each for rows in batches for each in rows]
    assert found.rows == reference(rows, is_outer, has_ordinality)


@given(ROWS, st.integers(0, 5), st.integers(0, 5))
@settings(deadline=None)
def test_a_slice_of_a_batch_has_its_own_elements(rows: list[Any], start: int, length: int) -> None:
    context = operator_context([INPUT], Schema.of(("id", INT), ("e", INT), ("i", INT)))
    output = Collected()
    operator = make_operator(UnnestSpec(1, (0,), True, True), context)
    operator.on_batch(batch(INPUT, rows).slice(start, length), 0, output)
    assert output.rows == reference(rows[start : start + length], True, True)


def test_what_lies_behind_a_null_is_no_element() -> None:
    values, offsets = pa.array([1, 2, 3], pa.int32()), pa.array([0, 2, 3], pa.int32())
    type_ = pa.list_(pa.field("element", pa.int32()))
    arrays = pa.ListArray.from_arrays(offsets, values, type=type_, mask=pa.array([True, False]))
    context = operator_context([INPUT], Schema.of(("id", INT), ("e", INT)))
    output = Collected()
    made = pa.RecordBatch.from_arrays([pa.array([7, 8], pa.int32()), arrays], names=["id", "a"])
    make_operator(UnnestSpec(1, (0,)), context).on_batch(made, 0, output)
    assert output.rows == [(8, 3)]


def test_the_fields_of_a_row_are_columns_and_null_where_it_is_null() -> None:
    source = Schema.of(("id", INT), ("a", array(row(("x", INT), ("y", STRING)))))
    context = operator_context([source], Schema.of(("id", INT), ("x", INT), ("y", STRING)))
    rows = [(1, [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]), (2, [])]
    output = run_operator(UnnestSpec(1, (0,), is_outer=True), context, [rows])
    assert output.rows == [(1, 1, "a"), (1, None, None), (1, None, "b"), (2, None, None)]


def test_a_multiset_has_each_element_as_often_as_it_occurs() -> None:
    source = Schema.of(("id", INT), ("a", multiset(STRING)))
    context = operator_context([source], Schema.of(("e", STRING), ("i", INT)))
    rows = [(1, {"a": 2, "b": 1}), (2, None), (3, {}), (4, {"c": 1})]
    inner = run_operator(UnnestSpec(1, (), has_ordinality=True), context, [rows])
    assert inner.rows == [("a", 1), ("a", 2), ("b", 3), ("c", 1)]
    context = operator_context([source], Schema.of(("id", INT), ("e", STRING), ("i", INT)))
    outer = run_operator(UnnestSpec(1, (0,), True, True), context, [rows])
    assert outer.rows == [
        (1, "a", 1),
        (1, "a", 2),
        (1, "b", 3),
        (2, None, None),
        (3, None, None),
        (4, "c", 1),
    ]


def test_rows_keep_their_kinds_and_an_update_one_element_for_another() -> None:
    context = operator_context(
        [INPUT], Schema.of(("id", INT), ("e", INT)), input_modes=[RETRACT], output_mode=RETRACT
    )
    rows = [
        ("-U", 1, [1, 2]),
        ("+U", 1, [3]),
        ("-D", 2, None),
        ("+I", 3, [4]),
        ("-U", 3, [4]),
        ("+U", 3, [5]),
    ]
    output = run_operator(UnnestSpec(1, (0,)), context, [batch(INPUT, rows, RETRACT)])
    updated = [("-U", 3, 4), ("+U", 3, 5)]
    assert output.rows == [("-D", 1, 1), ("-D", 1, 2), ("+I", 1, 3), ("+I", 3, 4), *updated]


def test_a_batch_that_is_emitted_is_bounded() -> None:
    context = operator_context([INPUT], Schema.of(("id", INT), ("e", INT)))
    count = ROWS_MAX // 2 + 1
    output = run_operator(UnnestSpec(1, (0,)), context, [[(i, list(range(count))) for i in range(2)]])
    assert [b.num_rows for b in output.batches] == [ROWS_MAX, 2]
    assert output.rows[-1] == (1, count - 1)
