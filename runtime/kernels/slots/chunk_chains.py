"""Chunks by slot: each slot has a chain of chunk ids in order of their making, of which the last may be replaced."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.native.kernel import kernel

_BEFORE, _BYTES = 0, 1


class ChunkChains:
    """Singly linked chains, from the last chunk of a slot to its first.

    State: an int64 per slot (its last chunk) and two per chunk (the one before, its bytes). They do not shrink.
    """

    def __init__(self) -> None:
        self._tails = GrowingArray(np.int64, fill=-1)
        self._links = GrowingArray(np.int64, 2, fill=-1)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._tails.nbytes + self._links.nbytes

    def resize(self, slots: int) -> None:
        """Slots 0 … slots - 1 have a chain from here on; a new one is empty."""
        self._tails.reserve(slots)

    def tails(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the last chunk of each slot, -1 where there is none."""
        return self._tails.values[slots]

    def bytes_of(self, chunks: np.ndarray) -> np.ndarray:
        """int64[n]: the bytes that were linked with each chunk."""
        return self._links.values[chunks, _BYTES]

    def before(self, chunks: np.ndarray) -> np.ndarray:
        """int64[n]: the chunk before each, -1 before the first."""
        return self._links.values[chunks, _BEFORE]

    def link(self, slots: np.ndarray, chunks: np.ndarray, before: np.ndarray, sizes: np.ndarray) -> None:
        """chunks[i] is the last one of the distinct slot i from here on, behind before[i]."""
        if len(slots):
            self._links.reserve(int(chunks.max()) + 1)
            self._links.values[chunks, _BEFORE] = before
            self._links.values[chunks, _BYTES] = sizes
            self._tails.values[slots] = chunks

    def empty(self, slots: np.ndarray) -> None:
        """These slots have no chunk any more."""
        self._tails.values[slots] = -1

    def of(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(int64[n + 1] bounds, chunks): those of slot i are chunks[bounds[i] : bounds[i + 1]], the oldest first."""
        bounds = np.zeros(len(slots) + 1, dtype=np.int64)
        tails, links = self._tails.values, self._links.values
        _count_chunks(tails, links, slots, bounds)
        np.cumsum(bounds, out=bounds)
        chunks = np.empty(int(bounds[-1]), dtype=np.int64)
        _list_chunks(tails, links, slots, bounds, chunks)
        return bounds, chunks


@kernel("void(int64[::1], int64[:, ::1], int64[::1], int64[::1])")
def _count_chunks(tails, links, slots, bounds):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        chunk = tails[slots[i]]
        while chunk >= 0:
            bounds[i + 1] += 1
            chunk = links[chunk, _BEFORE]


@kernel("void(int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1])")
def _list_chunks(tails, links, slots, bounds, chunks):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        chunk = tails[slots[i]]
        at = bounds[i + 1]
        while chunk >= 0:
            at -= 1
            chunks[at] = chunk
            chunk = links[chunk, _BEFORE]


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean[::1])")
def drop_first_equal(bounds, codes, doomed_bounds, doomed_codes, counts, is_kept):  # type: ignore[no-untyped-def]
    """is_kept[e] = whether element e of a list stays. Returns how many went.

    List i has elements bounds[i] … bounds[i + 1]. For each d of doomed_bounds[i] … doomed_bounds[i + 1], its first counts[d]
    elements of code doomed_codes[d] go; these codes ascend. Counts down `counts`.
    """
    gone = 0
    for i in range(len(bounds) - 1):
        first, end = doomed_bounds[i], doomed_bounds[i + 1]
        left = np.int64(0)
        for d in range(first, end):
            left += counts[d]
        for e in range(bounds[i], bounds[i + 1]):
            is_kept[e] = True
            if left == 0:
                continue
            low, high = first, end
            while low < high:
                middle = (low + high) >> 1
                if doomed_codes[middle] < codes[e]:
                    low = middle + 1
                else:
                    high = middle
            if low < end and doomed_codes[low] == codes[e] and counts[low] > 0:
                counts[low] -= 1
                left -= 1
                gone += 1
                is_kept[e] = False
    return gone
