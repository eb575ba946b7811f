"""Expressions of an engine that make the values of our reader of the values that a Parquet file stores.

NaN: an engine passes over row groups whose greatest value is too small, and DuckDB answers MAX from there, but the statistics of
Parquet leave NaN out. So columns of floats are wrapped, and conditions on them are checked row by row."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.connectors.duckdb.arrow_types import duckdb_type
from sqlstream.runtime.connectors.sql_filters import quote
from sqlstream.spark_types import quote as spark_name
from sqlstream.spark_types import spark_type
from sqlstream.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

_CARRIED = (
    *INTEGER_ROOTS,
    *STRING_ROOTS,
    *BINARY_ROOTS,
    TypeRoot.BOOLEAN,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
    TypeRoot.DATE,
    TypeRoot.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ,
)


def is_carried(stored: pa.DataType, declared: LogicalType) -> bool:
    """Whether each value of the stored type is one of the declared type, to engines as to our reader."""
    if declared.root not in _CARRIED:
        return False
    target = to_arrow_type(declared)
    if pa.types.is_integer(stored) and pa.types.is_integer(target):
        return bool(stored.bit_width <= target.bit_width)
    if pa.types.is_floating(stored) and pa.types.is_floating(target):
        return bool(stored.bit_width <= target.bit_width)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(target):
        return bool(stored.scale == target.scale and stored.precision <= target.precision)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(target):
        return (stored.tz is None) == (target.tz is None) and target.unit in ("ms", "us")
    return bool(stored == target)


def duckdb_expression(name: str, stored: pa.DataType, declared: LogicalType) -> str:
    """The column in the type that DuckDB has for the Arrow type of the declared one."""
    column, target = quote(name), to_arrow_type(declared)
    if pa.types.is_floating(target):
        # DuckDB takes the statistics of a column for those of all expressions over it but TRY.
        return f"TRY(CAST({column} AS {duckdb_type(target)}))"
    if pa.types.is_timestamp(target):
        cut = f"date_trunc('milliseconds', {column})" if _is_cut(stored, target) else column
        return f"CAST({cut} AS {duckdb_type(target)})"
    return column if stored == target else f"CAST({column} AS {duckdb_type(target)})"


def spark_expression(name: str, stored: pa.DataType, declared: LogicalType) -> str:
    """The column in the type of `sqlstream.spark_types`."""
    column, target, wanted = spark_name(name), to_arrow_type(declared), spark_type(declared)
    if pa.types.is_floating(target):
        return f"IF(isnan({column}), CAST('NaN' AS {wanted}), CAST({column} AS {wanted}))"
    if pa.types.is_string(target):
        # Our reader fails for bytes that are no text; Spark would hand them on.
        return f"validate_utf8({column})"
    if pa.types.is_timestamp(target):
        cut = f"date_trunc('MILLISECOND', {column})" if _is_cut(stored, target) else column
        return f"CAST({cut} AS TIMESTAMP_NTZ)"
    return column if stored == target else f"CAST({column} AS {wanted})"


def spark_stored_type(t: pa.DataType) -> str:
    """The type as which Spark reads a column."""
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return "TIMESTAMP_NTZ" if t.tz is None else "TIMESTAMP_LTZ"
    return _SPARK_TYPES[t]


_SPARK_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}


def _is_cut(stored: pa.DataType, target: pa.DataType) -> bool:
    return bool(stored.unit == "us" and target.unit == "ms")
