"""The clock by which windows are cut, that of the session's time zone, and when it has passed a time for good."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa

from sqlstream.runtime.evaluate.local_time import from_local, to_local
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.time_zones import check_time_zone, is_utc

_AHEAD_MS = 26 * 3_600_000
"""A clock that is set back is set back by less."""
_LIMIT_MS = 253_000_000_000_000
"""Beyond this, years before the last one that a clock shows, times are as in UTC: watermarks that stand for the end."""
_INSTANT = pa.timestamp("ms", tz="UTC")


class WindowClock:
    """Converts instants, such as watermarks, to the local times that bound windows of TIMESTAMP_LTZ.

    When the clock is set back, local times repeat. A window whose end they repeat closes when the clock passes its end for the
    last time, so that no row comes after it. In UTC all times are as they are. No state.
    """

    def __init__(self, time_zone: str) -> None:
        self.time_zone = check_time_zone(time_zone)
        self._is_utc = is_utc(self.time_zone)
        self._due_ms = functools.lru_cache(maxsize=64)(self._first_instant_behind)

    def local_ms(self, instants: Array) -> Array:
        """What the clock shows at each instant."""
        return instants if self._is_utc or len(instants) == 0 else self._shown(instants)

    def now_ms(self, now_ms: int) -> int:
        return now_ms if self._is_utc else int(self._shown(np.array([now_ms]))[0])

    def passed_ms(self, watermark_ms: int) -> int:
        """The last local millisecond that the clock has passed for good when the watermark has passed an instant."""
        if self._is_utc or abs(watermark_ms) > _LIMIT_MS:
            return watermark_ms
        return int(self._reached(np.array([watermark_ms + 1]))[0]) - 1

    def all_passed_ms(self, watermarks: Array) -> Array:
        """`passed_ms` of each."""
        if self._is_utc or len(watermarks) == 0:
            return watermarks
        clipped = np.clip(watermarks, -_LIMIT_MS, _LIMIT_MS)
        return np.where(clipped == watermarks, self._reached(clipped + 1) - 1, watermarks)

    def forwarded_ms(self, watermark_ms: int) -> int:
        """The watermark behind which are the times of all windows that are still to close: a time that repeats is its first
        instant."""
        if self._is_utc or abs(watermark_ms) > _LIMIT_MS:
            return watermark_ms
        end = to_array(pa.timestamp("ms"), np.array([self.passed_ms(watermark_ms) + 1]))
        instant = from_local(end, _INSTANT, self.time_zone)
        return min(watermark_ms, int(view_values(instant, np.int64)[0]) - 1)

    def due_ms(self, end_ms: int) -> int:
        """The instant at which a window with that local end closes."""
        return end_ms if self._is_utc else self._due_ms(end_ms)

    def instants(self, local: pa.Array, target: pa.DataType) -> pa.Array:
        """Local times as a column of this type."""
        return local.cast(target) if self._is_utc else from_local(local, target, self.time_zone)

    def _shown(self, instants: Array) -> Array:
        column = to_array(pa.int64(), np.ascontiguousarray(instants, dtype=np.int64)).view(_INSTANT)
        return view_values(to_local(column, self.time_zone), np.int64)

    def _reached(self, instants: Array) -> Array:
        """The least local time that the clock shows at each instant or later."""
        shown = self._shown(instants)
        falls = self._shown(instants + _AHEAD_MS) - _AHEAD_MS < shown
        if not falls.any():
            return shown
        before = instants[falls]
        offset = shown[falls] - before
        low, high = before, before + _AHEAD_MS
        while int((high - low).max()) > 1:
            middle = (low + high) // 2
            is_back = self._shown(middle) - middle < offset
            low, high = np.where(is_back, low, middle), np.where(is_back, middle, high)
        reached = shown.copy()
        reached[falls] = np.minimum(shown[falls], self._shown(high))
        return reached

    def _first_instant_behind(self, end_ms: int) -> int:
        low, high = end_ms - _AHEAD_MS, end_ms + _AHEAD_MS
        while high - low > 1:
            middle = (low + high) // 2
            if int(self._reached(np.array([middle]))[0]) >= end_ms:
                high = middle
            else:
                low = middle
        return high
