"""A call on a thread of its own, which the caller need not wait for to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class ThreadedCall(Generic[Result]):
    """Calls a function at once. State: the thread, then the result or the failure."""

    def __init__(self, function: Callable[[], Result], name: str) -> None:
        self._function = function
        self._result: Result | None = None
        self._failure: BaseException | None = None
        self._is_done = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # the thread's boundary: `result` raises it
            self._failure = error
        self._is_done = True

    def wait(self, timeout_s: float) -> bool:
        """Whether the call has ended, after at most that long."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def result(self) -> Result | None:
        """What the function has returned; None while it runs. Raises what it has raised."""
        if self._failure is not None:
            raise self._failure
        return self._result if self._is_done else None
