"""Tries again what a database could not do for a reason that may pass."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from sqlstream.errors import ExternalError, Retry

logger = logging.getLogger(__name__)
T = TypeVar("T")

PAUSE_S = 0.2
"""Before the first retry; every further pause is twice as long, up to PAUSE_MAX_S."""
PAUSE_MAX_S = 5.0


def tried(
    action: Callable[[int], T], retries_max: int, failed: str, cancelled: threading.Event | None = None
) -> T:
    """What `action`, which gets the number of retries before it, returns. `failed` says in the log what is tried again. The
    ExternalError of the last try, or of one that cannot help. No try begins once another thread has set `cancelled`."""
    pause_s = PAUSE_S
    cancelled = cancelled or threading.Event()
    if cancelled.is_set():
        raise ExternalError("SS5060", "nothing is asked of the database: the task is cancelled")
    for attempt in range(retries_max + 1):
        try:
            return action(attempt)
        except ExternalError as error:
            if error.retry is Retry.NEVER or attempt == retries_max:
                raise
            logger.warning("%s and is tried again in %.1f s: %s", failed, pause_s, error.message)
            if cancelled.wait(pause_s):
                raise
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
    raise AssertionError("unreachable")
