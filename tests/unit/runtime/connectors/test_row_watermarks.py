"""Watermarks of the rows of one file."""

from __future__ import annotations

import pyarrow as pa
import pytest
from expression_harness import call, col, lit

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MIN
from sqlstream.expressions import Expression
from sqlstream.runtime.connectors.row_watermarks import RowWatermarks
from sqlstream.specs import EmitStrategy, SourceWatermark
from sqlstream.spi.connector import ConnectorContext

TS = sql.timestamp(3)
TIME = col(0, TS)
CONTEXT = ConnectorContext("job", "vertex", 0, 1, 0, 10, {}, lambda: 0, lambda name, n: None, None)


def minus(milliseconds: int) -> Expression:
    return call("-", TIME, lit(milliseconds, sql.INTERVAL_DAY_TIME))


def watermarks(expression: Expression, emit: EmitStrategy = EmitStrategy.ON_EVENT) -> RowWatermarks:
    return RowWatermarks(SourceWatermark(TIME, expression, emit), CONTEXT)


def batch(*times: int | None) -> pa.RecordBatch:
    return pa.record_batch({"ts": pa.array(times, pa.int64()).cast(pa.timestamp("ms"))})


def test_each_row_carries_the_watermark_of_the_rows_of_its_file_before_it() -> None:
    rows, running = watermarks(minus(10)).extended(batch(20, 50, 30, 70), before_ms=15)
    assert rows.column("$watermark").to_pylist() == [15, 15, 40, 40]
    assert running.tolist() == [15, 40, 40, 60]


def test_periodic_watermarks_add_no_column_and_pass_over_null() -> None:
    rows, running = watermarks(minus(10), EmitStrategy.ON_PERIODIC).extended(
        batch(20, None, 5), WATERMARK_MIN
    )
    assert rows.schema.names == ["ts"]
    assert running.tolist() == [10, 10, 10]


def test_a_computed_row_time_is_added_behind_the_columns() -> None:
    spec = SourceWatermark(minus(1), minus(3), EmitStrategy.ON_EVENT, adds_rowtime=True)
    rows, running = RowWatermarks(spec, CONTEXT).extended(batch(20, 50), WATERMARK_MIN)
    assert [c.cast(pa.int64()).to_pylist() for c in rows.columns] == [[20, 50], [19, 49], [WATERMARK_MIN, 17]]
    assert running.tolist() == [17, 47]


@pytest.mark.parametrize(
    ("expression", "times", "promised"),
    [
        (minus(10), [20, 5, 90], 10),  # by row 1 alone: row 2 is late by its file if it is late by this
        (TIME, [20, 30], 19),  # a watermark of 20 would close a window that ends with row 1
        (minus(-10), [20, 30], 19),
        (minus(10), [], WATERMARK_MIN),
        (minus(10), [None, 20], WATERMARK_MIN),
        (call("NULLIF", TIME, lit(7_000_000, TS)), [7, 3, 9], 2),
    ],
)
def test_first_rows_promise_no_more_than_keeps_every_row_of_the_file_in_time(
    expression: Expression, times: list[int | None], promised: int
) -> None:
    rows = batch(*times)
    assert watermarks(expression).least_ms(rows.columns, rows.num_rows) == promised
