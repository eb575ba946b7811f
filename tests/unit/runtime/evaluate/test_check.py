"""What no row could make work is said without one, at the call itself."""

from __future__ import annotations

import pytest
from expression_harness import call, cast, col, lit

from runtime.evaluate.check import _TOTAL, check_expression
from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.types import BIGINT, STRING


def test_every_function_that_needs_no_look_exists() -> None:
    assert set(SCALAR_FUNCTIONS) >= _TOTAL


@pytest.mark.parametrize(
    "wrong",
    [
        Call("LIKE", (col(0, STRING), lit("a!", STRING), lit("!", STRING)), sql.BOOLEAN, Span(2, 5)),
        Call("DATE_FORMAT", (col(0, sql.timestamp(3)), lit("qq", STRING)), STRING, Span(2, 5)),
        Call("REGEXP", (col(0, STRING), lit("(", STRING)), sql.BOOLEAN, Span(2, 5)),
        Call("/", (col(0, sql.INTERVAL_DAY_TIME), col(1, BIGINT)), sql.INTERVAL_DAY_TIME, Span(2, 5)),
    ],
    ids=lambda c: f"{c.function} {c.args[-1]}",
)
def test_a_call_that_no_row_could_make_work_is_refused_where_it_stands(wrong: Call) -> None:
    for whole in (wrong, call("COALESCE", wrong, lit(None, wrong.type))):
        with pytest.raises(UserError) as refused:
            check_expression(whole)
        assert refused.value.code.startswith("SS31")
        assert refused.value.span == Span(2, 5)


def test_what_only_some_rows_break_is_left_to_them() -> None:
    check_expression(call("/", lit(1, BIGINT), lit(0, BIGINT)))
    check_expression(call("REPEAT", cast(lit("x", STRING), STRING), cast(lit("y", STRING), sql.INT)))
