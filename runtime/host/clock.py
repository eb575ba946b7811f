"""The real clock: wall time for rows and reports, a steady one for measuring how long things took."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def steady_s() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return time.monotonic()
