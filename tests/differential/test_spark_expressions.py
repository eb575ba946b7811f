"""Random expressions over edge values have the stream's values in Spark, and what fails in a stream fails there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from example_values import Guarded
from expression_fuzzer import EDGES, ExpressionFuzzer, plain_values, run
from planner_harness import Planner
from spark_harness.sql import evaluate_in_spark, is_same, plain

from sqlstream import spark_types
from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal, walk
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.lower.spark import SparkDialect
from sqlstream.planner.relational.nodes import Project, Sink
from sqlstream.runtime.batch.spark.errors import described
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

FAILING = (
    *("1 / 0", "7.5 / 0", "1 % 0", "CAST('x' AS INT)", "CAST('1e3' AS BIGINT)", "CAST('1.5f' AS DOUBLE)"),
    *(
        "CAST('2024-02-30' AS DATE)",
        "CAST('Maybe' AS BOOLEAN)",
        "CAST(' a\"\nb ' AS INT)",
        "CAST(REPEAT('x', 150) AS DATE)",
        "FROM_BASE64('*')",
        "MAP[CAST(NULL AS STRING), 1]",
    ),
    *("TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1' DAY", "DATE '0001-01-01' - INTERVAL '1' MONTH"),
)
"""Of one row that a stream fails on."""


def bound(text: str) -> Expression:
    """The expression as the binder makes it, without folding."""
    node = Planner().bind(f"SELECT {text}")
    node = node.input if isinstance(node, Sink) else node
    assert isinstance(node, Project)
    return node.expressions[0]


def in_stream(expression: Expression) -> Any:
    """The value of an expression without columns."""
    batch = pa.RecordBatch.from_arrays([pa.array([0], pa.int32())], names=["c0"])
    context = EvaluationContext(now_ms=lambda: 0, time_zone="UTC")
    column = compile_expression(expression, Schema.of(("c0", sql.INT)), context)(batch)
    return plain(plain_values(column)[0], expression.type)


@pytest.mark.parametrize("text", FAILING)
def test_what_fails_in_a_stream_fails_in_spark(text: str, spark: Any) -> None:
    from pyspark.errors import PySparkException

    one_row = pa.RecordBatch.from_arrays([pa.array([0], pa.int32())], names=["c0"])
    expression = bound(text)
    with pytest.raises(UserError) as in_a_stream:
        in_stream(expression)
    with pytest.raises(PySparkException, match=r"division|cannot|base64|out of range|NULL|null") as in_spark:
        evaluate_in_spark(spark, [Guarded(expression, [0])], one_row, [sql.INT])
    if text.startswith("CAST(") or in_a_stream.value.code == "SS5101":
        told = described(in_spark.value)
        assert (told.code, told.message) == (in_a_stream.value.code, in_a_stream.value.message)


# -- random expressions ----------------------------------------------------------------------------

EXPRESSIONS_A_JOB = 60


def is_known_to_spark(t: LogicalType) -> bool:
    try:
        spark_types.spark_type(t)
    except UserError:
        return False
    return True


TYPES = [t if is_known_to_spark(t) else sql.INT for t, _ in EDGES]
READABLE = [is_known_to_spark(t) for t, _ in EDGES]


def without_special_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """NaN and infinities become 1.5, and columns that Spark cannot hold become NULL."""
    columns = []
    for column, is_readable in zip(batch.columns, READABLE, strict=True):
        if not is_readable:
            column = pa.nulls(len(column), pa.int32())
        elif pa.types.is_floating(column.type):
            values = [1.5 if v is not None and not math.isfinite(v) else v for v in column.to_pylist()]
            column = pa.array(values, column.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def is_lowered(expression: Expression, time_zone: str) -> bool:
    for node in walk(expression):
        if isinstance(node, InputRef) and not READABLE[node.index]:
            return False
        if isinstance(node, Literal) and isinstance(node.value, float) and not math.isfinite(node.value):
            return False
        if isinstance(node, Call) and not SCALAR_FUNCTIONS[node.function].is_deterministic:
            return False
    try:
        lower_expression(expression, SparkDialect(HostedFunctions(), time_zone), tree.input_column)
    except UserError as error:
        if error.code != "SS3301":
            raise
        return False
    return True


def rows_with_a_value(expression: Expression, batch: pa.RecordBatch, time_zone: str) -> list[int]:
    """The rows on which the stream does not fail and computes no NaN."""
    kept = []
    floats = [
        n
        for n in walk(expression)
        if isinstance(n, Call) and n.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    ]
    for row in range(batch.num_rows):
        part = batch.slice(row, 1)
        if isinstance(run(expression, part, time_zone), UserError):
            continue
        values = [run(node, part, time_zone) for node in floats]
        if all(isinstance(v, UserError) or v.to_pylist()[0] == v.to_pylist()[0] for v in values):
            kept.append(row)
    return kept


def drawn(fuzzer: ExpressionFuzzer, batch: pa.RecordBatch, count: int) -> list[Guarded]:
    given: list[Guarded] = []
    while len(given) < count:
        expression = fuzzer.expression()
        if is_lowered(expression, fuzzer.time_zone):
            rows = rows_with_a_value(expression, batch, fuzzer.time_zone)
            given += [Guarded(expression, rows)] if rows else []
    return given


def spark_values(
    spark: Any, given: Sequence[Guarded], batch: pa.RecordBatch, time_zone: str
) -> list[list[Any] | None]:
    """As `evaluate_in_spark`; None for an expression that has no exact value in Spark, as its own error says."""
    try:
        return list(evaluate_in_spark(spark, given, batch, TYPES, time_zone))
    except Exception as error:
        if "no exact counterpart" not in str(error):
            if len(given) == 1:
                error.add_note(str(given[0].expression))
                raise
        elif len(given) == 1:
            return [None]
    middle = len(given) // 2
    return [
        *spark_values(spark, given[:middle], batch, time_zone),
        *spark_values(spark, given[middle:], batch, time_zone),
    ]


def check_seed(spark: Any, seed: int) -> None:
    fuzzer = ExpressionFuzzer(seed)
    batch = without_special_numbers(fuzzer.batch())
    given = drawn(fuzzer, batch, EXPRESSIONS_A_JOB)
    for guarded, found in zip(given, spark_values(spark, given, batch, fuzzer.time_zone), strict=True):
        expression, rows = guarded.expression, guarded.rows
        ours = run(expression, batch.take(pa.array(rows)), fuzzer.time_zone)
        if found is None or isinstance(ours, UserError):
            continue
        expected = [plain(v, expression.type) for v in plain_values(ours)]
        for row, a, b in zip(rows, found, expected, strict=True):
            if not is_same(a, b):
                inputs = {
                    str(n): plain_values(batch.column(n.index))[row]
                    for n in walk(expression)
                    if isinstance(n, InputRef)
                }
                pytest.fail(
                    f"seed {seed}, {fuzzer.time_zone}: {expression} of {inputs}: Spark {a!r}, stream {b!r}"
                )


def test_random_expressions_have_the_streams_values(spark: Any) -> None:
    check_seed(spark, 123)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(1000, 1200, 10))
def test_many_random_expressions_have_the_streams_values(first: int, spark: Any) -> None:
    for seed in range(first, first + 10):
        check_seed(spark, seed)
