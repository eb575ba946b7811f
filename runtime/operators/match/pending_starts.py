"""The rows at which unfinished matches begin, by time."""

from __future__ import annotations

import numpy as np

from runtime.kernels.growing import GrowingArray
from runtime.state.arrays import Array
from sqlstream.elements import WATERMARK_MAX


class PendingStarts:
    """A time for some ids of rows. State: 8 bytes per id, WATERMARK_MAX for those without."""

    def __init__(self) -> None:
        self._times = GrowingArray(np.int64, fill=WATERMARK_MAX)

    def set(self, row_ids: Array, times: Array) -> None:
        if len(row_ids):
            self._times.reserve(int(row_ids.max()) + 1)
            self._times.values[row_ids] = times

    def remove(self, row_ids: Array) -> None:
        known = row_ids[row_ids < self._times.count]
        self._times.values[known] = WATERMARK_MAX

    @property
    def earliest(self) -> int:
        """WATERMARK_MAX when there is none."""
        return int(self._times.values[: self._times.count].min(initial=WATERMARK_MAX))

    def until(self, limit: int) -> Array:
        """The ids with times up to the limit."""
        return np.flatnonzero(self._times.values[: self._times.count] <= min(limit, WATERMARK_MAX - 1))
