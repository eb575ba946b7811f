"""Which windows are to be emitted or forgotten next: what an operator derives from its state and finds again without a scan."""

from __future__ import annotations

import bisect

import numpy as np

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.aggregate import EmitSpec


class DueWindows:
    """Slots of windows by their end, and slots that have changed and wait for their delay.

    State (derived, not saved): the slots of all windows until `take_forgotten`, those of changes until `take_changed`.
    """

    def __init__(self, emit: EmitSpec) -> None:
        self._lateness_ms = emit.lateness_ms
        self._by_end: dict[int, list[Array]] = {}
        # In order: where late rows are waited for, there are many windows.
        self._ends: list[int] = []
        self._changed: dict[bool, list[Array]] = {False: [], True: []}
        self._due_ms = {False: WATERMARK_MAX, True: WATERMARK_MAX}

    # -- by event time -----------------------------------------------------------------------------

    def opened(self, slots: Array, ends: Array) -> None:
        """Windows with these ends now exist."""
        for end in np.unique(ends).tolist():
            if end not in self._by_end:
                self._by_end[end] = []
                bisect.insort(self._ends, end)
            self._by_end[end].append(slots[ends == end])

    def closing(self, closed_ms: int, watermark_ms: int) -> list[Array]:
        """The windows that a watermark closes after an earlier one, by their ends."""
        first, last = (bisect.bisect_right(self._ends, passed + 1) for passed in (closed_ms, watermark_ms))
        return [np.concatenate(self._by_end[end]) for end in self._ends[first:last]]

    def take_forgotten(self, watermark_ms: int) -> list[Array]:
        """The windows that no row can reach any more, by their ends; they are not known from here on."""
        count = bisect.bisect_right(self._ends, watermark_ms, key=self._forgotten_at)
        forgotten, self._ends = self._ends[:count], self._ends[count:]
        return [np.concatenate(self._by_end.pop(end)) for end in forgotten]

    def _forgotten_at(self, end: int) -> int:
        return min(end - 1 + self._lateness_ms, WATERMARK_MAX)

    def next_end(self, closed_ms: int) -> int:
        """One more than the first watermark that closes a window or forgets one; WATERMARK_MAX when there is no window."""
        if not self._ends:
            return WATERMARK_MAX
        closed = bisect.bisect_right(self._ends, closed_ms + 1)
        moments = self._ends[closed : closed + 1]
        if closed:
            moments = [*moments, self._forgotten_at(self._ends[0]) + 1]
        return min(*moments, WATERMARK_MAX - 1)

    # -- by processing time ------------------------------------------------------------------------

    @property
    def due_ms(self) -> int:
        """When the next changes are due; WATERMARK_MAX when none wait."""
        return min(self._due_ms.values())

    def changed(self, slots: Array, is_late: bool, due_ms: int) -> None:
        """Changes of these windows wait until the time, or until what already waits is due."""
        if len(slots):
            self._changed[is_late].append(slots)
            self._due_ms[is_late] = min(self._due_ms[is_late], due_ms)

    def take_changed(self, is_late: bool, now_ms: int) -> Array:
        """The distinct slots whose changes are due."""
        if self._due_ms[is_late] > now_ms:
            return np.empty(0, dtype=np.int64)
        slots = np.unique(np.concatenate(self._changed[is_late]))
        self._changed[is_late], self._due_ms[is_late] = [], WATERMARK_MAX
        return slots
