"""What a batch costs besides its rows: the functions that are called for it, of Python and of C, whatever the machine.

They are as many for many rows as for few. So a loop over rows is found here, and so is what small batches would pay for."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from operator_harness import Collected, ManualClock, batch, feed, operator_context
from stateful_operators import OPERATORS, ROWS
from work_harness import calls_of

from sqlstream import types as sql
from sqlstream.elements import Watermark
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.csv import CsvReader
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec
from sqlstream.spi.format import ReadRequest

FEW, MANY = 100, 4_000
MORE_MAX = 500
"""Calls that `MANY` rows may cost more than `FEW`, for memory that grows. One a row would be 3,900."""
CALLS_MAX = {
    "count": 400, "average": 430, "variance": 440, "maximum of texts": 710, "retracting maximum": 770,
    "distinct": 670, "last value": 600, "list": 860, "retracting list": 1_400, "with a time to live": 410,
    "tumbling windows": 760, "hopping windows": 760, "sessions": 780, "local windows": 1_010,
    "join": 600, "join with a time to live": 630, "interval join": 2_010, "window join": 60,
    "rank": 370, "rank with a time to live": 380, "retracting rank": 990, "deduplicate": 600,
    "sort": 20, "retracting sort": 560, "window rank": 80,
}  # fmt: skip
"""Of a batch of few rows: what was counted, and a seventh more. That of local windows makes partials of what came before, too."""


class _Nowhere(Collected):
    def emit(self, batch: pa.RecordBatch) -> None:
        """Its rows are not looked at."""


def calls_of_batches(take: Callable[[Any], object], make: Callable[[int], Any]) -> tuple[int, int]:
    """The calls that a batch of few rows costs, and one of many, when both have come before."""
    for count in (MANY, FEW, MANY):
        take(make(count))
    few, many = make(FEW), make(MANY)
    return calls_of(lambda: take(few)), calls_of(lambda: take(many))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_batch_of_many_rows_makes_few_calls_more(name: str) -> None:
    spec, context = OPERATORS[name]
    context.now_ms = ManualClock(5)
    operator, output = make_operator(spec, context), _Nowhere()
    feed(operator, [(0, Watermark(0))], output)
    side = len(context.input_schemas) - 1
    mode = context.input_modes[side]

    def rows(count: int) -> pa.RecordBatch:
        plain = [(n, f"{n:020}", 100 + n // 1_000, 1_000) for n in range(count)]
        return batch(ROWS, plain if mode.is_insert_only else [("+I", *row) for row in plain], mode)

    for other in range(side):
        operator.on_batch(rows(MANY), other, output)
    few, many = calls_of_batches(lambda taken: operator.on_batch(taken, side, output), rows)
    assert many <= few + MORE_MAX
    assert few <= CALLS_MAX[name]


def test_a_projection_and_a_filter_make_few_calls() -> None:
    key, text = InputRef(0, sql.BIGINT), InputRef(1, sql.STRING)
    three = Literal(3, sql.BIGINT.not_null())
    projections = (Call("*", (key, three), sql.BIGINT), Call("UPPER", (text,), sql.STRING))
    condition = Call(">", (key, three), sql.BOOLEAN)
    context = operator_context([ROWS], Schema.of(("a", sql.BIGINT), ("b", sql.STRING)))
    operator, output = make_operator(CalcSpec(projections, condition), context), _Nowhere()

    def rows(count: int) -> pa.RecordBatch:
        return batch(ROWS, [(n, f"{n:020}", 100, 1_000) for n in range(count)])

    few, many = calls_of_batches(lambda taken: operator.on_batch(taken, 0, output), rows)
    assert many <= few + MORE_MAX
    assert few <= 160


@pytest.mark.parametrize(
    ("reader", "line", "most"), [(JsonReader, '{"n":%d,"t":"a","d":1.5}', 160), (CsvReader, "%d,a,1.5", 130)]
)
def test_lines_are_decoded_in_few_calls(reader: Any, line: str, most: int) -> None:
    schema = Schema.of(("n", sql.BIGINT), ("t", sql.STRING), ("d", sql.DOUBLE))
    made = reader(ReadRequest(io.BytesIO(), "f", schema, schema.names, {}))

    def lines(count: int) -> Block:
        return Block("".join(line % n + "\n" for n in range(count)).encode(), 1, count)

    few, many = calls_of_batches(made.decode, lines)
    assert many <= few + MORE_MAX
    assert few <= most
