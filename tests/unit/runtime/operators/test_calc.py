"""Calc, DropUpdateBefore, Limit and VALUES."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from expression_harness import call, col, lit
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import (
    Clock,
    Collected,
    ManualClock,
    batch,
    feed,
    operator_context,
    restored,
    rows_of,
    run_operator,
)

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MAX, Watermark, WatermarkStatus
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.values import values_batches
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, DropUpdateBeforeSpec, LimitSpec, ValuesSpec
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING

INPUT = Schema.of(("k", INT), ("v", BIGINT), ("name", STRING))
OUTPUT = Schema.of(("v2", BIGINT), ("name", STRING))
POSITIVE = call(">", col(1, BIGINT), lit(0, INT))
SPEC = CalcSpec((call("*", col(1, BIGINT), lit(2, BIGINT)), col(2, STRING)), POSITIVE)
RETRACT = ChangelogMode.RETRACT

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-5, 5) | st.none(), st.sampled_from("ab")), max_size=12
)


@given(st.lists(ROWS, max_size=4))
@settings(max_examples=50, deadline=None)
def test_rows_are_filtered_then_projected(batches: list[list[tuple[int, int | None, str]]]) -> None:
    output = run_operator(SPEC, operator_context([INPUT], OUTPUT), batches)
    assert output.rows == [(v * 2, n) for rows in batches for _, v, n in rows if v is not None and v > 0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["+I", "-D"]),
            st.integers(0, 3),
            st.integers(-5, 5) | st.none(),
            st.sampled_from("ab"),
        )
    )
)
@settings(max_examples=50, deadline=None)
def test_what_the_condition_computes_too_belongs_to_the_same_row(
    rows: list[tuple[str, int, int | None, str]],
) -> None:
    """UPPER(name) and v * 2 are in the condition; the kind of a row stays with it."""
    doubled, name = call("*", col(1, BIGINT), lit(2, BIGINT)), call("UPPER", col(2, STRING))
    condition = call("OR", call(">", doubled, lit(0, BIGINT)), call("=", name, lit("A", STRING)))
    spec = CalcSpec((call("+", doubled, lit(1, BIGINT)), call("||", name, col(2, STRING))), condition)
    context = operator_context([INPUT], OUTPUT, input_modes=[RETRACT], output_mode=RETRACT)
    output = run_operator(spec, context, [rows])
    kept = [(kind, v, n) for kind, _, v, n in rows if n == "a" or (v or 0) > 0]
    assert output.rows == [(kind, None if v is None else v * 2 + 1, n.upper() + n) for kind, v, n in kept]


ITEMS = st.lists(ROWS | st.integers(0, 9).map(Watermark) | st.integers(0, 400).map(Clock), max_size=8)


@given(ITEMS)
@settings(max_examples=150, deadline=None)
def test_what_a_filter_leaves_stays_in_order_before_the_watermarks_that_came_later(items: list[Any]) -> None:
    """`elements` is the one order in which rows and watermarks go on; clocks decide only how rows are put together."""
    output = run_operator(SPEC, operator_context([INPUT], OUTPUT, now_ms=ManualClock()), items)
    seen: list[Any] = []
    for element in output.elements:
        seen += rows_of(element) if isinstance(element, pa.RecordBatch) else [element]
    expected: list[Any] = []
    for item in items:
        if isinstance(item, list):
            expected += [(v * 2, n) for _, v, n in item if v is not None and v > 0]
        elif isinstance(item, Watermark):
            expected.append(item)
    assert seen == [*expected, Watermark(WATERMARK_MAX)]


def test_few_rows_of_each_batch_go_on_together() -> None:
    items: list[Any] = [[(1, v, "a"), (1, -1, "a")] for v in range(1, 4)]
    context = operator_context([INPUT], OUTPUT)
    assert [rows_of(b) for b in run_operator(SPEC, context, items).batches] == [
        [(2, "a"), (4, "a"), (6, "a")]
    ]


def test_a_batch_with_enough_rows_goes_on_by_itself_behind_those_that_were_held() -> None:
    context = operator_context([INPUT], OUTPUT, config={"execution.batch-rows": "2"})
    operator, output = make_operator(SPEC, context), Collected()
    feed(operator, [[(1, 1, "a")]], output)
    assert output.rows == []
    feed(operator, [[(1, 2, "b"), (1, 3, "b")]], output)
    assert [rows_of(b) for b in output.batches] == [[(2, "a")], [(4, "b"), (6, "b")]]
    feed(operator, [[(1, 4, "a")], [(1, 5, "a")]], output)
    assert rows_of(output.batches[-1]) == [(8, "a"), (10, "a")]


def test_held_rows_go_on_when_there_is_nothing_else_to_do_and_when_their_time_is_up() -> None:
    operator, output = (
        make_operator(SPEC, operator_context([INPUT], OUTPUT, now_ms=ManualClock())),
        Collected(),
    )
    feed(operator, [Clock(50), [(1, 1, "a")], Clock(90), [(1, 2, "a")], Clock(149)], output)
    assert (output.rows, operator.context.state.nbytes() > 0) == ([], True)
    feed(operator, [Clock(150)], output)
    assert output.rows == [(2, "a"), (4, "a")]
    assert operator.next_processing_time_ms() is None
    feed(operator, [[(1, 3, "a")]], output)
    operator.flush(output)
    assert output.rows[2:] == [(6, "a")]
    feed(operator, [[(1, 4, "a")], WatermarkStatus(True)], output)
    assert output.rows[3:] == [(8, "a")]


def test_rows_without_columns_are_put_together_too() -> None:
    context = operator_context([INPUT], Schema(()))
    (out,) = run_operator(CalcSpec((), POSITIVE), context, [[(1, 1, "a")], [(1, 2, "a")]]).batches
    assert (out.num_rows, out.num_columns) == (2, 0)


def test_row_kinds_pass_through_and_half_an_update_deletes() -> None:
    context = operator_context([INPUT], OUTPUT, input_modes=[RETRACT], output_mode=RETRACT)
    rows = [("+I", 1, 5, "a"), ("-U", 1, 5, "a"), ("+U", 1, -1, "a"), ("-D", 2, 3, "b")]
    assert run_operator(SPEC, context, [rows]).rows == [("+I", 10, "a"), ("-D", 10, "a"), ("-D", 6, "b")]


def test_rows_of_an_insert_only_input_are_inserted_into_a_changelog() -> None:
    context = operator_context([INPUT], OUTPUT, output_mode=RETRACT)
    assert run_operator(SPEC, context, [[(1, 5, "a"), (1, -1, "b")]]).rows == [("+I", 10, "a")]


def test_columns_that_pass_through_are_not_copied() -> None:
    given_batch = batch(INPUT, [(1, 5, "a"), (2, 6, "b"), (3, 7, "a")])
    (out,) = run_operator(SPEC, operator_context([INPUT], OUTPUT), [given_batch]).batches
    assert out.column(1).buffers()[2].address == given_batch.column(2).buffers()[2].address


def test_a_projection_sees_only_the_rows_that_the_filter_kept() -> None:
    quotient = call("/", col(1, BIGINT), col(0, INT))
    spec = CalcSpec((quotient,), call("<>", col(0, INT), lit(0, INT)))
    context = operator_context([INPUT], Schema.of(("q", BIGINT)))
    assert run_operator(spec, context, [[(0, 1, "a"), (2, 8, "b")]]).rows == [(4,)]
    with pytest.raises(UserError, match="division by zero"):
        run_operator(CalcSpec((quotient,)), context, [[(0, 1, "a")]])


def test_a_projection_of_constants_repeats_them() -> None:
    spec = CalcSpec((lit(7, INT), lit(None, STRING)))
    context = operator_context([INPUT], Schema.of(("c", INT), ("n", STRING)))
    assert run_operator(spec, context, [[(0, 1, "a"), (2, 8, "b")]]).rows == [(7, None), (7, None)]


def test_a_calc_without_columns_keeps_the_number_of_rows() -> None:
    context = operator_context([INPUT], Schema(()))
    (out,) = run_operator(CalcSpec((), POSITIVE), context, [[(0, 1, "a"), (2, -8, "b"), (3, 1, "c")]]).batches
    assert out.num_rows == 2


def test_only_update_before_is_dropped() -> None:
    context = operator_context([INPUT], INPUT, input_modes=[RETRACT], output_mode=ChangelogMode.UPSERT)
    rows = [("+I", 1, 5, "a"), ("-U", 1, 5, "a"), ("+U", 1, 6, "a"), ("-D", 1, 6, "a")]
    assert [r[0] for r in run_operator(DropUpdateBeforeSpec(), context, [rows]).rows] == ["+I", "+U", "-D"]


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(-1, 8), st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_limit_takes_a_slice_of_the_stream(sizes: list[int], fetch: int, offset: int) -> None:
    schema = Schema.of(("n", INT))
    numbers = iter(range(100))
    batches = [[(next(numbers),) for _ in range(size)] for size in sizes]
    everything = [row for rows in batches for row in rows]
    expected = everything[offset:] if fetch < 0 else everything[offset : offset + fetch]
    assert (
        run_operator(LimitSpec(fetch, offset), operator_context([schema], schema), batches).rows == expected
    )


def test_limit_goes_on_counting_after_a_restore() -> None:
    schema = Schema.of(("n", INT))
    context = operator_context([schema], schema)
    spec = LimitSpec(3)
    first = make_operator(spec, context)
    output = Collected()
    feed(first, [[(1,), (2,)]], output)
    feed(restored(spec, context, [first.context.state.snapshot()], 0, 1), [[(3,), (4,)]], output)
    assert output.rows == [(1,), (2,), (3,)]


def test_a_snapshot_of_a_filter_holds_no_rows_back() -> None:
    operator = make_operator(SPEC, operator_context([INPUT], OUTPUT))
    output = Collected()
    feed(operator, [[(1, 1, "a")]], output)
    with pytest.raises(AssertionError):
        operator.context.state.snapshot()
    operator.flush(output)
    assert operator.context.state.snapshot().keyed == {}
    assert output.rows == [(2, "a")]


def test_values_become_batches_of_typed_columns() -> None:
    schema = Schema.of(("n", INT), ("at", sql.timestamp(3)), ("price", sql.decimal(5, 2)), ("ok", BOOLEAN))
    spec = ValuesSpec(((1, 5_000_000, "1.5", True), (None, None, None, None), (2, -1_000_000, "2", False)))
    batches = list(values_batches(spec, schema, 2))
    assert [b.num_rows for b in batches] == [2, 1]
    assert [r for b in batches for r in rows_of(b)] == [
        (1, 5, Decimal("1.50"), True),
        (None, None, None, None),
        (2, -1, Decimal("2.00"), False),
    ]


def test_values_without_columns_are_rows_all_the_same() -> None:
    (only,) = values_batches(ValuesSpec(((), ())), Schema(()), 10)
    assert isinstance(only, pa.RecordBatch)
    assert only.num_rows == 2


class Selected(Collected):
    """An output that an exchange splits: selections come as batches with positions."""

    splits_rows = True

    def __init__(self) -> None:
        super().__init__()
        self.selections: list[tuple[int, list[int]]] = []

    def emit_rows(self, batch: pa.RecordBatch, rows: Any) -> None:
        self.selections.append((batch.num_rows, rows.tolist()))
        super().emit_rows(batch, rows)


@pytest.mark.parametrize("mode", [ChangelogMode.INSERT_ONLY, RETRACT])
@pytest.mark.parametrize("computes", [False, True])
def test_a_filter_that_computes_nothing_leaves_the_copy_to_the_exchange(
    mode: ChangelogMode, computes: bool
) -> None:
    first = call("*", col(1, BIGINT), lit(2, BIGINT)) if computes else col(1, BIGINT)
    context = operator_context([INPUT], OUTPUT, output_mode=mode, config={"execution.batch-rows": "2"})
    operator = make_operator(CalcSpec((first, col(2, STRING)), POSITIVE), context)
    output = Selected()
    rows = [(0, 1, "a"), (0, -1, "b"), (0, 2, "c"), (0, 3, "d")]
    operator.on_batch(batch(INPUT, rows), 0, output)
    # Too few to be worth a batch of their own.
    operator.on_batch(batch(INPUT, rows[:2]), 0, output)
    operator.flush(output)
    assert output.selections == ([] if computes else [(4, [0, 2, 3])])
    factor = 2 if computes else 1
    kept = [(v * factor, name) for _, v, name in [*rows, rows[0]] if v > 0]
    assert [row[-2:] for row in output.rows] == kept


def test_rows_have_the_watermark_that_came_before_them() -> None:
    time = sql.timestamp(3)
    schema = Schema.of(("k", INT), ("rt", time))
    watermark = call("CURRENT_WATERMARK", col(1, time))
    spec = CalcSpec(
        (col(0, INT), watermark), call("OR", call("IS NULL", watermark), call("<", watermark, col(1, time)))
    )
    context = operator_context([schema], Schema.of(("k", INT), ("w", time)))
    items = [[(1, 0), (2, 9)], Watermark(5), [(3, 5), (4, 6)], Watermark(7), [(5, 6), (6, 8)]]
    output = run_operator(spec, context, items)
    assert [row for b in output.batches for row in rows_of(b)] == [(1, None), (2, None), (4, 5), (6, 7)]


def test_all_clocks_of_a_row_show_one_time() -> None:
    """Of a clock that goes on whenever it is read, in the condition and in the projections."""
    ticks = itertools.count(1_000)
    instant = sql.timestamp_ltz(3).not_null()
    now = [
        call(n)
        for n in ("CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP", "LOCALTIMESTAMP", "LOCALTIMESTAMP")
    ]
    later = call("IF", call(">", col(1, BIGINT), lit(0, INT)), call("CURRENT_TIMESTAMP"), lit(None, instant))
    condition = call("=", call("CURRENT_TIMESTAMP"), call("NOW"))
    output_schema = Schema.of(*((f"c{i}", c.type) for i, c in enumerate((*now, later))))
    context = operator_context([INPUT], output_schema, now_ms=lambda: next(ticks))
    output = run_operator(
        CalcSpec((*now, later), condition), context, [[(1, 1, "a"), (2, 2, "b")], [(3, 3, "c")]]
    )
    moments = [set(row) for row in output.rows]
    assert [len(m) for m in moments] == [1, 1, 1]
    assert moments[0] == moments[1] != moments[2]
