"""The real clock: wall time for rows and reports, a steady one for deadlines and for measuring how long things took."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


_BEGIN_MS = now_ms() - time.monotonic_ns() // 1_000_000


def steady_ms() -> int:
    """Milliseconds on a clock that nobody sets and that never goes back. It began with the epoch when this process
    did; since then it may differ from `now_ms` by what that was set by."""
    return _BEGIN_MS + time.monotonic_ns() // 1_000_000


def steady_s() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return time.monotonic()
