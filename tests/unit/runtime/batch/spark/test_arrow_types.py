"""Columns of readers as Spark takes them."""

from __future__ import annotations

import datetime

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.batch.spark.arrow_types import as_spark_rows, spark_arrow_schema, spark_ddl
from sqlstream.schema import Schema

SCHEMA = Schema.of(
    ("b`c", sql.BOOLEAN),
    ("t", sql.time(3)),
    ("ts", sql.timestamp(3)),
    ("lt", sql.timestamp_ltz(6)),
    ("m", sql.INTERVAL_YEAR_MONTH),
    ("d", sql.INTERVAL_DAY_TIME),
    ("n", sql.NULL),
    ("x", sql.decimal(10, 2)),
    ("l", sql.array(sql.timestamp(3))),
    ("k", sql.map_of(sql.STRING, sql.INT)),
    ("r", sql.row(("y", sql.BIGINT))),
)


def test_columns_are_declared_with_the_types_of_spark() -> None:
    assert spark_ddl(SCHEMA) == (
        "`b``c` BOOLEAN, `t` INT, `ts` TIMESTAMP_NTZ, `lt` TIMESTAMP_NTZ, `m` INT, `d` BIGINT, `n` INT, `x` DECIMAL(10,2),"
        " `l` ARRAY<TIMESTAMP_NTZ>, `k` MAP<STRING,INT>, `r` STRUCT<`y`:BIGINT>"
    )
    found = spark_arrow_schema(SCHEMA)
    assert found.names == list(SCHEMA.names)
    us = pa.timestamp("us")
    assert found.types == [
        pa.bool_(), pa.int32(), us, us, pa.int32(), pa.int64(), pa.int32(), pa.decimal128(10, 2),
        pa.list_(pa.field("element", us)), pa.map_(pa.string(), pa.int32()), pa.struct([pa.field("y", pa.int64())]),
    ]  # fmt: skip


def test_rows_without_columns_are_counted_by_one_that_is_made_up() -> None:
    nothing = Schema(())
    assert spark_ddl(nothing) == "c BOOLEAN"
    schema = spark_arrow_schema(nothing)
    assert schema == pa.schema([("c", pa.bool_())])
    rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}, {}], pa.struct([])))
    assert as_spark_rows(rows, schema).to_pydict() == {"c": [None, None, None]}


def test_rows_are_cast_where_types_differ() -> None:
    schema = Schema.of(("ts", sql.timestamp(3)), ("i", sql.INT), ("t", sql.time(3)))
    moment = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)
    values = [[moment, None], [1, None], [datetime.time(0, 0, 1), None]]
    arrow = to_arrow_schema(schema)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(v, t) for v, t in zip(values, arrow.types, strict=True)], schema=arrow
    )
    wanted = spark_arrow_schema(schema)
    found = as_spark_rows(rows, wanted)
    assert found.schema == wanted
    assert found.to_pydict() == {"ts": [moment, None], "i": [1, None], "t": [1000, None]}
