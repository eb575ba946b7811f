"""The rows at which unfinished matches begin, by time."""

from __future__ import annotations

import numpy as np

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array


class PendingStarts:
    """A time for some ids of rows. State: 8 bytes per id, WATERMARK_MAX for those without, and the earliest time while it is
    known: it is asked for much more often than an id with that time goes."""

    def __init__(self) -> None:
        self._times = GrowingArray(np.int64, fill=WATERMARK_MAX)
        self._earliest: int | None = WATERMARK_MAX

    def set(self, row_ids: Array, times: Array) -> None:
        """Give distinct ids, which have no time, these."""
        if len(row_ids):
            self._times.reserve(int(row_ids.max()) + 1)
            self._times.values[row_ids] = times
            if self._earliest is not None:
                self._earliest = min(self._earliest, int(times.min()))

    def remove(self, row_ids: Array) -> None:
        known = row_ids[row_ids < self._times.count]
        if self._earliest is not None and (self._times.values[known] == self._earliest).any():
            self._earliest = None
        self._times.values[known] = WATERMARK_MAX

    @property
    def earliest(self) -> int:
        """WATERMARK_MAX when there is none."""
        if self._earliest is None:
            self._earliest = int(self._times.values[: self._times.count].min(initial=WATERMARK_MAX))
        return self._earliest

    def until(self, limit: int) -> Array:
        """The ids with times up to the limit."""
        limit = min(limit, WATERMARK_MAX - 1)
        if self.earliest > limit:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self._times.values[: self._times.count] <= limit)
