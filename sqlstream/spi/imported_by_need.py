"""What is imported when it is needed first, by any thread."""

from __future__ import annotations

import importlib
import threading
from typing import Any

_LOCK = threading.RLock()


def imported(place: str) -> Any:
    """What `module:name` names. One thread imports at a time: two that import modules of one package from different ends may find
    each other's locks taken, and Python ends one of them with a _DeadlockError."""
    module, name = place.split(":")
    with _LOCK:
        return getattr(importlib.import_module(module), name)
