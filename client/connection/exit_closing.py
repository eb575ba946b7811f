"""Closes at the end of the process what its user has left open."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 (it registers its end first, so that ours comes before it)
import threading
from collections.abc import Callable
from typing import Any

_open: dict[int, Callable[[], None]] = {}


def close_at_exit(owner: object, close: Callable[[], None]) -> None:
    """Call `close` before the interpreter shuts down, unless `forget` comes first. It may start threads and wait for them."""
    _open[id(owner)] = close


def forget(owner: object) -> None:
    """`owner` is closed already."""
    _open.pop(id(owner), None)


def _close_all() -> None:
    for close in list(_open.values()):
        close()


# Functions registered with atexit run when thread pools accept no more work, and a cluster ends its jobs with them.
_register: Any = getattr(threading, "_register_atexit", atexit.register)
_register(_close_all)
