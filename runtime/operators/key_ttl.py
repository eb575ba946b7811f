"""Which keys nobody has touched for the state's time to live."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.operators.aggregates.accumulator import Array, grown


class KeyTtl:
    """When each slot was last touched, and when the next one expires. State: one time a slot; none without a TTL (0)."""

    def __init__(self, ttl_ms: int, now_ms: Callable[[], int]) -> None:
        self._ttl_ms = ttl_ms
        self._now_ms = now_ms
        self._touched_ms: Array = np.empty(0, dtype=np.int64)
        self.next_sweep_ms: int | None = None

    def touch(self, slots: Array) -> None:
        """These slots live on for another TTL."""
        if self._ttl_ms and len(slots):
            self.load(slots, np.full(len(slots), self._now_ms(), dtype=np.int64))

    def load(self, slots: Array, touched_ms: Array) -> None:
        """These slots were touched then."""
        if self._ttl_ms and len(slots):
            self._touched_ms = grown(self._touched_ms, int(slots.max()) + 1)
            self._touched_ms[slots] = touched_ms
            due_ms = int(touched_ms.min()) + self._ttl_ms
            self.next_sweep_ms = due_ms if self.next_sweep_ms is None else min(due_ms, self.next_sweep_ms)

    def is_due(self) -> bool:
        """Whether a slot may have expired."""
        return self.next_sweep_ms is not None and self._now_ms() >= self.next_sweep_ms

    def take_expired(self, live: Array) -> Array:
        """Those of the live slots that have expired; the caller forgets them."""
        touched = self._touched_ms[live]
        is_expired = touched <= self._now_ms() - self._ttl_ms
        kept = touched[~is_expired]
        self.next_sweep_ms = int(kept.min()) + self._ttl_ms if len(kept) else None
        return live[is_expired]

    def touched_ms(self, slots: Array) -> Array:
        """int64[n] for a snapshot."""
        return self._touched_ms[slots] if self._ttl_ms else np.zeros(len(slots), dtype=np.int64)

    def nbytes(self) -> int:
        return int(self._touched_ms.nbytes)
