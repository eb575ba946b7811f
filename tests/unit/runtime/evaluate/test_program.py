"""Compiling: shared subexpressions, masks, constants, and two ways to the same answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from expression_harness import call, cast, col, evaluate, lit
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import InternalError, Span, UserError
from sqlstream.expressions import Call, InputRef
from sqlstream.runtime.evaluate import (
    EvaluationContext,
    compile_condition,
    compile_expression,
    compile_projections,
    evaluate_literal,
)
from sqlstream.runtime.evaluate.fallible import can_fail
from sqlstream.runtime.evaluate.program import Program
from sqlstream.schema import Schema
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING

SCHEMA = Schema.of(("a", BIGINT), ("b", BIGINT))
BATCH = pa.record_batch({"a": [1, None, 3], "b": [1, 2, 2]})


def test_equal_subexpressions_are_computed_once() -> None:
    total = call("+", col(0, BIGINT), col(1, BIGINT))
    first, second = compile_projections((total, total), SCHEMA)(BATCH)
    assert first.buffers()[1].address == second.buffers()[1].address


def test_random_columns_are_not_shared() -> None:
    first, second = compile_projections((call("RAND"), call("RAND")), SCHEMA)(BATCH)
    assert first != second


def test_what_is_computed_of_random_columns_is_not_shared_either() -> None:
    shifted = call("+", call("RAND"), lit(1, INT))
    first, second = compile_projections((shifted, shifted), SCHEMA)(BATCH)
    assert first != second
    same = compile_expression(call("=", call("ABS", call("RAND")), call("ABS", call("RAND"))), SCHEMA)
    assert same(BATCH).to_pylist() == [False] * 3


def test_a_condition_gives_a_mask_without_nulls() -> None:
    mask = compile_condition(call(">", col(0, BIGINT), col(1, BIGINT)), SCHEMA)(BATCH)
    assert mask.to_pylist() == [False, False, True]


def test_a_column_outside_the_schema_is_our_bug() -> None:
    with pytest.raises(InternalError, match="column 7 of 2"):
        compile_expression(col(7, BIGINT), SCHEMA)


def test_literals_have_the_arrow_type_of_their_logical_type() -> None:
    assert evaluate_literal(lit(5_000_000, sql.timestamp(3))) == pa.scalar(5, pa.timestamp("ms"))
    assert evaluate_literal(lit(-1, sql.timestamp(6))) == pa.scalar(-1, pa.timestamp("us"))
    assert evaluate_literal(lit("253402300799000000000", sql.timestamp(0))).value == 253402300799000
    assert evaluate_literal(lit("ff00", sql.BYTES)).as_py() == b"\xff\x00"
    assert evaluate_literal(lit(None, INT)) == pa.scalar(None, pa.int32())


def test_a_division_by_a_constant_other_than_zero_cannot_fail() -> None:
    assert not can_fail(call("MOD", col(0, BIGINT), lit(123, INT)))
    assert can_fail(call("MOD", col(0, BIGINT), lit(0, INT)))
    assert can_fail(call("/", col(0, BIGINT), col(1, BIGINT)))


def test_coalesce_computes_an_argument_once() -> None:
    sometimes = call("CASE", call("<", call("RAND"), lit(0.5, DOUBLE)), lit(1, INT), lit(None, INT))
    # The division can fail, so that it is computed for the rows alone that have no value before it.
    found = call("COALESCE", sometimes, call("/", lit(100, INT), col(0, BIGINT)))
    rows = pa.record_batch({"a": pa.array([5] * 1000), "b": pa.array([1] * 1000)})
    assert set(compile_projections((found,), SCHEMA)(rows)[0].to_pylist()) == {1, 20}


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(UserError, match='time zone "Europe/Atlantis" does not exist'):
        EvaluationContext.of(lambda: 0, {"table.local-time-zone": "Europe/Atlantis"})
    assert EvaluationContext.of(lambda: 0, {"table.local-time-zone": "GMT+08:00"}).time_zone == "+08:00"


TEXTS = st.lists(st.text(alphabet="ab%_\\é", max_size=6) | st.none(), max_size=12)
SMALL = st.integers(-4, 6)
WORD = st.text(alphabet="ab", min_size=1, max_size=2)
TWO_WAYS = st.one_of(
    st.tuples(st.just("LIKE"), st.tuples(st.text(alphabet="ab%_\\é", max_size=5))),
    st.tuples(st.just("SUBSTRING"), st.tuples(SMALL, SMALL)),
    st.tuples(st.just("SUBSTRING"), st.tuples(SMALL)),
    st.tuples(st.sampled_from(["LEFT", "RIGHT"]), st.tuples(SMALL)),
    st.tuples(st.just("REPLACE"), st.tuples(WORD, WORD)),
    st.tuples(st.sampled_from(["STARTSWITH", "ENDSWITH", "LTRIM", "RTRIM", "BTRIM"]), st.tuples(WORD)),
    st.tuples(st.just("SPLIT_INDEX"), st.tuples(WORD, SMALL)),
)


@given(TEXTS, TWO_WAYS)
@settings(max_examples=150, deadline=None)
def test_constant_parameters_give_what_duckdb_gives_for_columns(
    texts: list[str | None], function: tuple[str, tuple[Any, ...]]
) -> None:
    name, parameters = function
    types = [INT if isinstance(p, int) else STRING for p in parameters]
    literals = [lit(p, t.not_null()) for p, t in zip(parameters, types, strict=True)]
    columns = [col(i + 1, t) for i, t in enumerate(types)]
    by_constant = evaluate(call(name, col(0, STRING), *literals), [(t,) for t in texts])
    by_column = evaluate(call(name, col(0, STRING), *columns), [(t, *parameters) for t in texts])
    assert by_constant == by_column


def test_an_error_points_at_the_call_that_failed() -> None:
    division = Call("/", (lit(1, BIGINT), col(0, BIGINT)), BIGINT, Span(7, 12))
    whole = Call("+", (division, lit(1, BIGINT)), BIGINT, Span(3, 16))
    with pytest.raises(UserError, match="division by zero") as failed:
        evaluate(whole, [(0,)])
    assert failed.value.span == Span(7, 12)


def test_a_branch_that_fails_points_into_the_branch() -> None:
    division = Call("/", (lit(1, BIGINT), col(0, BIGINT)), BIGINT, Span(20, 25))
    case = Call("CASE", (lit(True, sql.BOOLEAN), division, lit(0, BIGINT)), BIGINT, Span(3, 30))
    with pytest.raises(UserError) as failed:
        evaluate(case, [(0,)])
    assert failed.value.span == Span(20, 25)


@pytest.mark.parametrize(
    ("guarded", "rows"),
    [
        (call("REPEAT", lit("x", STRING), col(1, INT)), [(True, 2), (False, 2_000_000_000)]),
        (call("ENCODE", lit("xx", STRING), col(1, STRING)), [(True, "UTF-8"), (False, "nowhere")]),
        (
            call("CONVERT_TZ", lit("2000-01-01 00:00:00", STRING), col(1, STRING), lit("UTC", STRING)),
            [(True, "UTC"), (False, "nowhere")],
        ),
    ],
    ids=["REPEAT", "ENCODE", "CONVERT_TZ"],
)
def test_parameters_are_rejected_only_where_the_branch_is_taken(
    guarded: Call, rows: list[tuple[Any, ...]]
) -> None:
    found = evaluate(Call("CASE", (col(0, BOOLEAN), guarded, lit(None, guarded.type)), guarded.type), rows)
    assert found[0] is not None
    assert found[1] is None
    with pytest.raises(UserError):
        evaluate(guarded, [(int(is_taken), parameter) for is_taken, parameter in rows])


def test_a_constant_that_the_planner_did_not_compute_fails_the_first_row() -> None:
    pattern = call("UPPER", lit("a!", STRING.not_null()))
    like = Call("LIKE", (col(0, STRING), pattern, lit("!", STRING)), sql.BOOLEAN, Span(3, 9))
    assert evaluate(like, []) == []
    for _ in range(2):
        with pytest.raises(UserError, match="ends with its escape") as refused:
            evaluate(like, [("a",)])
        assert refused.value.span == Span(3, 9)


def test_the_two_zeros_of_a_double_are_not_one_constant() -> None:
    zeros = call("CONCAT", *(cast(lit(v, DOUBLE.not_null()), STRING) for v in (0.0, -0.0)))
    assert evaluate(zeros, [()]) == ["0.0-0.0"]
    assert lit(0.0, DOUBLE) != lit(-0.0, DOUBLE)
    assert hash(lit(1.5, DOUBLE)) == hash(lit(1.5, DOUBLE))


SPLIT_TEXTS = st.lists(st.text(alphabet="ab/é", max_size=150) | st.none(), min_size=1, max_size=8)


def part(text: str | None, delimiter: str, index: int) -> str | None:
    parts = text.split(delimiter) if text else []
    return parts[index] if 0 <= index < len(parts) else None


@given(SPLIT_TEXTS, st.sampled_from(["/", "ab", "aa", "é"]), st.lists(SMALL, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_parts_of_one_text_are_found_together_as_they_are_one_by_one(
    texts: list[str | None], delimiter: str, indexes: list[int]
) -> None:
    calls = [
        call("SPLIT_INDEX", col(0, STRING), lit(delimiter, STRING.not_null()), lit(i, INT.not_null()))
        for i in indexes
    ]
    program = Program(calls, EvaluationContext.of(lambda: 0, {}))
    # A slice, so that neither the first byte nor the first row of a buffer is that of the column.
    column = pa.array(["/ab", *texts], pa.string()).slice(1)
    found = [parts.to_pylist() for parts in program.run([column], len(texts))]
    assert found == [[part(text, delimiter, i) for text in texts] for i in indexes]


def test_calls_that_split_a_constant_or_another_text_are_not_put_together() -> None:
    slash = lit("/", STRING.not_null())
    texts = [lit("a/b", STRING.not_null()), lit("a/b", STRING.not_null()), col(0, STRING), col(1, STRING)]
    calls = [
        call("SPLIT_INDEX", text, slash, lit(i, INT.not_null()))
        for text, i in zip(texts, (0, 1, 1, 1), strict=True)
    ]
    program = Program(calls, EvaluationContext.of(lambda: 0, {}))
    columns = [pa.array(["c/d"]), pa.array(["e/f"])]
    assert [column.to_pylist() for column in program.run(columns, 1)] == [["a"], ["b"], ["d"], ["f"]]


def test_a_branch_that_can_fail_finds_its_parts_among_its_own_rows() -> None:
    slash = lit("/", STRING.not_null())
    numbers = [call("SPLIT_INDEX", col(0, STRING), slash, lit(i, INT.not_null())) for i in (0, 1)]
    quotient = call("/", cast(numbers[0], BIGINT), cast(numbers[1], BIGINT))
    case = call("IF", call("IS NOT NULL", numbers[1]), quotient, lit(0, BIGINT))
    assert evaluate(case, [("6/3",), ("7",), (None,)]) == [2, 0, 0]


def test_texts_that_are_drawn_anew_for_each_call_are_not_split_together() -> None:
    text = call("UUID")
    parts = [
        call("SPLIT_INDEX", text, lit("-", STRING.not_null()), lit(i, INT.not_null())) for i in (0, 0, 1)
    ]
    first, again, _ = Program(parts, EvaluationContext.of(lambda: 0, {})).run([], 4)
    assert all(a != b for a, b in zip(first.to_pylist(), again.to_pylist(), strict=True))


def test_an_expression_that_reads_beyond_the_input_is_our_bug() -> None:
    schema = Schema.of(("a", INT))
    with pytest.raises(InternalError, match="expression reads column 1 of 1"):
        compile_expression(InputRef(1, INT), schema)
    assert compile_expression(InputRef(0, INT), schema)(pa.record_batch({"a": [1]})).to_pylist() == [1]


@settings(deadline=None)
@given(
    st.lists(st.none() | st.text("abcé", max_size=9), min_size=1, max_size=6),
    st.sampled_from(["a", "é", "ab", "aa", "céa", ""]),
    st.sampled_from(["", "b", "é", "abcd"]),
)
def test_the_length_of_a_replaced_text_is_that_of_the_text(
    texts: list[str | None], search: str, replacement: str
) -> None:
    replaced = call("REPLACE", col(0, STRING), lit(search, STRING), lit(replacement, STRING))
    batch = pa.record_batch({"s": pa.array(texts, pa.string())})
    schema = Schema.of(("s", STRING))
    length, text = compile_projections((call("CHAR_LENGTH", replaced), replaced), schema)(batch)
    assert length.to_pylist() == [None if t is None else len(t) for t in text.to_pylist()]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(*[st.none() | st.booleans()] * 2, *[st.none() | st.sampled_from("xyz")] * 2), max_size=8
    )
)
def test_a_case_of_texts_takes_the_first_value_whose_condition_is_true(rows: list[tuple[Any, ...]]) -> None:
    names, types = ("p", "q", "s", "t"), (BOOLEAN, BOOLEAN, STRING, STRING)
    arrays = [pa.array([row[i] for row in rows], to_arrow_type(t)) for i, t in enumerate(types)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
    p, q, s, t = (col(i, of) for i, of in enumerate(types))
    cases = (
        call("CASE", p, lit("yes", STRING), q, s, t),
        call("CASE", p, s, lit(None, STRING)),
        call("CASE", lit(True, BOOLEAN), s, p, t, lit("no", STRING)),
    )
    results = compile_projections(cases, Schema.of(*zip(names, types, strict=True)))(batch)
    expected = [["yes" if r[0] else r[2] if r[1] else r[3], r[2] if r[0] else None, r[2]] for r in rows]
    assert [list(values) for values in zip(*(r.to_pylist() for r in results), strict=True)] == expected
