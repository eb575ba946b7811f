"""Rows by id, each one record of bytes, in segments of memory that are cleaned one at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.buffers import address_of, validity_buffer
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.words import is_bytes_type
from sqlstream.runtime.kernels.slots.records import (
    BITS,
    BLOCK,
    BYTES,
    DATA,
    END,
    FIXED,
    LARGE_BYTES,
    NEEDED,
    ROOM,
    VALIDITY,
    VALUES,
    forget_records,
    move_records,
    read_records,
    write_records,
)
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.segments import Segments

_INT32_MAX = 2**31 - 1
_SPARE_ROOM = 1.1
"""Room for bytes beyond what the average of the values read so far needs."""


class RecordColumn:
    """`rows` values of one type, which a kernel writes. State: their memory, grown by `reserve` as the kernel needs it.

    `value_bytes` is about how many bytes a value of variable width has."""

    def __init__(self, data_type: pa.DataType, rows: int, may_be_null: bool, value_bytes: float) -> None:
        self._type = data_type
        self._rows = rows
        self._is_large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
        self._has_bytes = is_bytes_type(data_type)
        self._valid: Array = np.empty(rows if may_be_null else 0, dtype=np.uint8)
        if self._has_bytes:
            self._values: Array = np.zeros(rows + 1, dtype=np.int64 if self._is_large else np.int32)
            self._data: Array = np.empty(int(rows * value_bytes * _SPARE_ROOM), dtype=np.uint8)
        else:
            width = 1 if pa.types.is_boolean(data_type) else data_type.bit_width // 8
            self._values = np.empty(rows * width, dtype=np.uint8)
            self._data = np.empty(0, dtype=np.uint8)

    def reserve(self, target: Array, done: int) -> None:
        """Set this column's line of the kernel's targets; `done` rows are written. ArrowCapacityError for more bytes than
        an array of the type holds."""
        end, needed = int(target[END]), int(target[END] + target[NEEDED])
        if needed > len(self._data):
            if needed > _INT32_MAX and not self._is_large:
                raise pa.ArrowCapacityError(f"{needed} bytes do not fit one array of type {self._type}")
            expected = needed * self._rows // max(1, done)
            larger = np.empty(max(needed, int(min(expected, 4 * needed) * _SPARE_ROOM)), dtype=np.uint8)
            larger[:end] = self._data[:end]
            self._data = larger
        target[VALUES], target[DATA], target[ROOM] = (
            address_of(self._values), address_of(self._data), len(self._data)
        )  # fmt: skip
        target[VALIDITY] = address_of(self._valid) if len(self._valid) else 0

    def finished(self, end: int) -> pa.Array:
        """The column; `end` is how many bytes were written."""
        valid = validity_buffer(self._valid) if len(self._valid) and not self._valid.all() else None
        if pa.types.is_boolean(self._type):
            values = np.packbits(self._values, bitorder="little")
            return pa.Array.from_buffers(self._type, self._rows, [valid, pa.py_buffer(values)])
        buffers = [valid, pa.py_buffer(self._values)]
        if self._has_bytes:
            # What was reserved and not needed goes back to the allocator. No other array shares the memory.
            self._data.resize(end, refcheck=False)
            buffers.append(pa.py_buffer(self._data))
        return pa.Array.from_buffers(self._type, self._rows, buffers)


_IDS_MAX = 1 << 31
_RECORD_BYTES_MAX = 1 << 31
_HEADER_BYTES = 8
_LENGTH_BYTES = 4


def is_recordable(data_type: pa.DataType) -> bool:
    """Whether values of a type can stand in a record: all but nested ones, dictionaries, views and NULL."""
    return is_bytes_type(data_type) or _fixed_width(data_type) > 0


def _fixed_width(data_type: pa.DataType) -> int:
    """Bytes of a value in a record, 0 where they vary or the type has none."""
    if pa.types.is_boolean(data_type):
        return 1
    is_fixed = (
        pa.types.is_primitive(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    )
    return int(data_type.bit_width) // 8 if is_fixed else 0


class Records:
    """Rows of `types` by row id, for whole batches.

    A row is written as one record, so reading it touches one place in memory, however many columns it has. Records are
    appended to the last segment. When the records that are no longer live take more than a third of the memory, the segment
    with the most of them is cleaned: its live records are appended again, and its memory is used for what comes next. So the
    memory held is at most 1.5 × the bytes of live records plus two segments, and nothing is ever copied as a whole.
    State: the segments, and one int64 per id with the place of its record.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._layout, self._fixed_bytes = _layout_of(self.types)
        self._places = GrowingArray(np.int64, fill=-1)
        self._segments = Segments()
        self._null_record = np.full(self._fixed_bytes, 0, dtype=np.uint8)
        self._null_record[_HEADER_BYTES : _HEADER_BYTES + (len(types) + 7) // 8] = 0xFF
        self._has_null = np.zeros(len(types), dtype=bool)
        self._value_bytes = np.full(len(types), 16.0)
        # Operators write while another thread collects a snapshot. A reader must not see segments that are being cleaned.
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._segments.nbytes + self._places.nbytes

    def reserve(self, id_count: int) -> None:
        """Make room for ids 0 … id_count - 1."""
        if id_count > _IDS_MAX:
            raise InternalError(f"a table cannot hold more than {_IDS_MAX} rows in one subtask")
        with self._lock:
            self._places.reserve(id_count)

    def write(self, ids: Array, columns: Sequence[pa.Array], rows: Array) -> None:
        """Set the rows of ids to the rows with these numbers of the columns; of an id that occurs twice the last is kept."""
        columns = [
            column if column.type == data_type else column.cast(data_type)
            for column, data_type in zip(columns, self.types, strict=True)
        ]
        with self._lock:
            self._write(ids, self._source(columns), rows)

    def _write(self, ids: Array, source: Array, rows: Array) -> None:
        segments, done, scratch = self._segments, 0, _scratch()
        while done < len(rows):
            done, segments.used, missing = write_records(
                rows, ids, done, source, self._layout, self._fixed_bytes, segments.bases, segments.last,
                segments.used, segments.room, self._places.values, segments.live, scratch,
            )  # fmt: skip
            if missing > _RECORD_BYTES_MAX:
                raise pa.ArrowCapacityError(f"a row of {missing} bytes does not fit a record")
            if missing:
                segments.open(missing)
        self._clean()

    def read(
        self, ids: Array, numbers: Sequence[int] | None = None, *, may_miss: bool = False
    ) -> list[pa.Array]:
        """The columns (only those of `numbers`, unless None) of the rows of ids, repeats allowed. `may_miss`: ids below the
        reserved number may have no row, which is read as NULL in each column."""
        with self._lock:
            return self._read(ids, numbers, may_miss)

    def _read(self, ids: Array, numbers: Sequence[int] | None, may_miss: bool) -> list[pa.Array]:
        wanted = range(len(self.types)) if numbers is None else numbers
        columns = {
            n: RecordColumn(
                self.types[n], len(ids), may_miss or bool(self._has_null[n]), self._value_bytes[n]
            )
            for n in wanted
        }
        target = np.zeros((len(self.types), 6), dtype=np.int64)
        done, scratch, record_bytes = 0, _scratch(), self._bytes_read(wanted)
        while done < len(ids):
            for number, column in columns.items():
                column.reserve(target[number], done)
            done = read_records(
                ids, done, self._layout, self._fixed_bytes, self._segments.bases, self._places.values,
                address_of(self._null_record), record_bytes, target, scratch,
            )  # fmt: skip
        for number in wanted:
            self._value_bytes[number] = int(target[number, END]) / max(1, len(ids))
        return [columns[n].finished(int(target[n, END])) for n in wanted]

    def forget(self, ids: Array) -> Array:
        """Forget rows; returns the ids that had one, each once. An id out of range is ignored."""
        with self._lock:
            forgotten = np.empty(len(ids), dtype=np.int64)
            places = self._places.values[: self._places.count]
            count = forget_records(ids, self._segments.bases, places, self._segments.live, forgotten)
            self._clean()
            return forgotten[:count]

    def _bytes_read(self, wanted: Sequence[int]) -> int:
        """About how many bytes at the beginning of a record have these columns."""
        last = max((n for n in wanted if self._layout[n, 0] >= BYTES), default=-1)
        is_passed = self._layout[: last + 1, 0] >= BYTES
        return self._fixed_bytes + int(self._value_bytes[: last + 1][is_passed].sum())

    def _source(self, columns: Sequence[pa.Array]) -> Array:
        source = np.zeros((len(columns), 4), dtype=np.int64)
        for number, column in enumerate(columns):
            buffers = column.buffers()
            has_null = column.null_count > 0
            self._has_null[number] |= has_null
            source[number] = (
                _address(buffers[1]),
                _address(buffers[0]) if has_null else 0,
                _address(buffers[2]) if len(buffers) > 2 else 0,
                column.offset,
            )
        return source

    def _clean(self) -> None:
        segments = self._segments
        while (doomed := segments.most_garbage()) is not None:
            # Nothing is read of a segment without live records.
            at, end = 0, segments.used_by(doomed) if segments.live[doomed] else 0
            while at < end:
                at, segments.used, record_bytes = move_records(
                    segments.bases, doomed, at, end, segments.last,
                    segments.used, segments.room, self._places.values, segments.live,
                )  # fmt: skip
                if at < end:
                    segments.open(record_bytes)
            segments.free(doomed)


def _layout_of(types: tuple[pa.DataType, ...]) -> tuple[Array, int]:
    """(kind, width and place in the record of each column, bytes of a record before those of variable width)."""
    at = _HEADER_BYTES + (len(types) + 7) // 8
    layout = np.zeros((len(types), 3), dtype=np.int64)
    for number, data_type in enumerate(types):
        width = _fixed_width(data_type)
        layout[number] = _kind(data_type), width, at
        at += width or _LENGTH_BYTES
    return layout, at


def _scratch() -> Array:
    """Memory that a kernel uses during one call."""
    return np.empty((3, BLOCK), dtype=np.int64)


def _kind(data_type: pa.DataType) -> int:
    if pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type):
        return LARGE_BYTES
    if is_bytes_type(data_type):
        return BYTES
    return BITS if pa.types.is_boolean(data_type) else FIXED


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)
