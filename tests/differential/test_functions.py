"""Every scalar function gives in DuckDB what it gives in a stream, row by row, in several time zones.

A row may fail in DuckDB instead, with an error that says why; it may not have another value. What fails in a stream fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from example_values import in_duckdb, planner_in, table
from function_examples import EXAMPLES

from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.planner.lower.expression import REFUSED
from sqlstream.planner.relational.nodes import Project, RelationalNode
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.schema import Schema
from sqlstream.times import check_time_zone

KNOWN_FAILURES = ("Overflow in ", "Overflow on ")
CLOCK = {
    "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "NOW", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME",
    "LOCALTIME",
}  # fmt: skip
BY_CHANCE = {"RAND", "RAND_INTEGER", "UUID"}
UNHELD = {"CAST(ts AS TIMESTAMP(9))", *EXAMPLES["PARSE_JSON"], *EXAMPLES["TRY_PARSE_JSON"]}
"""Examples some of which have values of types that DuckDB does not have."""

COMPARED = EXAMPLES.keys() - CLOCK - BY_CHANCE - REFUSED.keys()
EXAMPLES_MAX = 12
"""Examples of a function that are tried each time, spread over all of them."""

Values = list[Any] | Exception


def project_of(node: RelationalNode) -> Project:
    while not isinstance(node, Project):
        (node,) = node.inputs
    return node


def in_stream(expression: Expression, schema: Schema, batch: pa.RecordBatch, zone: str) -> Values:
    context = EvaluationContext(time_zone=check_time_zone(zone))
    try:
        return compile_expression(expression, schema, context)(batch).to_pylist()
    except UserError as error:
        return error


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return a == b and type(a) is type(b)


def differences(example: str, zone: str) -> list[str]:
    """What is wrong with one expression; empty where all rows agree."""
    node = planner_in(zone).bind(f"SELECT {example} AS v FROM t")
    project = project_of(node)
    schema = project.input.schema
    (batch,) = [table()[0].select(schema.names)]

    def compare(part: pa.RecordBatch, values: Callable[[pa.RecordBatch], pa.Array | Exception]) -> list[str]:
        ours, column = in_stream(project.expressions[0], schema, part, zone), values(part)
        theirs = column if isinstance(column, Exception) else column.to_pylist()
        if isinstance(ours, Exception) or isinstance(theirs, Exception):
            if part.num_rows > 1:
                half = part.num_rows // 2
                return compare(part.slice(0, half), values) + compare(part.slice(half), values)
            is_known = isinstance(theirs, Exception) and any(k in str(theirs) for k in KNOWN_FAILURES)
            is_both = isinstance(ours, Exception) and isinstance(theirs, Exception)
            return [] if is_known or is_both else [f"{example}: {part.to_pylist()}: {ours} is not {theirs}"]
        return [
            f"{example}: {row}: {a!r} is not {b!r}"
            for row, a, b in zip(part.to_pylist(), ours, theirs, strict=True)
            if not is_same(a, b)
        ]

    try:
        with in_duckdb(node, zone) as values:
            return compare(batch, values)
    except UserError as error:
        return [] if example in UNHELD and error.code == "SS3301" else [f"{example}: {error.message}"]


@pytest.mark.parametrize("function", sorted(COMPARED))
def test_a_function_has_the_values_of_the_stream(function: str) -> None:
    examples = EXAMPLES[function]
    share = examples[:: max(1, len(examples) // EXAMPLES_MAX)]
    assert [d for example in share for d in differences(example, "UTC")] == []


@pytest.mark.slow
@pytest.mark.parametrize("function", [f for f in sorted(COMPARED) if len(EXAMPLES[f]) > EXAMPLES_MAX])
def test_a_function_has_the_values_of_the_stream_in_all_examples(function: str) -> None:
    assert [d for example in EXAMPLES[function] for d in differences(example, "UTC")] == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "GMT-03:30"])
def test_local_times_are_those_of_the_stream(zone: str) -> None:
    examples = ["DATE_FORMAT(lt, 'dd.MM.yyyy HH:mm')", "FLOOR(lt TO DAY)", "CEIL(lt TO HOUR)", "HOUR(lt)"]
    examples += [
        "CAST(ts AS TIMESTAMP_LTZ(3))",
        "CAST(y AS TIMESTAMP_LTZ(3))",
        "CAST(lt AS STRING)",
        "CAST(lt AS TIME(3))",
    ]
    examples += [
        "TRY_CAST(s AS TIMESTAMP_LTZ(3))",
        "FROM_UNIXTIME(l)",
        "UNIX_TIMESTAMP(s)",
        "TIMESTAMPDIFF(DAY, lt, ts)",
    ]
    assert [d for example in examples for d in differences(example, zone)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "GMT+08:00"]
)
def test_every_example_is_the_same_in_every_time_zone(zone: str) -> None:
    of_time = [e for f, examples in EXAMPLES.items() if f in COMPARED for e in examples if "lt" in e]
    assert [d for example in of_time for d in differences(example, zone)] == []


def test_the_clock_is_read_once_for_a_query() -> None:
    node = planner_in("UTC").bind(
        "SELECT NOW() = CURRENT_TIMESTAMP AND CAST(LOCALTIMESTAMP AS DATE) = CURRENT_DATE AND CURRENT_TIME = LOCALTIME"
        " AND NOW() = CURRENT_ROW_TIMESTAMP() AND EXTRACT(YEAR FROM NOW()) > 2023 AS v FROM t"
    )
    with in_duckdb(node, "UTC") as values:
        found = values(table()[0].slice(0, 1))
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [True]
