"""Values that all rows of a file have in common, as constants of an engine's SQL."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.runtime.connectors.duckdb.arrow_types import duckdb_type
from sqlstream.runtime.connectors.native_parquet.refusal import NotNative
from sqlstream.runtime.connectors.sql_filters import text
from sqlstream.spark_types import spark_type
from sqlstream.types import LogicalType


def constant(engine: str, name: str, value: pa.Scalar, declared: LogicalType) -> str:
    """NotNative for a type whose values have no plain constant."""
    t = value.type
    is_text, is_whole = pa.types.is_string(t), pa.types.is_integer(t) or pa.types.is_boolean(t)
    is_moment = pa.types.is_timestamp(t) and t.unit in ("ms", "us")
    if not (is_text or is_whole or is_moment or pa.types.is_date32(t)):
        raise NotNative(
            f'column "{name}" stands in the names of directories and is {declared.with_nullable(True)}'
        )
    return _duckdb(value) if engine == "duckdb" else _spark(value, spark_type(declared))


def _duckdb(value: pa.Scalar) -> str:
    t = value.type
    if not value.is_valid:
        return f"CAST(NULL AS {duckdb_type(t)})"
    if pa.types.is_string(t):
        return text(_utf8(value))
    if pa.types.is_date32(t):
        return f"(DATE '1970-01-01' + CAST({value.value} AS INTEGER))"
    if pa.types.is_timestamp(t):
        make = "make_timestamp" if t.tz is None else "make_timestamptz"
        return f"CAST({make}(CAST({_microseconds(value)} AS BIGINT)) AS {duckdb_type(t)})"
    return f"CAST({value.as_py()} AS {duckdb_type(t)})"


def _spark(value: pa.Scalar, wanted: str) -> str:
    t = value.type
    if not value.is_valid:
        return f"CAST(NULL AS {wanted})"
    if pa.types.is_string(t):
        return "'" + _utf8(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if pa.types.is_date32(t):
        return f"date_from_unix_date({value.value})"
    if pa.types.is_timestamp(t):
        return f"CAST(timestamp_micros({_microseconds(value)}) AS TIMESTAMP_NTZ)"
    return f"CAST({value.as_py()} AS {wanted})"


def _microseconds(value: pa.Scalar) -> int:
    return int(value.value) * (1000 if value.type.unit == "ms" else 1)


def _utf8(value: pa.Scalar) -> str:
    return str(value.as_py())
