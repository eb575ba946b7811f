"""What is done before this process ends, also where it skips the interpreter's orderly shutdown."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable
from typing import NoReturn

_ends = contextlib.ExitStack()
atexit.register(_ends.close)


def before_end(action: Callable[[], object]) -> None:
    """Call `action` once before the process ends by `leave` or by the interpreter's end; the last one given is called first. A
    process that is killed calls nothing."""
    _ends.callback(action)


def leave(code: int, timeout_s: float | None = None) -> NoReturn:
    """End the process, without waiting for its threads, after all that `before_end` was given.

    With `timeout_s` at most that long after the call. A signal handler needs it: the thread that it interrupts may hold any
    lock."""
    try:
        if timeout_s is None:
            _ends.close()
        else:
            ending = threading.Thread(target=_ends.close, name="process-end", daemon=True)
            ending.start()
            ending.join(timeout_s)
    finally:
        os._exit(code)
