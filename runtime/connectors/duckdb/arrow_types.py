"""DuckDB's types for the Arrow types of our columns."""

from __future__ import annotations

import pyarrow as pa

_TIMESTAMPS_OF_UNITS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def duckdb_type(t: pa.DataType) -> str:
    """DuckDB's type for an Arrow type of a column."""
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_timestamp(t):
        if t.tz is not None:
            return "TIMESTAMPTZ"
        return _TIMESTAMPS_OF_UNITS[t.unit]
    if pa.types.is_time(t):
        return "TIME"
    return _OF_ARROW[t]


_OF_ARROW: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
}
