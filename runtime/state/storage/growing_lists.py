"""Lists and texts by slot to which is appended: at the cost of what is appended, however long they are."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.chunk_chains import ChunkChains
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore
from sqlstream.runtime.state.storage.list_bytes import Bytes, byte_columns, from_bytes, to_bytes

_OPEN_BYTES_MAX = 4096
"""A chunk of less is replaced by one with what is appended, so that small appends do not leave a chunk each."""

_NOTHING = pa.scalar(b"", pa.large_binary())
_INT32_MAX = 2**31 - 1


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
            pieces = [
                pc.binary_join_element_wise(h.take(places), piece, _NOTHING, null_handling="skip")
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
