"""What the column chunks of Parquet files say of their values: their range, and whether engines can decode them.

DuckDB reads it, since pyarrow ends the process for some broken chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.runtime.connectors.native_parquet.refusal import NotNative
from sqlstream.runtime.connectors.sql_filters import text

_COMPRESSIONS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4_RAW")
_ENCODINGS = (
    *("PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"),
    *("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
)
"""What pyarrow, DuckDB and Spark all decode."""

_LAST = "9999-12-31 23:59:59.999999"


@dataclass(frozen=True)
class Reading:
    """The columns to read from files of one layout, in which they have `types`."""

    paths: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    group_count: int


def stored_bytes(connection: Any, reading: Reading, first_year: int) -> int:
    """How many bytes the columns have in the files. NotNative unless engines decode all of it, and the statistics show that all
    values are values of their types, with times from `first_year` to 9999: there our reader fails and engines do not."""
    if not reading.names or not reading.group_count:
        return 0
    total = 0
    found = {row[0]: row[1:] for row in connection.execute(_query(reading, first_year)).fetchall()}
    for name in reading.names:
        chunks, are_decodable, is_within, byte_count = found.get(name, (0, False, False, 0))
        if chunks != reading.group_count or not are_decodable:
            raise NotNative(f'column "{name}" has an encoding or compression that not every engine reads')
        if not is_within:
            t = reading.types[reading.names.index(name)]
            is_time = pa.types.is_date32(t) or pa.types.is_timestamp(t)
            words = f"lies in the years {first_year:04} to 9999" if is_time else f"fits {t}"
            raise NotNative(f'the statistics of its files do not show that column "{name}" {words}')
        total += int(byte_count)
    return total


def _query(reading: Reading, first_year: int) -> str:
    cases = "".join(
        f" WHEN {text(name)} THEN {bounds}"
        for name, t in zip(reading.names, reading.types, strict=True)
        if (bounds := _bounds(t, first_year)) is not None
    )
    bounded = f"CASE path_in_schema{cases} ELSE true END" if cases else "true"
    encodings = ", ".join(text(e) for e in _ENCODINGS)
    compressions = ", ".join(text(c) for c in _COMPRESSIONS)
    return f"""
        WITH chunks AS (
            SELECT path_in_schema, compression, encodings, total_compressed_size, num_values, stats_null_count,
                coalesce(stats_min_value, stats_min) AS low, coalesce(stats_max_value, stats_max) AS high
            FROM parquet_metadata([{", ".join(text(path) for path in reading.paths)}])
            WHERE path_in_schema IN ({", ".join(text(name) for name in reading.names)})
        )
        SELECT path_in_schema, count(*),
            bool_and(coalesce(compression IN ({compressions})
                AND list_has_all([{encodings}], string_split(encodings, ', ')), false)),
            bool_and(coalesce(stats_null_count = num_values, false) OR coalesce({bounded}, false)),
            sum(total_compressed_size)
        FROM chunks GROUP BY path_in_schema"""


def _bounds(t: pa.DataType, first_year: int) -> str | None:
    """The condition for `low` and `high`; None where the bits of the stored type have no other values."""
    if pa.types.is_date32(t):
        return _between("DATE", f"DATE '{first_year:04}-01-01'", "DATE '9999-12-31'")
    if pa.types.is_timestamp(t):
        return _between("TIMESTAMP", f"TIMESTAMP '{first_year:04}-01-01 00:00:00'", f"TIMESTAMP '{_LAST}'")
    if pa.types.is_decimal(t):
        decimal = f"DECIMAL(38, {t.scale})"
        digits = "9" * (t.precision - t.scale) or "0"
        most = f"CAST('{digits}.{'9' * t.scale}' AS {decimal})"
        return _between(decimal, f"-{most}", most)
    if pa.types.is_int8(t) or pa.types.is_int16(t):
        most = 1 << (t.bit_width - 1)
        return _between("BIGINT", str(-most), str(most - 1))
    return None


def _between(kind: str, least: str, most: str) -> str:
    return f"(TRY_CAST(low AS {kind}) >= {least} AND TRY_CAST(high AS {kind}) <= {most})"
