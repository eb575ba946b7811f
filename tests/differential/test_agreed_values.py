"""Values on which implementations agreed that have nothing in common: the stream's, and SQL of DuckDB's and Spark's functions.

`agreed_values.jsonl` has a line for each expression: its text, the time zone, who agreed, and values by the row of
`function_examples.rows`.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from example_values import Guarded, bound, evaluate_in_duckdb, table
from expression_fuzzer import plain_values
from spark_harness.sql import evaluate_in_spark, plain

from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.times import check_time_zone

SPARK_STEP = 7
"""Of so many lines one is computed in Spark each time."""

LINES_A_JOB = 60

Line = tuple[str, str, str, dict[str, Any]]


def lines() -> list[Line]:
    text = (Path(__file__).parent / "agreed_values.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def parts(given: list[Line]) -> Iterator[tuple[str, list[Line]]]:
    """Lines of one time zone, as many as one query computes."""
    for zone, group in itertools.groupby(given, lambda line: line[1]):
        of_zone = [*group]
        for start in range(0, len(of_zone), LINES_A_JOB):
            yield zone, of_zone[start : start + LINES_A_JOB]


def encoded(value: Any) -> Any:
    """A value as the file has it."""
    match value:
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case float() if not math.isfinite(value):
            return {"float": repr(value)}
        case dict():
            return {"map": [[encoded(k), encoded(v)] for k, v in value.items()]}
        case list() | tuple():
            return [encoded(each) for each in value]
        case datetime.date() | datetime.time() | datetime.timedelta():
            return {type(value).__name__: str(value)}
    return value


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_same, a, b))
    return bool(a == b) and type(a) is type(b)


def differences(line: Line, found: list[Any]) -> list[str]:
    example, zone, _, values = line
    pairs = zip(values.items(), map(encoded, found), strict=True)
    return [
        f"{example} in {zone}, row {row}: {v!r} is not {a!r}" for (row, a), v in pairs if not is_same(a, v)
    ]


def rows_of(line: Line) -> pa.RecordBatch:
    batch, _ = table()
    return batch.take(pa.array(map(int, line[3])))


def test_functions_have_the_agreed_values_in_a_stream() -> None:
    wrong = []
    for line in lines():
        expression = bound(line[0], line[1])
        context = EvaluationContext(time_zone=check_time_zone(line[1]))
        column = compile_expression(expression, table()[1], context)(rows_of(line))
        wrong += differences(line, [plain(v, expression.type) for v in plain_values(column)])
    assert wrong == []


def test_functions_have_the_agreed_values_in_duckdb() -> None:
    wrong = []
    for zone, part in parts(lines()):
        asked = [Guarded(bound(line[0], zone), [*map(int, line[3])]) for line in part]
        for line, guarded, column in zip(part, asked, evaluate_in_duckdb(asked, zone), strict=True):
            wrong += differences(line, [plain(v, guarded.expression.type) for v in plain_values(column)])
    assert wrong == []


def test_functions_have_the_agreed_values_in_spark(spark: Any) -> None:
    assert _differences_in_spark(spark, lines()[::SPARK_STEP]) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_functions_have_all_agreed_values_in_spark(spark: Any) -> None:
    assert _differences_in_spark(spark, lines()) == []


def _differences_in_spark(spark: Any, given: list[Line]) -> list[str]:
    wrong = []
    batch, schema = table()
    for zone, part in parts(given):
        asked = [Guarded(bound(line[0], zone), [*map(int, line[3])]) for line in part]
        values = evaluate_in_spark(spark, asked, batch, schema.types, zone)
        for line, found in zip(part, values, strict=True):
            wrong += differences(line, found)
    return wrong
