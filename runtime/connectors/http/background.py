"""A call that a reader makes while it is polled: in a thread of its own, so that no poll waits for a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")

AWAITING_MS = 10
"""How long one look waits for the result."""
_ENDING_S = 1.0


class Background(Generic[T]):
    """One call at a time. State: the one under way.

    Its thread is one that a process does not wait for: a name that is resolved cannot be interrupted."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._call: Future[T] | None = None
        self._thread: threading.Thread | None = None

    def result(self, call: Callable[[], T]) -> T | None:
        """What the call under way has returned or raised; None while it has not. It is begun where none is."""
        if self._call is None:
            self._call = Future()
            self._thread = threading.Thread(
                target=_run, args=(call, self._call), name=self._name, daemon=True
            )
            self._thread.start()
        try:
            self._call.exception(AWAITING_MS / 1000)
        except TimeoutError:
            return None
        done, self._call = self._call, None
        return done.result()

    @property
    def is_under_way(self) -> bool:
        return self._call is not None

    def close(self) -> None:
        """What is under way has been interrupted by its owner."""
        if self._thread is not None:
            self._thread.join(_ENDING_S)


def _run(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
