"""RAND and RAND_INTEGER with a seed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from expression_harness import call, col, evaluate, lit

from sqlstream.expressions import Expression
from sqlstream.runtime.evaluate import compile_expression
from sqlstream.schema import Schema
from sqlstream.types import INT


def first(count: int, expression: Expression) -> list[Any]:
    """Its values for the first rows, half of which come in another batch."""
    function = compile_expression(expression, Schema.of(("c0", INT)))
    batch = pa.record_batch({"c0": pa.array([0] * count, pa.int32())})
    return [v for part in (batch[: count // 2], batch[count // 2 :]) for v in function(part).to_pylist()]


def test_a_literal_seed_gives_the_sequence_of_java_util_random() -> None:
    seed = lit(42, INT.not_null())
    assert first(5, call("RAND_INTEGER", seed, lit(100, INT.not_null()))) == [30, 63, 48, 84, 70]
    assert first(3, call("RAND_INTEGER", seed, lit(64, INT.not_null()))) == [46, 3, 43]
    assert first(2, call("RAND", seed)) == [0.7275636800328681, 0.6832234717598454]
    # Numbers that would favour the lower ones are drawn again.
    drawn = first(4, call("RAND_INTEGER", lit(7, INT.not_null()), lit(1_500_000_000, INT.not_null())))
    assert drawn == [1371249164, 20678044, 747989380, 1053566254]


def test_a_seed_of_the_row_starts_anew() -> None:
    rows = [(42, 100), (None, 100), (42, None), (42, 100)]
    assert evaluate(call("RAND_INTEGER", col(0, INT), col(1, INT)), rows) == [30, None, None, 30]
    assert evaluate(call("RAND", col(0, INT)), [(42,), (None,)]) == [0.7275636800328681, None]
