"""Memory for one column that is read from records, and the Arrow array made of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import validity_buffer
from sqlstream.runtime.kernels.records import DATA, END, NEEDED, ROOM, VALIDITY, VALUES
from sqlstream.runtime.kernels.words import is_bytes_type
from sqlstream.runtime.state.storage.arrays import Array

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
            self._values.ctypes.data, self._data.ctypes.data, len(self._data)
        )  # fmt: skip
        target[VALIDITY] = self._valid.ctypes.data if len(self._valid) else 0

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
