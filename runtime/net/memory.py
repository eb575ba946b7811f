"""The network memory of one TaskManager: floating bytes that channels with a backlog borrow on top of their
own."""

from __future__ import annotations

import threading


class NetworkMemory:
    """A bounded number of bytes, shared by all channels of a process. State: the bytes lent; thread-safe."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._lent_bytes = 0
        self._lock = threading.Lock()

    @property
    def lent_bytes(self) -> int:
        return self._lent_bytes

    def borrow(self, wanted_bytes: int) -> int:
        """Lend bytes; returns how many: those requested, or as many as are left, which may be 0."""
        with self._lock:
            lent = min(wanted_bytes, self.total_bytes - self._lent_bytes)
            self._lent_bytes += lent
            return lent

    def give_back(self, size: int) -> None:
        with self._lock:
            if size > self._lent_bytes:
                raise AssertionError(f"{size} bytes come back but {self._lent_bytes} were lent")
            self._lent_bytes -= size
