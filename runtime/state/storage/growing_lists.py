"""Lists and texts by slot to which is appended: at the cost of what is appended, however long they are."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.kernels.buffers import to_array, valid_mask, validity_buffer
from sqlstream.runtime.kernels.keys.words import is_bytes_type
from sqlstream.runtime.kernels.slots.chunk_chains import ChunkChains
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore

Bytes = Array
_INT32_MAX = 2**31 - 1


def byte_columns(data_type: pa.DataType) -> int:
    """How many columns of bytes the values of a type have."""
    return 1 + sum(byte_columns(child) for child in _children(data_type)) + _own_columns(data_type)


def _own_columns(data_type: pa.DataType) -> int:
    """How many columns there are beside those of NULLs and of children."""
    if is_bytes_type(data_type):
        return 2
    return 0 if pa.types.is_null(data_type) or pa.types.is_struct(data_type) else 1


def _children(data_type: pa.DataType) -> list[pa.DataType]:
    """The types whose values are columns of their own."""
    if pa.types.is_map(data_type):
        return [_entry_type(data_type)]
    if pa.types.is_list(data_type):
        return [data_type.value_type]
    return [field.type for field in data_type] if pa.types.is_struct(data_type) else []


def _entry_type(data_type: pa.DataType) -> pa.DataType:
    return pa.struct([data_type.key_field, data_type.item_field])


def to_bytes(values: pa.Array, bounds: Array) -> list[pa.Array]:
    """The columns of the lists values[bounds[i] : bounds[i + 1]], each with one value of LARGE_BINARY per list."""
    return [
        pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        for data, ends in _columns(values, np.ascontiguousarray(bounds, dtype=np.int64))
    ]


def _columns(values: pa.Array, bounds: Array) -> list[tuple[Bytes, Array]]:
    """(bytes, where those of each list begin and end) by column."""
    data_type = values.type
    valid = valid_mask(values)
    own = np.ones(len(values), dtype=np.uint8) if valid is None else valid.astype(np.uint8)
    found = [(own, bounds)]
    if pa.types.is_null(data_type):
        return found
    if pa.types.is_struct(data_type):
        for number in range(data_type.num_fields):
            found += _columns(values.field(number), bounds)
    elif pa.types.is_boolean(data_type):
        rows = values.offset + len(values)
        bits = _bytes_of(values.buffers()[1], 0, (rows + 7) >> 3)
        found.append((np.unpackbits(bits, bitorder="little", count=rows)[values.offset :], bounds))
    elif is_bytes_type(data_type) or _children(data_type):
        ends = _offsets(values)
        found.append((np.diff(ends).astype(np.int32).view(np.uint8), bounds * 4))
        inner = ends[bounds] - ends[0]
        if is_bytes_type(data_type):
            found.append((_bytes_of(values.buffers()[2], int(ends[0]), int(ends[-1])), inner))
        else:
            elements = _elements(values).slice(int(ends[0]), int(ends[-1] - ends[0]))
            found += _columns(elements, inner)
    else:
        width = data_type.bit_width // 8
        first = values.offset * width
        found.append((_bytes_of(values.buffers()[1], first, first + len(values) * width), bounds * width))
    return found


def _offsets(values: pa.Array) -> Array:
    """int64[n + 1]: where the bytes or elements of each value begin and end."""
    if len(values) == 0:
        return np.zeros(1, dtype=np.int64)
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    item = np.dtype(np.int64 if is_large else np.int32)
    found = np.frombuffer(values.buffers()[1], item, len(values) + 1, values.offset * item.itemsize)
    return found.astype(np.int64)


def _elements(values: pa.Array) -> pa.Array:
    """All elements of a list array, whatever part of it `values` is; the entries of a map as structs."""
    if pa.types.is_map(values.type):
        return pa.StructArray.from_arrays([values.keys, values.items], fields=list(_entry_type(values.type)))
    return values.values


def _bytes_of(buffer: pa.Buffer | None, start: int, end: int) -> Bytes:
    if buffer is None or start == end:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(buffer, np.uint8, end - start, start)


def from_bytes(data_type: pa.DataType, columns: list[Bytes]) -> pa.Array:
    """The values of lists, one list behind the other, of the columns that `to_bytes` made of them."""
    return _Reader(columns).values(data_type)


class _Reader:
    """Reads columns in the order in which they were written. State: those that are left."""

    def __init__(self, columns: list[Bytes]) -> None:
        self._left = iter(columns)

    def values(self, data_type: pa.DataType) -> pa.Array:
        own = next(self._left)
        count, has_null = len(own), not own.all()
        if pa.types.is_null(data_type):
            return pa.nulls(count)
        valid = validity_buffer(own) if has_null else None
        if pa.types.is_struct(data_type):
            fields = [self.values(field.type) for field in data_type]
            return pa.Array.from_buffers(data_type, count, [valid], children=fields)
        if pa.types.is_boolean(data_type):
            bits = np.packbits(next(self._left), bitorder="little")
            return pa.Array.from_buffers(data_type, count, [valid, pa.py_buffer(bits)])
        if is_bytes_type(data_type) or _children(data_type):
            ends = self._ends(data_type, count)
            if is_bytes_type(data_type):
                return pa.Array.from_buffers(data_type, count, [valid, ends, pa.py_buffer(next(self._left))])
            elements = self.values(_children(data_type)[0])
            return pa.Array.from_buffers(data_type, count, [valid, ends], children=[elements])
        return pa.Array.from_buffers(data_type, count, [valid, pa.py_buffer(next(self._left))])

    def _ends(self, data_type: pa.DataType, count: int) -> pa.Buffer:
        is_large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
        ends: np.ndarray[Any, Any] = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(next(self._left).view(np.int32), out=ends[1:])
        if is_large:
            return pa.py_buffer(ends)
        if ends[-1] > _INT32_MAX:
            raise pa.ArrowCapacityError(f"{ends[-1]} elements or bytes do not fit one array of {data_type}")
        return pa.py_buffer(ends.astype(np.int32))


_OPEN_BYTES_MAX = 4096
"""A chunk of less is replaced by one with what is appended, so that small appends do not leave a chunk each."""


class _Chunks:
    """`columns` sequences of bytes per slot, in chunks. State: the chunks as records, and their chains."""

    def __init__(self, columns: int) -> None:
        self._rows = RowStore(pa.schema([(f"f{n}", pa.large_binary()) for n in range(columns)]))
        self._chains = ChunkChains()
        # An operator writes while another thread collects a snapshot, which must not see arrays that are growing.
        self._lock = threading.Lock()

    def resize(self, slots: int) -> None:
        with self._lock:
            self._chains.resize(slots)

    def is_present(self, slots: Array) -> Array:
        """bool[n]: whether anything was appended to the slot since it was emptied."""
        return self._chains.tails(slots) >= 0

    def append(self, slots: Array, pieces: list[pa.Array]) -> None:
        """Append a piece to each of the distinct slots, in every column."""
        if len(slots):
            with self._lock:
                self._append(slots, pieces)

    def _append(self, slots: Array, pieces: list[pa.Array]) -> None:
        before = self._chains.tails(slots)
        is_open = before >= 0
        is_open[is_open] = self._chains.bytes_of(before[is_open]) < _OPEN_BYTES_MAX
        if is_open.any():
            replaced = before[is_open]
            places = to_array(pa.int64(), np.cumsum(is_open) - 1, is_open)
            held = self._rows.columns(replaced, range(len(pieces)))
            nothing = pa.scalar(b"", pa.large_binary())
            pieces = [
                pc.binary_join_element_wise(h.take(places), piece, nothing, null_handling="skip")
                for h, piece in zip(held, pieces, strict=True)
            ]
            before[is_open] = self._chains.before(replaced)
            self._rows.delete(replaced)
        sizes = np.sum([pc.binary_length(piece).to_numpy() for piece in pieces], axis=0)
        chunks = self._rows.append(pa.RecordBatch.from_arrays(pieces, schema=self._rows.schema))
        self._chains.link(slots, chunks, before, sizes)

    def read(self, slots: Array) -> list[tuple[Bytes, Array]]:
        """(bytes of all slots, int64[n + 1] where those of each begin and end) by column."""
        with self._lock:
            bounds, chunks = self._chains.of(slots)
            columns = self._rows.columns(chunks, range(len(self._rows.schema)))
        found = []
        for column in columns:
            _, offsets, data = column.buffers()
            ends = np.frombuffer(offsets, np.int64, len(chunks) + 1) if len(chunks) else np.zeros(1, np.int64)
            held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
            found.append((held[: int(ends[-1])], ends[bounds]))
        return found

    def empty(self, slots: Array) -> None:
        """Forget what the slots have."""
        with self._lock:
            self._rows.delete(self._chains.of(slots)[1])
            self._chains.empty(slots)

    @property
    def nbytes(self) -> int:
        return int(self._rows.nbytes) + self._chains.nbytes


class GrowingLists:
    """A list of values of `list_type` per slot, NULL until something is appended. State: its chunks."""

    def __init__(self, list_type: pa.DataType) -> None:
        self.type = list_type
        self._chunks = _Chunks(byte_columns(list_type.value_type))

    def resize(self, slots: int) -> None:
        self._chunks.resize(slots)

    def append(self, slots: Array, values: pa.Array, bounds: Array) -> None:
        """Append values[bounds[i] : bounds[i + 1]] to each of the distinct slots."""
        self._chunks.append(slots, to_bytes(values, bounds))

    def put(self, slots: Array, values: pa.Array, bounds: Array) -> None:
        """As `append`, in place of what the slots have; an empty list makes its slot NULL."""
        self._chunks.empty(slots)
        has_any = np.flatnonzero(np.diff(bounds))
        starts = np.append(bounds[has_any], bounds[-1])
        self.append(slots[has_any], values, starts)

    def get(self, slots: Array) -> pa.Array:
        """The lists of the slots, one after another in memory."""
        found = self._chunks.read(slots)
        _, bounds = found[0]
        if bounds[-1] > _INT32_MAX:
            raise pa.ArrowCapacityError(f"{bounds[-1]} elements do not fit one array of type {self.type}")
        values = from_bytes(self.type.value_type, [column for column, _ in found])
        is_there = self._chunks.is_present(slots)
        mask = None if is_there.all() else pa.array(~is_there)
        return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), values, type=self.type, mask=mask)

    def reset(self, slots: Array) -> None:
        self._chunks.empty(slots)

    def nbytes(self) -> int:
        return self._chunks.nbytes


class GrowingTexts:
    """A text per slot, NULL until something is appended. State: its chunks."""

    def __init__(self) -> None:
        self._chunks = _Chunks(1)

    def resize(self, slots: int) -> None:
        self._chunks.resize(slots)

    def append(self, slots: Array, texts: pa.Array) -> None:
        """Append a text to each of the distinct slots."""
        self._chunks.append(slots, [texts.cast(pa.large_binary())])

    def get(self, slots: Array) -> pa.Array:
        """The texts of the slots."""
        ((data, bounds),) = self._chunks.read(slots)
        if bounds[-1] > _INT32_MAX:
            raise pa.ArrowCapacityError(f"{bounds[-1]} bytes do not fit one array of type string")
        is_there = self._chunks.is_present(slots)
        valid = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
        ends = pa.py_buffer(bounds.astype(np.int32))
        return pa.StringArray.from_buffers(len(slots), ends, pa.py_buffer(data), valid)

    def is_present(self, slots: Array) -> Array:
        """bool[n]: whether the slot has a text."""
        return self._chunks.is_present(slots)

    def reset(self, slots: Array) -> None:
        self._chunks.empty(slots)

    def nbytes(self) -> int:
        return self._chunks.nbytes
