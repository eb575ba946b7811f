"""Texts of JSON values, at any depth, as the values of a column's type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.text_values import parse_decimals, parse_text
from sqlstream.types import LogicalType, TypeRoot, is_integer

Parse = Callable[[pa.Array, LogicalType], pa.Array]


def parse_values(column: pa.Array, t: LogicalType, parse: Parse | None = None) -> pa.Array:
    """Texts, at any depth, as values; ArrowInvalid when one of them is none. `parse` is what the parts of a nested value are read
    by, where it is not this."""
    parse = parse or parse_values
    match t.root:
        case TypeRoot.ROW:
            parts = [parse(part, f.type) for part, f in zip(column.flatten(), t.fields, strict=True)]
            fields = [pa.field(f.name, p.type) for f, p in zip(t.fields, parts, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
        case TypeRoot.ARRAY:
            assert t.element is not None
            values = parse(column.flatten(), t.element)
            return pa.ListArray.from_arrays(
                offsets_of(column), values, type=to_arrow_type(t), mask=column.is_null()
            )
        case TypeRoot.MAP:
            assert t.key is not None
            assert t.element is not None
            entries = entries_of(column)
            return pa.MapArray.from_arrays(
                offsets_of(column),
                parse(entries.field(0), t.key),
                parse(entries.field(1), t.element),
                type=to_arrow_type(t),
                mask=column.is_null(),
            )
        case TypeRoot.BOOLEAN:
            return _parse_boolean(column)
        case _ if is_integer(t):
            return _parse_integer(column, t)
        case _:
            return parse_text(column, t)


def entries_of(column: pa.MapArray) -> pa.StructArray:
    """The entries of all maps that are not NULL, in the order of `offsets_of`."""
    entry = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    maps = pa.ListArray.from_buffers(
        pa.list_(entry.type), len(column), column.buffers()[:2], column.null_count, column.offset, [entry]
    )
    return maps.flatten()


def offsets_of(column: pa.Array) -> pa.Array:
    """The offset of each list when the elements of all non-NULL lists are concatenated."""
    if pa.types.is_map(column.type):
        starts = np.frombuffer(column.buffers()[1], dtype=np.int32)[
            column.offset : column.offset + len(column) + 1
        ]
        lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(starts), 0)
    else:
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))


def _parse_boolean(column: pa.Array) -> pa.Array:
    if pc.any(pc.is_in(column, value_set=pa.array(["0", "1"]))).as_py():
        raise pa.ArrowInvalid("a number is no boolean")
    return parse_text(column, LogicalType(TypeRoot.BOOLEAN))


def _parse_integer(column: pa.Array, t: LogicalType) -> pa.Array:
    try:
        return parse_text(column, t)
    except pa.ArrowInvalid:
        # JSON has no integer type: 2.0 and 2e3 are integers too, as long as no digit is lost.
        whole = parse_decimals(column, pa.decimal128(38, 18))
        return pc.cast(whole, to_arrow_type(t))
