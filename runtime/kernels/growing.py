"""Arrays that grow in place: large ones by remapping their pages, which copies nothing and touches no page in advance."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np

from sqlstream.runtime.memory.array_memory import ArrayMemory, GrownFile, memory_in_force

Array = np.ndarray[Any, Any]

_CAPACITY_MIN = 16
_MAPPED_BYTES_MIN = 4 << 20
"""Arrays that outgrow this are mapped. Below it, memory that the allocator has at hand is cheaper than fresh pages."""
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)


class GrowingArray:
    """A numpy array, `values`, whose first `count` items (along its first axis) are in use; what is not yet written is `fill`.

    `reserve` may move the items: take `values` anew after it. A view of `values` that still exists then keeps its memory and
    turns the growth into a copy. For one thread: while they are moved, another one would find none. State: the items, with room
    for as many again, in `memory` (None: that in force). It never shrinks.
    """

    def __init__(
        self,
        dtype: Any,
        width: int = 0,
        fill: Any = 0,
        memory: ArrayMemory | None = None,
        *,
        is_read_mostly: bool = False,
    ) -> None:
        self._memory = memory or memory_in_force()
        self._is_read_mostly = is_read_mostly
        self._dtype = np.dtype(dtype)
        self._tail = (width,) if width else ()
        self._fill = fill
        self._item_bytes = self._dtype.itemsize * max(width, 1)
        self._map: mmap.mmap | None = None
        self._file: GrownFile | None = None
        self.values: Array = np.empty((0, *self._tail), dtype=self._dtype)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.nbytes_of(self.count)

    def nbytes_of(self, used: int) -> int:
        """Memory held, in bytes, when only the first `used` items were ever written: mapped pages come with their first use."""
        is_by_page = self._map is not None or self._file is not None
        return used * self._item_bytes if is_by_page else int(self.values.nbytes)

    def reserve(self, count: int) -> None:
        """Have at least `count` items in use; doubling makes growth amortised O(1) per item."""
        if count <= self.count:
            return
        if count > len(self.values):
            self._grow(max(count, 2 * len(self.values), _CAPACITY_MIN))
        if self._fill:
            self.values[self.count : count] = self._fill
        self.count = count

    def _grow(self, capacity: int) -> None:
        if self._memory.is_mapped(capacity * self._item_bytes):
            self._grow_file(capacity)
            return
        if self.count and capacity * self._item_bytes >= _MAPPED_BYTES_MIN:
            self._remap(capacity)
            return
        larger = np.zeros((capacity, *self._tail), dtype=self._dtype)
        larger[: self.count] = self.values[: self.count]
        self.values = larger

    def _grow_file(self, capacity: int) -> None:
        if self._file is not None:
            self.values = self._items_in(self._file, capacity)
            return
        file = self._memory.new_file()
        larger = self._items_in(file, capacity)
        larger[: self.count] = self.values[: self.count]
        self._file, self.values = file, larger

    def _items_in(self, file: GrownFile, capacity: int) -> Array:
        pages = file.map(capacity * self._item_bytes, is_read_mostly=self._is_read_mostly)
        return _items(pages, self._dtype, self._tail)

    def _remap(self, capacity: int) -> None:
        size = -(-capacity * self._item_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        old, before = self._map, self.values
        if old is not None:
            before = before[:0].copy()
            self.values = before
            try:
                old.resize(size)
            except (BufferError, SystemError):
                # Somebody holds a view of the old memory, which lives as long as the view; or the system cannot remap.
                before = self.values = _items(old, self._dtype, self._tail)
                old = None
            except OSError:
                # No memory: the items stay where they are.
                self.values = _items(old, self._dtype, self._tail)
                raise
        if old is None:
            self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            if _HUGE_PAGES is not None:
                with contextlib.suppress(OSError):
                    self._map.madvise(_HUGE_PAGES)
        assert self._map is not None
        self.values = _items(self._map, self._dtype, self._tail)
        if len(before):
            self.values[: self.count] = before[: self.count]


def _items(pages: mmap.mmap | Array, dtype: np.dtype[Any], tail: tuple[int, ...]) -> Array:
    items = np.frombuffer(pages, dtype=dtype) if isinstance(pages, mmap.mmap) else _whole(pages, dtype)
    return items[: len(items) // tail[0] * tail[0]].reshape(-1, *tail) if tail else items


def _whole(pages: Array, dtype: np.dtype[Any]) -> Array:
    """The items that fit into pages, whose number of bytes need be no multiple of an item's."""
    return pages[: len(pages) // dtype.itemsize * dtype.itemsize].view(dtype)
