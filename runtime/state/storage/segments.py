"""Memory in segments: bytes are appended to the last one, and the one with the most garbage is chosen for cleaning."""

from __future__ import annotations

import numpy as np

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.slots.records import SEGMENTS_MAX
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.storage.arrays import Array, grown

SEGMENT_BYTES = 4 << 20
"""numpy asks the system for huge pages for arrays of this size or larger: far fewer page faults."""

_SEGMENT_BYTES_MIN = 16 << 10
_GROWTH = 4
_SPARES_RATIO = 16


class Segments:
    """Segments by number. The kernels read `bases` (addresses) and write `live` (bytes of live records), both by number.

    A segment is as large as a quarter of all before it, within bounds, so that small tables are small. Freed segments of full
    size are kept for the next ones, at most one in sixteen, the others are given back.
    State: the memory; how much of each segment is used and live.
    """

    def __init__(self) -> None:
        self._place = memory_in_force()
        # Segment 0 is empty, so that a table without rows holds no memory.
        self._memory: list[Array | None] = [np.empty(0, dtype=np.uint8)]
        self._free: list[int] = []
        self._spares: list[Array] = []
        self._used: Array = np.zeros(1, dtype=np.int64)
        self._held_bytes = 0
        self.bases: Array = np.zeros(1, dtype=np.int64)
        self.live: Array = np.zeros(1, dtype=np.int64)
        self.last = 0
        """The number of the segment that is appended to."""
        self.used = 0
        """How many of its bytes are used."""

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, with what is kept for later use."""
        return self._held_bytes + sum(spare.nbytes for spare in self._spares)

    @property
    def live_bytes(self) -> int:
        return int(self.live.sum())

    @property
    def room(self) -> int:
        """Bytes of the last segment."""
        return self._memory_of(self.last).nbytes

    def used_by(self, number: int) -> int:
        """Bytes that are used of a segment other than the last."""
        return int(self._used[number])

    def open(self, record_bytes: int) -> None:
        """Begin the next segment, with room for a record of this size."""
        self._used[self.last] = self.used
        number = self._free.pop() if self._free else len(self._memory)
        if number == SEGMENTS_MAX:
            raise InternalError(
                f"a table cannot have more than {SEGMENTS_MAX} segments of memory in one subtask"
            )
        if number == len(self._memory):
            self._memory.append(None)
            self._used, self.bases, self.live = (
                grown(a, number + 1) for a in (self._used, self.bases, self.live)
            )
        memory = self._memory[number] = self._allocated(record_bytes)
        self._held_bytes += memory.nbytes
        self.bases[number], self.live[number], self._used[number] = memory.ctypes.data, 0, 0
        self.last, self.used = number, 0

    def _allocated(self, record_bytes: int) -> Array:
        size = min(SEGMENT_BYTES, max(_SEGMENT_BYTES_MIN, self._held_bytes // _GROWTH))
        if 2 * record_bytes > size:
            # Large records are several in a segment: its end, where the next one does not fit, stays unused.
            size = 2 * record_bytes
        if size == SEGMENT_BYTES and self._spares:
            return self._spares.pop()
        return self._place.empty(size, np.uint8)

    def most_garbage(self) -> int | None:
        """The segment to clean next: one without live records, or the worst while garbage takes more than a third of what is
        used, and more than two segments; else None."""
        self._used[self.last] = self.used
        garbage = self._used - self.live
        total, live_bytes = int(garbage.sum()), self.live_bytes
        garbage[self.last] = 0
        number = int(np.argmax(garbage))
        if garbage[number] == 0:
            return None
        is_worth_it = self.live[number] == 0 or total > max(live_bytes // 2, 2 * self.room)
        return number if is_worth_it else None

    def free(self, number: int) -> None:
        """Release a segment without live records."""
        memory = self._memory_of(number)
        self._held_bytes -= memory.nbytes
        if (
            memory.nbytes == SEGMENT_BYTES
            and (len(self._spares) + 1) * _SPARES_RATIO * SEGMENT_BYTES <= self._held_bytes
        ):
            self._spares.append(memory)
        self._memory[number] = None
        self._used[number] = self.live[number] = self.bases[number] = 0
        self._free.append(number)

    def _memory_of(self, number: int) -> Array:
        memory = self._memory[number]
        assert memory is not None
        return memory
