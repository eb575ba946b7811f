"""Which bytes of a shared segment are free."""

from __future__ import annotations

import bisect

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
