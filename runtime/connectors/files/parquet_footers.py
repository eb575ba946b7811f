"""What the footer of a Parquet file says of its columns, as far as engines and our reader agree on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.runtime.connectors.sql_filters import text
from sqlstream.runtime.formats.columnar.parquet import rows_of_groups

_WORDS_MAX = 60

_PLAIN: dict[pa.DataType, tuple[str, tuple[str, ...]]] = {
    pa.bool_(): ("BOOLEAN", ("NONE",)),
    pa.int8(): ("INT32", ("INT",)),
    pa.int16(): ("INT32", ("INT",)),
    pa.int32(): ("INT32", ("NONE", "INT")),
    pa.int64(): ("INT64", ("NONE", "INT")),
    pa.float32(): ("FLOAT", ("NONE",)),
    pa.float64(): ("DOUBLE", ("NONE",)),
    pa.string(): ("BYTE_ARRAY", ("STRING",)),
    pa.binary(): ("BYTE_ARRAY", ("NONE",)),
    pa.date32(): ("INT32", ("DATE",)),
}
"""Arrow's type, with the physical type and the annotations of Parquet that mean the same to every reader."""

_DECIMALS = ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY")


@dataclass(frozen=True)
class Footer:
    """`columns` are the wanted ones with the types that they have in the file. Files of one `layout` have the same columns in the
    same order."""

    columns: tuple[tuple[str, pa.DataType], ...]
    layout: str
    row_count: int
    group_count: int


def read_footer(stream: Any, wanted: Iterable[str]) -> Footer:
    """The footer of an open file. NotNative for a column that engines could read differently; what pyarrow raises for a file that
    is not Parquet."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    rows = rows_of_groups(file.metadata)
    types = file.schema_arrow
    leaves = {leaf.path: leaf for leaf in (file.schema.column(i) for i in range(len(file.schema)))}
    folded = Counter(name.lower() for name in types.names)
    columns = []
    for name in wanted:
        if name not in types.names:
            raise NotNative(f'a file has no column "{name}"')
        if folded[name.lower()] > 1:
            raise NotNative(f'a file has several columns "{name}", but for the case of letters')
        columns.append((name, _stored_type(name, types.field(name).type, leaves.get(name))))
    return Footer(tuple(columns), str(file.schema), sum(rows), len(rows))


def _stored_type(name: str, found: pa.DataType, leaf: Any) -> pa.DataType:
    """The type of the column: plain Arrow types, timestamps with zone UTC or none."""
    t = _plain(found)
    if leaf is None or leaf.max_repetition_level > 0 or leaf.max_definition_level > 1:
        raise NotNative(f'column "{name}" is nested')
    if not _is_agreed(t, leaf):
        words = leaf.physical_type if leaf.physical_type == "INT96" else str(found).upper()
        raise NotNative(f'column "{name}" is {words[:_WORDS_MAX]}')
    return t


def _plain(t: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(t):
        t = t.value_type
    if pa.types.is_large_string(t):
        return pa.string()
    if pa.types.is_large_binary(t):
        return pa.binary()
    if pa.types.is_timestamp(t) and t.tz is not None:
        return pa.timestamp(t.unit, "UTC")
    return t


def _is_agreed(t: pa.DataType, leaf: Any) -> bool:
    """Whether the annotations of the column say to every reader that it is of this type."""
    annotation = leaf.logical_type.type
    if t in _PLAIN:
        physical, annotations = _PLAIN[t]
        return leaf.physical_type == physical and annotation in annotations
    if pa.types.is_decimal128(t):
        return leaf.physical_type in _DECIMALS and annotation == "DECIMAL"
    if pa.types.is_timestamp(t) and t.unit in ("ms", "us"):
        return (
            leaf.physical_type == "INT64"
            and annotation == "TIMESTAMP"
            and _has_zone(leaf) == (t.tz is not None)
        )
    return False


def _has_zone(leaf: Any) -> bool | None:
    """Whether the timestamps are instants; None for old annotations, which do not say it."""
    said = json.loads(leaf.logical_type.to_json())
    return None if said.get("is_from_converted_type") else bool(said["isAdjustedToUTC"])


# What the column chunks of Parquet files say of their values: their range, and whether engines can decode them.
#
# DuckDB reads it, since pyarrow ends the process for some broken chunks.


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


# Why a table is read through our reader.


class NotNative(Exception):
    """An engine could read other rows than our reader, or none where ours fails. `reason` is for EXPLAIN."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
