"""Waits on the event loop for what other threads announce by a callback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

Unsubscribe = Callable[[], None]
Subscribe = Callable[[Callable[[], None]], Unsubscribe]


async def called_within(subscribe: Subscribe, timeout_s: float) -> bool:
    """Subscribe, and wait until the callback is called; False after `timeout_s`. No thread waits."""
    loop = asyncio.get_running_loop()
    called = asyncio.Event()

    def callback() -> None:
        # The loop may be closed when the last jobs end.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(called.set)

    unsubscribe = subscribe(callback)
    try:
        async with asyncio.timeout(timeout_s):
            await called.wait()
    except TimeoutError:
        return False
    finally:
        unsubscribe()
    return True
