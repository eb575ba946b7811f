"""Functions of the stream that Spark's workers call with the columns of their batches."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import BatchPlan
from sqlstream.runtime.batch.casting import cast_column
from sqlstream.runtime.batch.spark.arrow_types import as_spark_rows, spark_arrow_schema
from sqlstream.runtime.batch.spark.errors import TaskFailed
from sqlstream.runtime.evaluate.compiled import compile_expression
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.process import forgo_pandas_once
from sqlstream.schema import Field, Schema
from sqlstream.spark_types import spark_type
from sqlstream.specs.batch_query import HostedFunction

Compute = Callable[[tuple[pa.Array, ...]], pa.Array]

_COMPILED_MAX = 256
"""Functions that a worker keeps: it serves many tasks."""


class HostedArguments(msgspec.Struct, frozen=True):
    """What a worker is told of a function: its settings, and the time of the query, which all its rows see."""

    function: HostedFunction
    config: dict[str, str]
    moment_ms: int


def register_functions(plan: BatchPlan, register: Callable[[str, str, str, bool], object]) -> None:
    """Give each function of a plan to `register`: its name, its arguments as JSON, Spark's type of its result, and whether it may
    have another value each time."""
    moment_ms = now_ms()
    for function in plan.functions:
        told = msgspec.json.encode(HostedArguments(function, plan.config, moment_ms)).decode()
        register(function.name, told, spark_type(function.call.type), function.is_volatile)


def run_hosted(arguments: str, columns: tuple[pa.Array, ...]) -> pa.Array:
    """One result for each row of the columns. Our errors are raised as TaskFailed."""
    forgo_pandas_once()
    try:
        return _compiled(arguments)(columns)
    except Exception as error:
        raise TaskFailed(error) from error


@functools.lru_cache(maxsize=_COMPILED_MAX)
def _compiled(arguments: str) -> Compute:
    told = msgspec.json.decode(arguments, type=HostedArguments)
    function = told.function
    schema = Schema(tuple(Field(f"a{i}", t) for i, t in enumerate(function.arguments)))
    result = Schema((Field("r", function.call.type),))
    arrow, spark = to_arrow_schema(schema), spark_arrow_schema(result)
    context = EvaluationContext.of(lambda: told.moment_ms, told.config)
    compute = compile_expression(function.call, schema, context)

    def computed(columns: tuple[pa.Array, ...]) -> pa.Array:
        given = [cast_column(column, field) for column, field in zip(columns, arrow, strict=True)]
        made = compute(pa.RecordBatch.from_arrays(given, schema=arrow))
        return as_spark_rows(pa.RecordBatch.from_arrays([made], names=["r"]), spark).column(0)

    return computed
