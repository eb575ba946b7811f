"""Texts that functions would make too large are refused before they take memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.growth import VALUE_BYTES_MAX, check_growth
from sqlstream.runtime.evaluate.kernel import BATCH_BYTES_MAX, as_array, plain
from sqlstream.runtime.evaluate.program import Program
from sqlstream.types import INT, STRING

TEXTS = pa.array(["ab", None, ""])
LONG = "x" * 60_000_000
HUGE = pa.scalar(2_000_000_000, pa.int32())


@pytest.mark.parametrize(
    ("function", "args", "size"),
    [
        ("REPEAT", lambda: [TEXTS, HUGE], 4_000_000_000),
        ("REPEAT", lambda: [pa.scalar("x"), pa.array([1, 2_000_000_000], pa.int32())], 2_000_000_000),
        ("LPAD", lambda: [TEXTS, HUGE, pa.scalar("y")], 2_000_000_000),
        ("RPAD", lambda: [TEXTS, HUGE, pa.scalar("y")], 2_000_000_000),
        ("REPLACE", lambda: [pa.array(["x" * 10_000]), pa.scalar("x"), pa.scalar("y" * 10_000)], 100_010_000),
        (
            "REGEXP_REPLACE",
            lambda: [pa.array(["x" * 10_000]), pa.scalar("x"), pa.scalar("y" * 10_000)],
            100_010_000,
        ),
        ("||", lambda: [pa.array(["a", LONG, None]), pa.scalar("y" * 10_000_000)], 70_000_000),
        ("CONCAT", lambda: [pa.array([LONG]), pa.array(["y"]), pa.array(["y" * 10_000_000])], 70_000_001),
        ("CONCAT_WS", lambda: [pa.scalar(LONG), *[pa.array(["z", None])] * 3], 120_000_003),
    ],
)
def test_a_value_that_is_too_large_is_refused_with_its_size(
    function: str, args: Callable[[], list[pa.Array]], size: int
) -> None:
    with pytest.raises(UserError, match=f"{function} would have {size:,} bytes") as caught:
        check_growth(function, args())
    assert caught.value.code == "SS5108"


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("REPEAT", lambda: [TEXTS, pa.scalar(VALUE_BYTES_MAX // 2, pa.int32())]),
        ("REPEAT", lambda: [TEXTS, pa.scalar(-1, pa.int32())]),
        ("REPEAT", lambda: [pa.array(["", None]), HUGE]),
        ("REPEAT", lambda: [TEXTS, pa.scalar(None, pa.int32())]),
        ("REPLACE", lambda: [pa.array(["x" * 10_000]), pa.scalar(""), pa.scalar("y")]),
        ("REGEXP_REPLACE", lambda: [pa.array(["x" * 10_000]), pa.scalar("x{1000}"), pa.scalar("y" * 10_000)]),
        ("UPPER", lambda: [TEXTS]),
        ("||", lambda: [pa.array(["x" * 40_000_000, "y", None]), pa.array(["x", "y" * 40_000_000, "z"])]),
    ],
)
def test_what_fits_passes(function: str, args: Callable[[], list[pa.Array]]) -> None:
    check_growth(function, args())


def test_a_batch_that_is_too_large_is_refused() -> None:
    texts = pa.array(["x"] * 100)
    with pytest.raises(UserError, match="in one batch") as caught:
        check_growth("REPEAT", [texts, pa.scalar(BATCH_BYTES_MAX // 99, pa.int32())])
    assert "execution.batch-rows" in caught.value.hint


def test_a_constant_is_not_repeated_beyond_what_arrow_holds() -> None:
    with pytest.raises(UserError, match="in one batch"):
        as_array(pa.scalar("x" * 100_000), 65_536)
    assert len(as_array(pa.scalar("x" * 100), 65_536)) == 65_536


def test_a_constant_that_cannot_be_made_fails_where_a_row_asks_for_it() -> None:
    call = Call("REPEAT", (Literal("x", STRING), Literal(2_000_000_000, INT)), STRING, Span(7, 20))
    program = Program((call,), EvaluationContext())
    with pytest.raises(UserError, match="2,000,000,000 bytes") as caught:
        program.run((), 1)
    assert caught.value.span == Span(7, 20)


def test_texts_that_arrow_cannot_count_are_a_clear_error() -> None:
    joined = Call("CONCAT", (InputRef(0, STRING),) * 60, STRING, Span(0, 9))
    with pytest.raises(UserError, match="results of CONCAT would have more than") as caught:
        Program((joined,), EvaluationContext()).run((pa.array(["x" * 1_000_000] * 40),), 40)
    assert caught.value.span == Span(0, 9)


def test_a_value_that_no_later_step_reads_is_let_go() -> None:
    column = InputRef(0, STRING)
    first = Call("||", (column, column), STRING)
    second = Call("||", (first, column), STRING)
    result = Call("||", (second, second), STRING)
    seen: list[weakref.ref[pa.Array]] = []

    def traced(*given: pa.Array) -> pa.Array:
        seen.append(weakref.ref(given[0]))
        if len(seen) == 3:
            assert [ref() is not None for ref in seen] == [True, False, True]
        return pc.binary_join_element_wise(*given, "")

    with mock.patch("sqlstream.runtime.evaluate.text.string.concat", plain(traced)):
        found = Program((result, column), EvaluationContext()).run((pa.array(["ab"]),), 1)
    assert [f.to_pylist() for f in found] == [["abababababab"], ["ab"]]
