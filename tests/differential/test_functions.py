"""Every scalar function gives in DuckDB what it gives in a stream, row by row, in several time zones.

A row may fail in DuckDB instead, with an error that says why; it may not have another value. What fails in a stream fails.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from function_examples import COLUMNS, EXAMPLES, rows
from planner_harness import Planner

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.expressions import Expression
from sqlstream.planner.lower.duckdb import functions
from sqlstream.planner.lower.duckdb.dialect import DuckDbDialect
from sqlstream.planner.lower.duckdb.types import type_name
from sqlstream.planner.lower.relation import lower, to_sql
from sqlstream.planner.relational.nodes import Project, RelationalNode
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.schema import Field, Schema
from sqlstream.times import check_time_zone

KNOWN_FAILURES = ("Overflow in ", "Overflow on ", "has no exact counterpart in DuckDB")
CLOCK = {
    "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "NOW", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME",
    "LOCALTIME",
}  # fmt: skip
REFUSED = {
    "REGEXP_REPLACE(s, 'x*', '-')", "REGEXP_REPLACE(s, '', '.')",
    "s SIMILAR TO r", "REGEXP(s, r)", "REGEXP_EXTRACT(s, r)", "REGEXP_REPLACE(s, r, 'Q')", "REGEXP_COUNT(s, r)",
    "TO_TIMESTAMP_LTZ(x, 0)", "TO_TIMESTAMP_LTZ(d, 3)", "CAST(ts AS TIMESTAMP(9))",
    "SHA2(s, 512)",
}  # fmt: skip
"""Examples of lowered functions that are refused."""

LOWERED = EXAMPLES.keys() - functions.REFUSED.keys() - CLOCK
EXAMPLES_MAX = 12
"""Examples of a function that are tried each time, spread over all of them."""

Values = list[Any] | Exception


@functools.cache
def table() -> pa.Table:
    return pa.Table.from_pylist(rows(), to_arrow_schema(planner_in("UTC").bind("SELECT * FROM t").schema))


@functools.cache
def planner_in(zone: str) -> Planner:
    made = Planner()
    made.set("table.local-time-zone", zone)
    made.run(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    """What a connection says about time zones must not matter."""
    made = duckdb.connect(config={"threads": 1})
    made.execute("SET TimeZone = 'America/New_York'")
    return made


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


def in_duckdb(sql: str, batch: pa.RecordBatch, field: Field) -> Values:
    connection().register("t", pa.Table.from_batches([batch]))
    (wanted,) = to_arrow_schema(Schema((field,)))
    try:
        found = connection().sql(sql)
        assert found.types == connection().sql(f"SELECT CAST(NULL AS {type_name(field.type)})").types, sql
        column = found.to_arrow_table().column(0)
    except duckdb.Error as error:
        return error
    if pa.types.is_timestamp(wanted.type):
        column = column.cast(pa.timestamp(wanted.type.unit))
    return column.cast(wanted.type).to_pylist()


def is_same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return a == b and type(a) is type(b)


def differences(example: str, zone: str) -> list[str]:
    """What is wrong with one expression; empty where all rows agree."""
    node = planner_in(zone).bind(f"SELECT {example} AS v FROM t")
    project, engine = project_of(node), DuckDbDialect(zone)
    try:
        sql = to_sql(lower(node, engine, lambda scan: "t"), engine)
    except UserError as error:
        return [] if example in REFUSED and error.code == "SS3301" else [f"{example}: {error.message}"]
    schema, field = project.input.schema, node.schema.fields[0]
    (batch,) = table().select(schema.names).combine_chunks().to_batches()

    def compare(part: pa.RecordBatch) -> list[str]:
        ours, theirs = in_stream(project.expressions[0], schema, part, zone), in_duckdb(sql, part, field)
        if isinstance(ours, Exception) or isinstance(theirs, Exception):
            if part.num_rows > 1:
                half = part.num_rows // 2
                return compare(part.slice(0, half)) + compare(part.slice(half))
            is_known = isinstance(theirs, Exception) and any(k in str(theirs) for k in KNOWN_FAILURES)
            is_both = isinstance(ours, Exception) and isinstance(theirs, Exception)
            return [] if is_known or is_both else [f"{example}: {part.to_pylist()}: {ours} is not {theirs}"]
        return [
            f"{example}: {row}: {a!r} is not {b!r}"
            for row, a, b in zip(part.to_pylist(), ours, theirs, strict=True)
            if not is_same(a, b)
        ]

    return compare(batch)


@pytest.mark.parametrize("function", sorted(LOWERED))
def test_a_function_has_the_values_of_the_stream(function: str) -> None:
    examples = EXAMPLES[function]
    share = examples[:: max(1, len(examples) // EXAMPLES_MAX)]
    assert [d for example in share for d in differences(example, "UTC")] == []


@pytest.mark.slow
@pytest.mark.parametrize("function", [f for f in sorted(LOWERED) if len(EXAMPLES[f]) > EXAMPLES_MAX])
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
    of_time = [
        e
        for f, examples in EXAMPLES.items()
        if f not in functions.REFUSED.keys() | CLOCK
        for e in examples
        if "lt" in e
    ]
    assert [d for example in of_time for d in differences(example, zone)] == []


def test_the_clock_is_read_once_for_a_query() -> None:
    node = planner_in("UTC").bind(
        "SELECT NOW() = CURRENT_TIMESTAMP, CAST(LOCALTIMESTAMP AS DATE) = CURRENT_DATE, CURRENT_TIME = LOCALTIME,"
        " NOW() = CURRENT_ROW_TIMESTAMP(), EXTRACT(YEAR FROM NOW()) > 2023 FROM t"
    )
    engine = DuckDbDialect()
    connection().register("t", table().slice(0, 1))
    sql = to_sql(lower(node, engine, lambda scan: "t"), engine)
    assert connection().sql(sql).fetchall() == [(True,) * 5]


@pytest.mark.parametrize("function", ["UPPER", "LOWER"])
def test_letters_are_mapped_as_in_a_stream_or_refused(function: str) -> None:
    """Of all letters that have another case, alone and within a word."""
    letters = [c for c in map(chr, range(1, 0x20000)) if not 0xD800 <= ord(c) < 0xE000 and c.swapcase() != c]
    call = planner_in("UTC").bind(f"SELECT {function}(s) AS v FROM t")
    (expression,) = project_of(call).expressions
    schema = project_of(call).input.schema
    texts = pa.array([t for c in letters for t in (c, f"a{c}b")])
    arrow = to_arrow_schema(schema)
    columns = [texts if f.name == "s" else pa.nulls(len(texts), f.type) for f in arrow]
    batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
    ours = in_stream(expression, schema, batch, "UTC")
    engine = DuckDbDialect()
    sql = to_sql(lower(call, engine, lambda scan: "t"), engine)
    # Each letter that DuckDB refuses becomes NULL here.
    guarded = sql.replace("error(", "CAST(").replace(
        "counterpart in DuckDB')", "counterpart in DuckDB' AS VARCHAR)"
    )
    connection().register("t", pa.Table.from_batches([batch]))
    theirs = connection().sql(guarded).to_arrow_table().column(0).to_pylist()
    refused = [c for c in theirs if c is not None and "no exact counterpart" in c]
    assert isinstance(ours, list)
    assert [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b and b not in refused] == []
    assert len(refused) < len(theirs) / 10
