"""The comparison of two results as an operator with two inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from operator_harness import Collected

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ROW_KIND_COLUMN, ChangelogMode
from sqlstream.runtime.operators.compare_rows import CompareRows
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs import CompareRowsSpec
from sqlstream.specs.compare_rows import BATCH_INPUT, STREAM_INPUT, ComparisonReport, found_schema

COUNTS = Schema.of(("k", sql.INT.not_null()), ("x", sql.DOUBLE))
Interrupt = Callable[[], None]


def rows(*values: tuple[Any, ...]) -> pa.RecordBatch:
    columns = [pa.array([v[i] for v in values], f.type) for i, f in enumerate(to_arrow_schema(COUNTS))]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(COUNTS))


def operator(spec: CompareRowsSpec, interrupts: list[Interrupt] | None = None) -> CompareRows:
    clock = iter(range(1000, 100_000, 1000))
    context = OperatorContext(
        (spec.schema, spec.schema),
        (ChangelogMode.RETRACT, ChangelogMode.INSERT_ONLY),
        found_schema(spec.schema),
        ChangelogMode.INSERT_ONLY,
        now_ms=lambda: next(clock),
        on_cancel=lambda interrupt: (interrupts if interrupts is not None else []).append(interrupt),
    )
    return CompareRows(spec, context)


def found(spec: CompareRowsSpec, stream: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
    compare, output = operator(spec), Collected()
    # Both come as they are ready, the batch first here.
    compare.on_batch(batch, BATCH_INPUT, output)
    compare.on_batch(stream, STREAM_INPUT, output)
    compare.on_end_of_input(BATCH_INPUT, output)
    compare.on_end_of_input(STREAM_INPUT, output)
    assert output.elements == []
    compare.on_finish(output)
    compare.close()
    (emitted,) = output.batches
    assert emitted.schema == to_arrow_schema(found_schema(spec.schema))
    return emitted


def test_the_report_comes_first_and_the_rows_of_each_key_behind_it() -> None:
    changes = rows((1, 1.0), (2, 2.0), (2, 2.0), (2, 3.0))
    changes = changes.append_column(ROW_KIND_COLUMN, pa.array([0, 0, 1, 2], pa.int8()))
    emitted = found(CompareRowsSpec(COUNTS, (0,), 0.0, 5), changes, rows((1, 1.0), (2, 2.5), (3, None)))
    report = msgspec.json.decode(emitted.column(0)[0].as_py(), type=ComparisonReport)
    assert report == ComparisonReport(
        stream_rows=2, batch_rows=3, stream_ms=2000, batch_ms=1000, surplus=1, missing=2, near=0
    )
    behind = list(zip(*(c.to_pylist()[1:] for c in emitted.columns), strict=True))
    assert behind == [(None, 1, -1, 2, 2.5), (None, 1, 1, 2, 3.0), (None, 2, -1, 3, None)]


def test_without_a_tolerance_the_report_says_what_the_order_of_addition_explains() -> None:
    near, far = rows((1, 1.0), (2, 5.0)), rows((1, 1.0 + 1e-12), (2, 6.0))
    exact = msgspec.json.decode(
        found(CompareRowsSpec(COUNTS, (0,), 0.0, 5), near, far).column(0)[0].as_py(), type=ComparisonReport
    )
    assert (exact.surplus, exact.near, exact.explained) == (2, 0, 1)
    tolerant = msgspec.json.decode(
        found(CompareRowsSpec(COUNTS, (0,), 1e-9, 5), near, far).column(0)[0].as_py(), type=ComparisonReport
    )
    assert (tolerant.surplus, tolerant.near, tolerant.explained) == (1, 1, 0)


def test_equal_rows_are_a_report_alone() -> None:
    emitted = found(CompareRowsSpec(COUNTS, None, 0.0, 5), rows((1, 1.0)), rows((1, 1.0)))
    assert emitted.num_rows == 1


def compare_for_ever(compare: CompareRows) -> None:
    while True:
        compare.on_finish(Collected())


def test_a_cancelled_task_ends_a_comparison_that_is_under_way() -> None:
    interrupts: list[Interrupt] = []
    schema = Schema.of(("k", sql.BIGINT))
    compare, output = operator(CompareRowsSpec(schema, None, 0.0, 5), interrupts), Collected()
    for side in (STREAM_INPUT, BATCH_INPUT):
        numbers = pa.array(np.arange(side, 6_000_000, 2), pa.int64())
        compare.on_batch(pa.record_batch([numbers], schema=to_arrow_schema(schema)), side, output)
    (interrupt,) = interrupts
    is_over = threading.Event()

    def interrupt_until_over() -> None:
        while not is_over.wait(0.05):
            interrupt()

    cancelling = threading.Thread(target=interrupt_until_over)
    cancelling.start()
    with pytest.raises(duckdb.InterruptException):
        compare_for_ever(compare)
    compare.close()
    # Asked for once more, as the JobManager does not know yet.
    interrupt()
    is_over.set()
    cancelling.join()
