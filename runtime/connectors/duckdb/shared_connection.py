"""A connection to DuckDB that several hold."""

from __future__ import annotations

import threading
from typing import Any


class SharedConnection:
    """Closes the connection when the last holder has released it; who makes it holds it. Thread-safe. State: how many hold it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._holders = 1

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last:
            self.connection.close()
