"""What the footer of a Parquet file says of its columns, as far as engines and our reader agree on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.runtime.connectors.native_parquet.refusal import NotNative
from sqlstream.runtime.formats.parquet import rows_of_groups

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
