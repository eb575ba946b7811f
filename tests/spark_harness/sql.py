"""Lowered SQL in the Spark of this process: tables from Arrow, and many expressions in one job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from example_values import Guarded, guarded_columns
from expression_fuzzer import plain_values
from oracle import Row, rows_of
from sqlglot import exp

from spark_harness.engine import SMALL, spark_engine
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.batch_plan import BatchPlan
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.lower.relation import lower, to_sql
from sqlstream.planner.lower.spark import SparkDialect
from sqlstream.planner.relational.nodes import RelationalNode
from sqlstream.runtime.batch.spark import shipped
from sqlstream.runtime.batch.spark.hosted_functions import register_functions
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

ROW_NUMBER = "row_number_"


@contextmanager
def spark_session() -> Iterator[Any]:
    """A session with the lowering's settings, of the one Spark of this process (about 5 s when it has to start)."""
    config = {**SMALL, "spark.sql.shuffle.partitions": "1"}
    with spark_engine()._sessions.session(config, lambda words: None, lambda: False) as (_, session):
        yield session


def spark_column(column: pa.Array, t: LogicalType) -> pa.Array:
    """A column as Spark's reader must provide it (see sqlstream.spark_types)."""
    if t.root is TypeRoot.TIME:
        return column.cast(pa.int32())
    if t.root is TypeRoot.INTERVAL_DAY_TIME:
        return column.cast(pa.int64())
    if sql.is_timestamp(t):
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.timestamp("us"))
    return column


def create_view(spark: Any, name: str, table: pa.Table, schema: Schema) -> None:
    """`table` as a temporary view of this name."""
    columns = [spark_column(c.combine_chunks(), t) for c, t in zip(table.columns, schema.types, strict=True)]
    arrow = pa.Table.from_arrays(columns, names=list(schema.names))
    spark.createDataFrame(arrow).createOrReplaceTempView(f"`{name}`")


def host(spark: Any, dialect: SparkDialect) -> None:
    """Make what was hosted known to the session."""
    from pyspark.cloudpickle import register_pickle_by_value
    from pyspark.sql.udf import _create_udf
    from pyspark.util import PythonEvalType

    register_pickle_by_value(shipped)

    def register(name: str, arguments: str, ddl: str, is_volatile: bool) -> None:
        function = shipped.make_function(arguments, None)
        spark.udf.register(name, _create_udf(function, ddl, PythonEvalType.SQL_SCALAR_ARROW_UDF))

    config = {"table.local-time-zone": dialect.time_zone}
    register_functions(BatchPlan("job", "test", "spark", (), (), config, dialect.functions.found), register)


def spark_answer(spark: Any, node: RelationalNode, time_zone: str = "UTC") -> list[Row]:
    """The rows of a bound plan over the views that have its tables' names, in the engine's types."""
    dialect = SparkDialect(HostedFunctions(), time_zone)
    text = to_sql(lower(node, dialect, lambda scan: f"`{scan.table.path.name}`"), dialect)
    host(spark, dialect)
    answer = spark.sql(text).toArrow()
    wanted = to_arrow_schema(node.schema)
    columns = [_as(c, f.type) for c, f in zip(answer.columns, wanted, strict=True)]
    return rows_of(pa.Table.from_arrays(columns, schema=wanted))


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(wanted) and wanted.tz:
        return column.cast(pa.timestamp(wanted.unit)).cast(wanted)
    return column.cast(wanted)


def evaluate_in_spark(
    spark: Any,
    given: Sequence[Guarded],
    batch: pa.RecordBatch,
    types: Sequence[LogicalType],
    time_zone: str = "UTC",
) -> list[list[Any]]:
    """Plain values (see `plain`) of each expression's rows, all in one job."""
    dialect = SparkDialect(HostedFunctions(), time_zone)
    columns: list[exp.Expr] = [tree.column(ROW_NUMBER, "i")]
    columns += guarded_columns(given, dialect, len(types), tree.column(ROW_NUMBER, "i"))
    schema = Schema.of(*((f"c{i}", t) for i, t in enumerate(types)), (ROW_NUMBER, sql.INT))
    numbered = [*batch.columns, pa.array(range(batch.num_rows), pa.int32())]
    create_view(spark, "batch", pa.Table.from_arrays(numbered, names=list(schema.names)), schema)
    query = tree.select(columns, tree.alias(tree.raw("batch"), "i"))
    host(spark, dialect)
    answer = spark.sql(query.sql(dialect="spark", normalize_functions=False)).toArrow()
    answer = answer.take(pc.sort_indices(answer.column(0))).combine_chunks()
    found = []
    for guarded, column in zip(given, answer.columns[1:], strict=True):
        t = guarded.expression.type
        expected = spark_column(pa.nulls(0, to_arrow_type(t)), t).type
        is_flat = t.element is None and not t.fields and t.root is not TypeRoot.NULL
        assert not is_flat or column.type == expected, f"{guarded.expression} is {column.type}"
        values = plain_values(column.chunk(0) if column.num_chunks else pa.nulls(0, column.type))
        found.append([plain(values[r], t, is_spark=True) for r in guarded.rows])
    return found


def plain(value: Any, t: LogicalType, *, is_spark: bool = False) -> Any:
    """A value of `plain_values` with timestamps in microseconds, and a map as a dict."""
    if value is None:
        return None
    if sql.is_timestamp(t):
        return value if is_spark or t.precision > 3 else value * 1000
    if t.root is TypeRoot.MAP:
        assert t.key is not None
        assert t.element is not None
        keys = [plain(k, t.key, is_spark=is_spark) for k, _ in value]
        return dict(zip(keys, (plain(v, t.element, is_spark=is_spark) for _, v in value), strict=True))
    if t.root is TypeRoot.ARRAY:
        assert t.element is not None
        return [plain(v, t.element, is_spark=is_spark) for (v,) in value]
    if t.fields:
        pairs = zip(value, t.fields, strict=True)
        return tuple(plain(v, f.type, is_spark=is_spark) for v, f in pairs)
    return value


def is_same(a: Any, b: Any) -> bool:
    """Equal, floats up to a few units of the last place."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[k], b[k]) for k in a)
    return bool(a == b) and type(a) is type(b)
