"""A call that a reader makes while it is polled: in a thread of its own, so that no poll waits for a server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")

AWAITING_MS = 10
"""How long one look waits for the result."""


class Background(Generic[T]):
    """One call at a time. State: the one under way."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._call: Future[T] | None = None

    def result(self, call: Callable[[], T]) -> T | None:
        """What the call under way has returned or raised; None while it has not. It is begun where none is."""
        if self._call is None:
            self._call = self._thread.submit(call)
        with contextlib.suppress(TimeoutError):
            self._call.exception(AWAITING_MS / 1000)
        if not self._call.done():
            return None
        done, self._call = self._call, None
        return done.result()

    @property
    def is_under_way(self) -> bool:
        return self._call is not None

    def close(self) -> None:
        """What is under way has been interrupted by its owner."""
        self._thread.shutdown(wait=True, cancel_futures=True)
