"""Columns as kernels read them that encode rows entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import (
    address_of,
    unpack_bits,
    valid_mask,
    view_buffer,
    view_offsets,
    view_values,
)
from sqlstream.types import BINARY_ROOTS, INT, STRING_ROOTS, LogicalType, TypeRoot

Array = np.ndarray[Any, Any]

_EMPTY = np.empty(0, dtype=np.uint8)


class ColumnTable:
    """Arrays as a kernel takes them, which live as long as this object.

    `lines` has one for each column: the addresses of values, offsets and validity (a byte an entry, 0 without NULLs), and the
    scope, which is 0 for rows and another one for the elements of each list. `bytes_max`: those of all entries, with
    `entry_bytes` for each of them besides the bytes of texts.
    """

    def __init__(self, entry_bytes: int) -> None:
        self.lines: list[list[int]] = []
        self.bytes_max = 0
        self._entry_bytes = entry_bytes
        self._kept: list[Any] = []
        self._scopes = 1

    def table(self) -> Array:
        return np.array(self.lines, dtype=np.int64).reshape(-1, 4)

    def add(self, array: pa.Array, t: LogicalType, scope: int = 0) -> None:
        """The columns of a type: one of its own, and those of its parts."""
        if t.root is TypeRoot.NULL:
            return
        valid = valid_mask(array)
        line = [0, 0, 0 if valid is None else self._address(valid), scope]
        self.lines.append(line)
        self.bytes_max += self._entry_bytes * len(array)
        if t.root is TypeRoot.ROW:
            for i, f in enumerate(t.fields):
                self.add(array.field(i), f.type, scope)
        elif (parts := element_types(t)) is not None:
            self._add_list(array, t, parts, line)
        elif t.root in STRING_ROOTS or t.root in BINARY_ROOTS:
            offsets, line[0] = view_offsets(array)
            line[1] = self._address(offsets)
            self.bytes_max += int(offsets[-1]) - int(offsets[0])
            self._kept.append(array)
        else:
            line[0] = self._address(_plain(array, t))
            self._kept.append(array)

    def _add_list(
        self, array: pa.Array, t: LogicalType, parts: tuple[LogicalType, ...], line: list[int]
    ) -> None:
        within, self._scopes = self._scopes, self._scopes + 1
        offsets = view_buffer(array.buffers()[1], np.int32, array.offset, len(array) + 1)
        offsets = offsets if len(array) else np.zeros(1, dtype=np.int32)
        first, last = int(offsets[0]), int(offsets[-1])
        # A NULL may have elements, which are passed over.
        line[1] = self._address(offsets - offsets[0])
        elements = (array.keys, array.items) if t.root is not TypeRoot.ARRAY else (array.values,)
        for part, elements_of in zip(parts, elements, strict=True):
            self.add(elements_of.slice(first, last - first), part, within)

    def _address(self, values: Array) -> int:
        self._kept.append(values)
        return address_of(values)


def _plain(array: pa.Array, t: LogicalType) -> Array:
    """The values of a column with a fixed width: whole numbers in 64 bits, truth values in a byte."""
    if t.root is TypeRoot.BOOLEAN:
        return unpack_bits(*_bits(array), len(array))
    if t.root is TypeRoot.DECIMAL:
        return view_values(array, np.dtype("V16"))
    if t.root is TypeRoot.FLOAT:
        return view_values(array, np.float32)
    if t.root is TypeRoot.DOUBLE:
        return view_values(array, np.float64)
    return view_values(array, f"int{array.type.bit_width}").astype(np.int64)


def _bits(array: pa.Array) -> tuple[Array, int]:
    """The bits of a column of truth values, and the first of them."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return _EMPTY, 0
    return np.frombuffer(data, dtype=np.uint8)[array.offset >> 3 :], array.offset & 7


def element_types(t: LogicalType) -> tuple[LogicalType, ...] | None:
    """The types of the elements of a list: of keys and values for a map. None for what is none."""
    if t.root is TypeRoot.ARRAY and t.element is not None:
        return (t.element,)
    if t.root is TypeRoot.MULTISET and t.element is not None:
        return t.element.with_nullable(False), INT.with_nullable(False)
    if t.root is TypeRoot.MAP and t.key is not None and t.element is not None:
        return t.key.with_nullable(False), t.element
    return None
