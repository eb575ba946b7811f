"""When the figures of running tasks are reported: often while a client reads them."""

from __future__ import annotations

METRICS_INTERVAL_MS = 250
"""Interval between reports of figures while a client reads them."""

UNWATCHED_METRICS_INTERVAL_MS = 10_000
"""Interval between reports while no client reads them."""

METRICS_WATCHED_MS = 5_000
"""How long after a task's start, or after a RequestMetrics, a client is assumed to read the figures."""


class MetricsSchedule:
    """State: until when a client is assumed to read, and when figures were last collected."""

    def __init__(self) -> None:
        self.is_watched = False
        self._watched_until_ms = 0
        self._collected_ms = 0

    def watch(self, now_ms: int) -> None:
        """A client reads."""
        self._watched_until_ms = now_ms + METRICS_WATCHED_MS
        self.is_watched = True

    def is_due(self, now_ms: int, has_tasks: bool) -> bool:
        """Whether they are to be collected at this moment; True is said once."""
        self.is_watched = now_ms < self._watched_until_ms
        interval_ms = METRICS_INTERVAL_MS if self.is_watched else UNWATCHED_METRICS_INTERVAL_MS
        if not has_tasks or now_ms - self._collected_ms < interval_ms:
            return False
        self._collected_ms = now_ms
        return True
