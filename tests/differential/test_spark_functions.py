"""Every scalar function gives in Spark what it gives in a stream, row by row, in several time zones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from example_values import Guarded, bound, table
from expression_fuzzer import plain_values
from function_examples import EXAMPLES
from spark_harness.sql import evaluate_in_spark, is_same, plain

from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.lower.expression import REFUSED, lower_expression
from sqlstream.planner.lower.spark import SparkDialect
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.times import check_time_zone

CLOCK = {
    "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "NOW", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME",
    "LOCALTIME",
}  # fmt: skip
BY_CHANCE = {"RAND", "RAND_INTEGER", "UUID"}
UNHELD = {"CAST(ts AS TIMESTAMP(9))", *EXAMPLES["PARSE_JSON"], *EXAMPLES["TRY_PARSE_JSON"]}
"""Examples some of which have values of types that Spark does not have."""

FUNCTIONS = sorted(EXAMPLES.keys() - CLOCK - BY_CHANCE - REFUSED.keys())
EXAMPLES_A_JOB = 60


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


def differences(spark: Any, examples: Sequence[str], zone: str) -> list[str]:
    wrong, given, answers = [], [], []
    for example in examples:
        expression = bound(example, zone)
        try:
            lower_expression(expression, SparkDialect(HostedFunctions(), zone), tree.input_column)
        except UserError as error:
            if example not in UNHELD or error.code != "SS3301":
                wrong.append(f"{example}: {error.message}")
            continue
        answer = expected(expression, zone)
        if answer:
            given.append(Guarded(expression, list(answer)))
            answers.append((example, answer))
    batch, _ = table()
    for start in range(0, len(given), EXAMPLES_A_JOB):
        part = slice(start, start + EXAMPLES_A_JOB)
        found = evaluate_in_spark(spark, given[part], batch, table()[1].types, zone)
        for (example, answer), values in zip(answers[part], found, strict=True):
            wrong += [
                f"{example}: {batch.slice(row, 1).to_pylist()[0]}: Spark {value!r}, stream {answer[row]!r}"
                for row, value in zip(answer, values, strict=True)
                if not is_same(value, answer[row])
            ][:3]
    return wrong


def test_functions_have_the_values_of_the_stream(spark: Any) -> None:
    assert differences(spark, [e for function in FUNCTIONS for e in EXAMPLES[function][:2]], "UTC") == []


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
