"""Arrow values by slot, of types that no record has (nested ones, dictionaries), in chunks that are rewritten one at a time."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.storage.arrays import Array, grown

_FAN_IN = 8
_LARGE_ROWS = 1 << 16
_ROW_MASK = (1 << 32) - 1


@dataclasses.dataclass
class _Chunk:
    """Values, the slot that each was put to, and how many of them are still there."""

    values: pa.Array
    slots: Array
    live: int

    @property
    def tier(self) -> int:
        """Chunks whose lengths differ by less than a factor of eight have one tier."""
        return (len(self.slots).bit_length() + 2) // 3


class NestedColumn:
    """Values of one type by slot; a slot without one is NULL.

    What was put at once is one chunk. Eight chunks of similar length become one, up to 65,536 values. A chunk is rewritten
    when more than half of its values were overwritten or deleted. So each value is copied a few times, and garbage is at most
    as many values as are live. State: the chunks, and one int64 per slot with its chunk and row.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._chunks: dict[int, _Chunk] = {}
        self._next = 0
        self._memory = memory_in_force()
        self._places: Array = np.empty(0, dtype=np.int64)
        # An operator writes while another thread collects a snapshot.
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        chunks = self._chunks.values()
        return int(self._places.nbytes) + sum(
            c.values.get_total_buffer_size() + c.slots.nbytes for c in chunks
        )

    def put(self, slots: Array, values: pa.Array) -> None:
        """Set slots; for a slot that occurs twice the last value is kept."""
        # The last of equal slots, counted from the end, is the first.
        last = len(slots) - 1 - np.unique(slots[::-1], return_index=True)[1]
        with self._lock:
            self._places = grown(self._places, int(slots.max()) + 1, -1, self._memory)
            self._leave(slots[last])
            self._add(slots[last], values.take(to_array(pa.int64(), last)))
            self._tidy()

    def delete(self, slots: Array) -> None:
        """Make slots NULL and forget their values. A slot out of range is ignored."""
        with self._lock:
            self._leave(np.unique(slots[slots < len(self._places)]))
            self._tidy()

    def gather(self, slots: Array) -> pa.Array:
        """The values of slots, NULL for a slot without one."""
        with self._lock:
            return self._gather(slots)

    def _gather(self, slots: Array) -> pa.Array:
        places = np.full(len(slots), -1, dtype=np.int64)
        known = slots < len(self._places)
        places[known] = self._places[slots[known]]
        order = np.argsort(places >> 32, kind="stable")
        present = order[np.searchsorted(places[order] >> 32, 0) :]
        if len(present) == 0:
            return pa.nulls(len(slots), self._type)
        numbers, starts = np.unique(places[present] >> 32, return_index=True)
        parts = np.split(places[present] & _ROW_MASK, starts[1:])
        found = [
            self._chunks[number].values.take(to_array(pa.int64(), rows))
            for number, rows in zip(numbers.tolist(), parts, strict=True)
        ]
        back, is_there = np.zeros(len(slots), dtype=np.int64), np.zeros(len(slots), dtype=bool)
        back[present], is_there[present] = np.arange(len(present)), True
        # `take` returns NULL for a NULL index.
        return pa.concat_arrays(found).take(to_array(pa.int64(), back, is_there))

    def _add(self, slots: Array, values: pa.Array) -> None:
        (values,) = self._memory.settled([values])
        self._chunks[self._next] = _Chunk(values, slots, len(slots))
        self._places[slots] = (self._next << 32) + np.arange(len(slots))
        self._next += 1

    def _leave(self, slots: Array) -> None:
        """Distinct slots lose their values."""
        places = self._places[slots]
        numbers, counts = np.unique(places[places >= 0] >> 32, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._chunks[number].live -= count
        self._places[slots] = -1

    def _tidy(self) -> None:
        for number in [n for n, chunk in self._chunks.items() if 2 * chunk.live < len(chunk.slots)]:
            self._rewrite([number])
        tiers: dict[int, list[int]] = {}
        for number, chunk in self._chunks.items():
            if len(chunk.slots) < _LARGE_ROWS // _FAN_IN:
                tiers.setdefault(chunk.tier, []).append(number)
        for numbers in tiers.values():
            if len(numbers) >= _FAN_IN:
                self._rewrite(numbers)

    def _rewrite(self, numbers: list[int]) -> None:
        """Make one chunk of the live values of these."""
        slots, values = [], []
        for number in numbers:
            chunk = self._chunks.pop(number)
            live = np.flatnonzero(self._places[chunk.slots] == (number << 32) + np.arange(len(chunk.slots)))
            slots.append(chunk.slots[live])
            values.append(chunk.values.take(to_array(pa.int64(), live)))
        if any(map(len, slots)):
            self._add(np.concatenate(slots), pa.concat_arrays(values))
