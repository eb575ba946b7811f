"""State in files of the local disk, mapped into memory: kernels read and write it as other arrays."""

from __future__ import annotations

import errno
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.mapped_file import MappedFile, Mapping
from sqlstream.runtime.memory.array_memory import Array, ArrayMemory

MAPPED_BYTES_MIN = 1 << 20
"""Smaller arrays are in the process's memory: a table without many entries is as fast as without files."""
REGION_BYTES = 4 << 20
"""Columns of chunks of rows share files of this size, for the system maps only so many."""
_COLUMNS_PART = 64
"""Columns whose bytes are less than this part of a mapped array's are in the process's memory."""
_ALIGNMENT = 64


class Mappings:
    """The live mappings of one operator's state. Thread-safe. State: references that keep none of them; whether they are part of
    more than may be mapped, which one thread sets."""

    def __init__(self) -> None:
        self.is_scarce = False
        self._mappings: list[weakref.ref[Mapping]] = []
        self._lock = threading.Lock()

    def add(self, mapping: Mapping) -> None:
        with self._lock:
            self._mappings.append(weakref.ref(mapping))

    def live(self) -> list[Mapping]:
        with self._lock:
            found = [(reference, reference()) for reference in self._mappings]
            self._mappings = [reference for reference, mapping in found if mapping is not None]
        return [mapping for _, mapping in found if mapping is not None]

    @property
    def nbytes(self) -> int:
        return sum(mapping.nbytes for mapping in self.live())


class MappedMemory(ArrayMemory):
    """Arrays of MAPPED_BYTES_MIN and more lie in files below `directories`, in turn; smaller ones in the process's memory.
    ExternalError SS6262, with the name of the operator, when a disk is full. For one thread, but for the mappings.

    State: the mappings of the arrays that are alive; the region that columns are put into next. A file goes with its last
    array."""

    def __init__(
        self,
        operator: str,
        directories: Sequence[str],
        check: Callable[[int], None] = lambda nbytes: None,
    ) -> None:
        super().__init__(check)
        self.mappings = Mappings()
        self._operator = operator
        self._directories = itertools.cycle(directories)
        self._region: Array = np.empty(0, dtype=np.uint8)

    @property
    def file_bytes(self) -> int:
        return self.mappings.nbytes

    @property
    def is_scarce(self) -> bool:
        return self.mappings.is_scarce

    def require(self, nbytes: int) -> None:
        if not self.is_mapped(nbytes):
            super().require(nbytes)

    def is_mapped(self, nbytes: int) -> bool:
        return nbytes >= MAPPED_BYTES_MIN

    def new_file(self) -> StateFile:
        return StateFile(self._operator, next(self._directories), self.mappings)

    def empty(self, count: int, dtype: Any) -> Array:
        return self.zeros(count, dtype)

    def zeros(self, count: int, dtype: Any, *, is_read_mostly: bool = False) -> Array:
        nbytes = count * np.dtype(dtype).itemsize
        if not self.is_mapped(nbytes):
            return np.zeros(count, dtype=dtype)
        return self.new_file().map(nbytes, is_read_mostly=is_read_mostly).view(dtype)

    def settled(self, columns: list[pa.Array]) -> list[pa.Array]:
        nbytes = sum(column.nbytes for column in columns)
        if nbytes < MAPPED_BYTES_MIN // _COLUMNS_PART:
            return columns
        names = [str(number) for number in range(len(columns))]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        size = _stream_bytes(batch)
        place = pa.py_buffer(self._place(size))
        _write(batch, pa.FixedSizeBufferWriter(place))
        found: list[pa.Array] = pa.ipc.open_stream(place).read_next_batch().columns
        return found

    def _place(self, nbytes: int) -> Array:
        """Bytes of a region, or a file of their own."""
        if 2 * nbytes > REGION_BYTES:
            return self.new_file().map(nbytes)
        if nbytes > len(self._region):
            self._region = self.new_file().map(REGION_BYTES)
        found, self._region = self._region[:nbytes], self._region[-(-nbytes // _ALIGNMENT) * _ALIGNMENT :]
        return found


class StateFile:
    """A file that the arrays of one structure lie in. Implements `GrownFile`."""

    def __init__(self, operator: str, directory: str, mappings: Mappings) -> None:
        self._operator = operator
        self._directory = directory
        self._mappings = mappings
        try:
            self._file = MappedFile(directory)
        except OSError as error:
            raise self._failure(error) from error

    def map(self, nbytes: int, *, is_read_mostly: bool = False) -> Array:
        try:
            mapping = self._file.map(nbytes, is_read_mostly=is_read_mostly)
        except OSError as error:
            raise self._failure(error) from error
        self._mappings.add(mapping)
        return np.asarray(mapping)[:nbytes]

    def _failure(self, error: OSError) -> ExternalError:
        hints = {
            errno.ENOSPC: "free space there, name another directory by io.tmp.dirs, or set a table.exec.state.ttl",
            errno.ENOMEM: "raise the system's vm.max_map_count",
            errno.EMFILE: "raise the limit of open files (ulimit -n)",
        }
        return ExternalError(
            "SS6262",
            f'operator "{self._operator}" could not keep more state in files below "{self._directory}": '
            f"{(error.strerror or str(error)).lower()}",
            hint=hints.get(error.errno or 0, "name another directory by io.tmp.dirs"),
        )


def _stream_bytes(batch: pa.RecordBatch) -> int:
    sink = pa.MockOutputStream()
    _write(batch, sink)
    return int(sink.size())


def _write(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
