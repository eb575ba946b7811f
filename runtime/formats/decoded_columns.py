"""Columns that a kernel fills entry by entry: their memory, and what it has written as Arrow's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.encoded_columns import element_types
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.kernels.buffers import address_of, to_array, validity_buffer
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

Array = np.ndarray[Any, Any]

NULLS = 3
"""The place in a column's line of the table where kernels count its NULLs."""

_TEXT_BYTES_MAX = 2**31 - 1


@dataclass
class Column:
    """A column of a kernel. `width`: the bytes of an entry, 0 where they vary, −1 for one without a value of its own.
    `text_bytes`: how many an entry may have that are not in its message."""

    scope: int
    width: int
    text_bytes: int = 0


@dataclass
class Value:
    """A value of a type, the number of its column, and the values within it."""

    type: LogicalType
    column: int
    parts: list[Value] = field(default_factory=list)


class Rows(NamedTuple):
    """`owners`: the place of each row's message. `rejected`: place and reason of each message that is malformed."""

    batch: pa.RecordBatch
    owners: Array
    rejected: Array


class ColumnPlan:
    """Columns and their scopes. Scope 0 has the rows, each other one the elements of a list; `lists` has the lists' columns."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.lists = [-1]

    def declared(self, t: LogicalType, scope: int = 0) -> Value:
        """Columns for values of a type."""
        made = Value(t, len(self.columns))
        self.columns.append(Column(scope, _width(t)))
        if t.root is TypeRoot.ROW:
            made.parts = [self.declared(f.type, scope) for f in t.fields]
        elif (elements := element_types(t)) is not None:
            within = len(self.lists)
            self.lists.append(made.column)
            made.parts = [self.declared(part, within) for part in elements]
        return made

    def memory(self, rows_max: int, size: int) -> ColumnMemory:
        """Room for so many rows out of messages of this size together."""
        return ColumnMemory(self, rows_max, size)


class ColumnMemory:
    """The arrays of the columns of a plan. `table` has a line for each column: the addresses of values, offsets and validity
    (a byte an entry), the number of NULLs, and the scope; `cursors` has the number of entries of each scope."""

    def __init__(self, plan: ColumnPlan, rows_max: int, size: int) -> None:
        elements_max = min(size, _TEXT_BYTES_MAX)
        self._entries = [_Entries(c, rows_max if c.scope == 0 else elements_max, size) for c in plan.columns]
        self.table = np.array([e.line() for e in self._entries], dtype=np.int64).reshape(-1, 5)
        self.lists = np.array(plan.lists, dtype=np.int64)
        self.cursors = np.zeros(len(plan.lists), dtype=np.int64)

    def count_nulls(self) -> None:
        """For a kernel that has not counted them."""
        for place, entries in enumerate(self._entries):
            count = int(self.cursors[entries.scope])
            self.table[place, NULLS] = count - np.count_nonzero(entries.valid[:count])

    def batch(self, values: Mapping[str, Value], rows: int) -> pa.RecordBatch:
        """What was written as columns of the size that they need."""
        if not values:
            return empty_columns(rows)
        return pa.RecordBatch.from_arrays([self.array(v) for v in values.values()], names=list(values))

    def array(self, value: Value) -> pa.Array:
        entries = self._entries[value.column]
        count = int(self.cursors[entries.scope])
        valid = entries.valid[:count] if self.table[value.column, NULLS] else None
        t, root = to_arrow_type(value.type), value.type.root
        if root is TypeRoot.NULL:
            return pa.nulls(count)
        if root is TypeRoot.ROW:
            parts = [self.array(part) for part in value.parts]
            return pa.Array.from_buffers(t, count, [validity_buffer(valid)], children=parts)
        if entries.offsets.size:
            ends = entries.offsets[: count + 1].copy()
            if not value.parts:
                data = entries.values[: ends[-1]].copy()
                return pa.Array.from_buffers(
                    t, count, [validity_buffer(valid), pa.py_buffer(ends), pa.py_buffer(data)]
                )
            parts = [self.array(part) for part in value.parts]
            if pa.types.is_map(t):
                ends, parts = with_last_values(ends, parts)
                fields = pa.struct([t.key_field, t.item_field])
                parts = [pa.Array.from_buffers(fields, len(parts[0]), [None], children=parts)]
            return pa.Array.from_buffers(
                t, count, [validity_buffer(valid), pa.py_buffer(ends)], children=parts
            )
        return to_array(t, _plain(entries.values, count, root, t), valid)


class _Entries:
    """The arrays of a column with room for so many entries, and for all bytes of messages where they vary."""

    def __init__(self, column: Column, entries: int, size: int) -> None:
        self.scope = column.scope
        self.valid = np.empty(entries, dtype=np.uint8)
        self.offsets = np.empty(entries + 1 if column.width == 0 else 0, dtype=np.int32)
        if column.width == 0:
            self.offsets[0] = 0
            length = size + entries * column.text_bytes
        else:
            length = entries * max(column.width, 0)
        self.values = np.empty(length, dtype=np.uint8)

    def line(self) -> list[int]:
        return [address_of(self.values), address_of(self.offsets), address_of(self.valid), 0, self.scope]


def with_last_values(ends: Array, parts: list[pa.Array]) -> tuple[Array, list[pa.Array]]:
    """Offsets and entries (keys and values) of maps, in which the last entry of a key counts."""
    keys, owners = parts[0], np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    if not len(keys):
        return ends, parts
    encoded = keys.dictionary_encode()
    places = owners * len(encoded.dictionary) + encoded.indices.to_numpy()
    _, from_last = np.unique(places[::-1], return_index=True)
    if len(from_last) == len(places):
        return ends, parts
    kept = np.sort(len(places) - 1 - from_last)
    counts = np.bincount(owners[kept], minlength=len(ends) - 1)
    new_ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return new_ends, [part.take(pa.array(kept)) for part in parts]


def _plain(values: Array, count: int, root: TypeRoot, t: pa.DataType) -> Array:
    """The values of a column with a fixed width, in the width of its type."""
    if root is TypeRoot.BOOLEAN:
        return values[:count]
    if root is TypeRoot.DECIMAL:
        return values[: 16 * count].copy().view("V16")
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return values.view(np.float64)[:count].astype(np.float32 if root is TypeRoot.FLOAT else np.float64)
    return values.view(np.int64)[:count].astype(f"int{t.bit_width}")


def _width(t: LogicalType) -> int:
    if t.root is TypeRoot.DECIMAL:
        return 16
    if t.root is TypeRoot.BOOLEAN:
        return 1
    if t.root in (TypeRoot.ROW, TypeRoot.NULL):
        return -1
    is_variable = t.root in (*STRING_ROOTS, *BINARY_ROOTS, TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET)
    return 0 if is_variable else 8
