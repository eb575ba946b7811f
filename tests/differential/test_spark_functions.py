"""Every scalar function gives in Spark what it gives in a stream, row by row, in several time zones.

A row may fail in Spark instead, with an error that says why; it may not have another value.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from expression_fuzzer import plain_values
from function_examples import COLUMNS, EXAMPLES, rows
from planner_harness import Planner
from spark_harness.sql import Guarded, evaluate_in_spark, is_same, plain

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.lower.spark.dialect import REFUSED as REFUSED_FUNCTIONS
from sqlstream.planner.lower.spark.dialect import SparkDialect
from sqlstream.planner.relational.nodes import Project
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.schema import Schema
from sqlstream.times import check_time_zone

CLOCK = {
    "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "NOW", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME",
    "LOCALTIME",
}  # fmt: skip
REFUSED = {
    "s SIMILAR TO r", "REGEXP(s, r)", "REGEXP_EXTRACT(s, r)", "REGEXP_REPLACE(s, r, 'Q')", "REGEXP_COUNT(s, r)",
    "REGEXP_COUNT(s, '')", "REGEXP_REPLACE(s, '', '.')", "REGEXP_REPLACE(s, 'x*', '-')", "TO_TIMESTAMP_LTZ(x, 0)",
    "TO_TIMESTAMP_LTZ(d, 3)", "CAST(ts AS TIMESTAMP(9))", "TRUNCATE(x, 1)", "TRUNCATE(x)", "TRUNCATE(f, 1)",
    "SPLIT(s, r)", "SPLIT(s, '')",
}  # fmt: skip
"""Examples of lowered functions that are refused."""

FUNCTIONS = sorted(EXAMPLES.keys() - REFUSED_FUNCTIONS.keys() - CLOCK)
EXAMPLES_A_JOB = 60


@functools.cache
def planner_in(zone: str) -> Planner:
    made = Planner()
    made.set("table.local-time-zone", zone)
    made.run(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made


@functools.cache
def table() -> tuple[pa.RecordBatch, Schema]:
    schema = planner_in("UTC").bind("SELECT * FROM t").schema
    (batch,) = pa.Table.from_pylist(rows(), to_arrow_schema(schema)).combine_chunks().to_batches()
    return batch, schema


def bound(example: str, zone: str) -> Expression:
    node = planner_in(zone).bind(f"SELECT {example} AS v FROM t")
    assert isinstance(node, Project)
    assert node.input.schema.names == table()[1].names
    return node.expressions[0]


def in_stream(expression: Expression, batch: pa.RecordBatch, zone: str) -> list[Any] | None:
    """Values, or None where the stream fails."""
    context = EvaluationContext(time_zone=check_time_zone(zone))
    try:
        column = compile_expression(expression, table()[1], context)(batch)
    except UserError:
        return None
    return [plain(v, expression.type) for v in plain_values(column)]


def expected(expression: Expression, zone: str) -> dict[int, Any]:
    """The value of each row on which the stream does not fail."""
    batch, _ = table()

    def of(start: int, count: int) -> dict[int, Any]:
        values = in_stream(expression, batch.slice(start, count), zone)
        if values is not None:
            return dict(enumerate(values, start))
        if count == 1:
            return {}
        half = count // 2
        return of(start, half) | of(start + half, count - half)

    return of(0, batch.num_rows)


def found(spark: Any, given: Sequence[Guarded], zone: str) -> list[dict[int, Any]]:
    """The value of each guarded row, without those for which Spark says that it has no exact counterpart."""
    if not given:
        return []
    batch, schema = table()
    try:
        values = evaluate_in_spark(spark, given, batch, schema.types, zone)
        return [dict(zip(g.rows, v, strict=True)) for g, v in zip(given, values, strict=True)]
    except Exception as error:
        if "no exact counterpart" not in str(error):
            if len(given) == 1:
                error.add_note(f"{given[0].expression} of rows {given[0].rows}")
                raise
        elif len(given) == 1 and len(given[0].rows) == 1:
            return [{}]
    if len(given) > 1:
        middle = len(given) // 2
        return found(spark, given[:middle], zone) + found(spark, given[middle:], zone)
    (guarded,) = given
    middle = len(guarded.rows) // 2
    halves = (Guarded(guarded.expression, part) for part in (guarded.rows[:middle], guarded.rows[middle:]))
    return [dict(item for half in halves for item in found(spark, [half], zone)[0].items())]


def differences(spark: Any, examples: Sequence[str], zone: str) -> list[str]:
    wrong, given, answers = [], [], []
    for example in examples:
        expression = bound(example, zone)
        try:
            lower_expression(expression, SparkDialect(zone), tree.input_column)
        except UserError as error:
            if example not in REFUSED or error.code != "SS3301":
                wrong.append(f"{example}: {error.message}")
            continue
        answer = expected(expression, zone)
        if answer:
            given.append(Guarded(expression, list(answer)))
            answers.append((example, answer))
    batch, _ = table()
    for start in range(0, len(given), EXAMPLES_A_JOB):
        part = slice(start, start + EXAMPLES_A_JOB)
        for (example, answer), values in zip(answers[part], found(spark, given[part], zone), strict=True):
            wrong += [
                f"{example}: {batch.slice(row, 1).to_pylist()[0]}: Spark {value!r}, stream {answer[row]!r}"
                for row, value in values.items()
                if not is_same(value, answer[row])
            ][:3]
    return wrong


def test_functions_have_the_values_of_the_stream(spark: Any) -> None:
    assert (
        differences(spark, [EXAMPLES[function][0] for function in FUNCTIONS if EXAMPLES[function]], "UTC")
        == []
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_functions_have_the_values_of_the_stream_in_all_examples(spark: Any) -> None:
    assert differences(spark, [e for function in FUNCTIONS for e in EXAMPLES[function]], "UTC") == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "GMT-03:30", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_local_times_are_those_of_the_stream(zone: str, spark: Any) -> None:
    examples = [e for function in FUNCTIONS for e in EXAMPLES[function] if "lt" in e or "LTZ" in e]
    assert differences(spark, examples, zone) == []
