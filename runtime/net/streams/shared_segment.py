"""Memory that two processes of one machine share, in which one writes batches for the other.

It is a file without a name, which ends with the last process that holds it, however that process ends. The first bytes are flags,
one for each batch: the consumer sets the flag of a batch that it no longer needs, and the producer then reuses its space. So
nothing is sent to return space, and a consumer may keep batches in any order and for any time."""

from __future__ import annotations

import bisect
import fcntl
import mmap
import os
import threading
from typing import Any

import pyarrow as pa

from sqlstream.runtime.net.credits import NetworkMemory
from sqlstream.runtime.net.streams.frames import BadFrame, SharedPlace

SLOTS = 4096
"""How many batches a segment holds at most."""

_FLAGS_BYTES = -(-SLOTS // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY

# Without them each writer reads the environment.
_WRITE_OPTIONS = pa.ipc.IpcWriteOptions()

_FREED = 1
_FREED_BYTE = bytes([_FREED])


class SegmentWriter:
    """The producer's side. The bytes that it has touched are borrowed from `memory`; `trim` returns those at the end that are
    free. Thread-safe. State: which batches are in use, and where they are."""

    def __init__(self, memory: NetworkMemory) -> None:
        """OSError where the system has no memory files, or no room for one."""
        size = memory.total_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        self.file = os.memfd_create("sqlstream-exchange", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            # Sparse: a page takes memory when it is first written.
            os.ftruncate(self.file, _FLAGS_BYTES + size)
            fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self._mapping: mmap.mmap | None = mmap.mmap(self.file, _FLAGS_BYTES + size)
        except BaseException:
            os.close(self.file)
            raise
        self._space = SegmentSpace(size)
        self._memory = memory
        self._touched_bytes = 0
        self._free_slots = list(range(SLOTS - 1, -1, -1))
        self._places: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """The bytes of batches that the consumer has not freed, as far as is known here."""
        return self._space.used_bytes

    def write(self, batch: pa.RecordBatch, schema_bytes: int) -> SharedPlace | None:
        """Put the batch where the consumer finds it; None when there is no room. `schema_bytes` is the size of its encoded
        schema."""
        size = schema_bytes + pa.ipc.get_record_batch_size(batch)
        with self._lock:
            mapping = self._mapping
            if mapping is None:
                return None
            self._reclaim(mapping)
            start = self._allocate(size)
            if start is None:
                return None
            slot = self._free_slots.pop()
            self._places[slot] = (start, size)
            reachable_bytes = self._touched_bytes + self._memory.total_bytes - self._memory.lent_bytes
            is_scarce = (
                2 * self._space.used_bytes > reachable_bytes or len(self._free_slots) < SLOTS - SLOTS // 2
            )
        target = memoryview(mapping)[_FLAGS_BYTES + start : _FLAGS_BYTES + start + size]
        sink = pa.FixedSizeBufferWriter(pa.py_buffer(target))
        try:
            # The library writes a batch into given memory only behind its schema.
            pa.ipc.RecordBatchStreamWriter(sink, batch.schema, options=_WRITE_OPTIONS).write_batch(batch)
        except BaseException:
            # As if the consumer had freed it: other channels of the stream go on.
            mapping[slot] = _FREED
            raise
        return SharedPlace(start + schema_bytes, sink.tell() - schema_bytes, slot, is_scarce)

    def trim(self) -> None:
        """Return the memory behind the last batch that is in use."""
        with self._lock:
            mapping = self._mapping
            if mapping is None:
                return
            self._reclaim(mapping)
            end = _page_end(self._space.end)
            if end >= self._touched_bytes:
                return
            # A hole in the file: its pages are freed in both processes.
            mapping.madvise(mmap.MADV_REMOVE, _FLAGS_BYTES + end, _page_end(self._touched_bytes) - end)
            self._memory.give_back(self._touched_bytes - end)
            self._touched_bytes = end

    def close(self) -> None:
        """Give up the segment. What the consumer still uses stays until it is done with it. Harmless when repeated."""
        with self._lock:
            self._memory.give_back(self._touched_bytes)
            self._touched_bytes = 0
            self._mapping = None
            self.close_file()

    def close_file(self) -> None:
        """The consumer has the file. Harmless when repeated."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def _allocate(self, size: int) -> int | None:
        if not self._free_slots:
            return None
        start = self._space.allocate(size, self._touched_bytes)
        if start is not None:
            return start
        start = self._space.allocate(size)
        if start is None:
            return None
        more = start + aligned(size) - self._touched_bytes
        lent = self._memory.borrow(more)
        if lent < more:
            self._memory.give_back(lent)
            self._space.free(start, size)
            return None
        self._touched_bytes += more
        return start

    def _reclaim(self, mapping: mmap.mmap) -> None:
        # A copy: `find` of bytes takes a hundredth of the time of that of a mapping.
        flags = mapping[:SLOTS]
        slot = flags.find(_FREED_BYTE)
        while slot >= 0:
            mapping[slot] = 0
            self._space.free(*self._places.pop(slot))
            self._free_slots.append(slot)
            slot = flags.find(_FREED_BYTE, slot + 1)


class SegmentReader:
    """The consumer's side: batches that lie in the segment, without a copy. State: the mapping, which lasts as long as
    this or any batch does."""

    def __init__(self, file: int) -> None:
        """Takes the file. OSError, and BadFrame for one that is too small."""
        try:
            size = os.fstat(file).st_size - _FLAGS_BYTES
            if size <= 0:
                raise BadFrame("a shared file without room")
            self._flags = mmap.mmap(file, _FLAGS_BYTES)
            data = mmap.mmap(file, size, prot=mmap.PROT_READ, offset=_FLAGS_BYTES)
        finally:
            os.close(file)
        self._data = pa.py_buffer(data)

    def read(self, place: SharedPlace, schema: pa.Schema) -> pa.RecordBatch:
        """The batch at a place, which is free again when nothing uses the batch's memory. BadFrame for a place outside."""
        self._check(place)
        lease = _Lease(self._flags, place.slot, self._data)
        buffer = pa.foreign_buffer(self._data.address + place.offset, place.length, lease)
        if place.is_scarce:
            copy = pa.allocate_buffer(place.length)
            memoryview(copy).cast("B")[:] = memoryview(buffer).cast("B")
            buffer = copy
        return pa.ipc.read_record_batch(buffer, schema)

    def free(self, place: SharedPlace) -> None:
        """The batch at a place is not needed."""
        self._check(place)
        self._flags[place.slot] = _FREED

    def _check(self, place: SharedPlace) -> None:
        if place.slot >= SLOTS or place.offset + place.length > self._data.size:
            raise BadFrame("a batch outside of the shared memory")


class _Lease:
    """Keeps the mapping and the batch's space for as long as it lives itself: Arrow drops it with the last reference to the
    memory, on any thread."""

    __slots__ = ("_data", "_flags", "_slot")

    def __init__(self, flags: Any, slot: int, data: Any) -> None:
        self._flags = flags
        self._slot = slot
        self._data = data

    def __del__(self) -> None:
        self._flags[self._slot] = _FREED


def _page_end(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


# Which bytes of a shared segment are free.


_ALIGNMENT = 64


class SegmentSpace:
    """Allocates ranges of a fixed number of bytes, the lowest that fits, so that few bytes are ever touched and they stay in the
    processor's caches. State: the free ranges, sorted, no two of them adjacent.

    >>> space = SegmentSpace(256)
    >>> space.allocate(100), space.allocate(64), space.allocate(100)
    (0, 128, None)
    >>> space.free(0, 100)
    >>> space.allocate(64), space.end
    (0, 192)
    """

    def __init__(self, size: int) -> None:
        self._size = size // _ALIGNMENT * _ALIGNMENT
        self._starts = [0]
        self._ends = [self._size]
        self.used_bytes = 0

    @property
    def end(self) -> int:
        """The end of the last range that is in use."""
        return self._starts[-1] if self._ends and self._ends[-1] == self._size else self._size

    def allocate(self, size: int, limit: int | None = None) -> int | None:
        """The start of `size` free bytes that end before `limit`; None when there are none."""
        size = aligned(size)
        limit = self._size if limit is None else limit
        for i, start in enumerate(self._starts):
            if start + size > limit:
                return None
            if start + size <= self._ends[i]:
                self._starts[i] = start + size
                if self._starts[i] == self._ends[i]:
                    del self._starts[i], self._ends[i]
                self.used_bytes += size
                return start
        return None

    def free(self, start: int, size: int) -> None:
        """Give back what `allocate` gave for `size`."""
        size = aligned(size)
        end = start + size
        i = bisect.bisect_left(self._starts, start)
        self.used_bytes -= size
        joins_before = i > 0 and self._ends[i - 1] == start
        joins_after = i < len(self._starts) and self._starts[i] == end
        if joins_before and joins_after:
            self._ends[i - 1] = self._ends[i]
            del self._starts[i], self._ends[i]
        elif joins_before:
            self._ends[i - 1] = end
        elif joins_after:
            self._starts[i] = start
        else:
            self._starts.insert(i, start)
            self._ends.insert(i, end)


def aligned(size: int) -> int:
    """
    >>> aligned(1), aligned(64), aligned(65)
    (64, 64, 128)
    """
    return -(-size // _ALIGNMENT) * _ALIGNMENT
