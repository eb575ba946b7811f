"""The network memory of one TaskManager: floating bytes that channels with a backlog borrow on top of their
own."""

from __future__ import annotations

import threading


class NetworkMemory:
    """A bounded count of bytes, shared by all channels of a process. State: how many are lent;
    thread-safe."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._lent_bytes = 0
        self._lock = threading.Lock()

    @property
    def lent_bytes(self) -> int:
        return self._lent_bytes

    def borrow(self, wanted_bytes: int) -> int:
        """Bytes lent: as many as wanted, fewer when the pool is nearly dry, 0 when it is."""
        with self._lock:
            lent = min(wanted_bytes, self.total_bytes - self._lent_bytes)
            self._lent_bytes += lent
            return lent

    def give_back(self, size: int) -> None:
        with self._lock:
            if size > self._lent_bytes:
                raise AssertionError(f"{size} bytes come back but {self._lent_bytes} were lent")
            self._lent_bytes -= size
