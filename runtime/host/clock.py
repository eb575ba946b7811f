"""The real clock: wall time for rows and reports, a steady one for deadlines and for measuring how long things took."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


_BEGIN_MS = now_ms() - time.monotonic_ns() // 1_000_000


def steady_ms() -> int:
    """Milliseconds on a monotonic clock, which changes of the machine's clock do not affect. It started equal to `now_ms`
    when this process started."""
    return _BEGIN_MS + time.monotonic_ns() // 1_000_000


def steady_s() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return time.monotonic()


def thread_cpu_ns() -> int:
    """Processor time of the calling thread; only differences within one thread mean something."""
    return time.thread_time_ns()


def wait_s(seconds: float) -> None:
    """Return after this long."""
    time.sleep(seconds)
