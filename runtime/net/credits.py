"""Credit-based flow control, as arithmetic: how much a sender may send and what a receiver grants (Flink:
credit-based flow control).

The receiver grants bytes; the sender spends them and sends with each batch how much more it has (its backlog).
A sender with any credit left may send one batch, whatever its size, so that a batch larger than the window
cannot block a channel for ever: a receiver holds at most its window and one batch."""

from __future__ import annotations

import threading


class CreditBalance:
    """The sender's side: the bytes granted and not spent, below zero after a batch larger than the rest. One
    thread."""

    def __init__(self) -> None:
        self._balance_bytes = 0

    @property
    def can_send(self) -> bool:
        return self._balance_bytes > 0

    def grant(self, size: int) -> None:
        self._balance_bytes += size

    def spend(self, size: int) -> None:
        self._balance_bytes -= size


class CreditWindow:
    """The receiver's side: a window of `exclusive_bytes` of its own, widened while the sender has a backlog
    by floating memory up to `maximum_bytes`, and narrowed again when the backlog is gone.

    What is read is granted again once it is worth a message. State: bytes read and not granted again, bytes
    borrowed. The thread that receives and the thread that reads both call; one lock."""

    def __init__(self, exclusive_bytes: int, maximum_bytes: int, memory: NetworkMemory) -> None:
        self._exclusive_bytes = exclusive_bytes
        self._maximum_bytes = maximum_bytes
        self._memory = memory
        self._borrowed_bytes = 0
        self._ungranted_bytes = 0
        self._has_backlog = False
        self._lock = threading.Lock()

    @property
    def window_bytes(self) -> int:
        return self._exclusive_bytes + self._borrowed_bytes

    def initial_grant(self) -> int:
        return self._exclusive_bytes

    def on_received(self, backlog_bytes: int) -> int:
        """A batch came; returns the bytes to grant because of the sender's backlog, mostly 0."""
        with self._lock:
            self._has_backlog = backlog_bytes > 0
            room = self._maximum_bytes - self.window_bytes
            if not self._has_backlog or room <= 0:
                return 0
            # Not less than a quarter of the window: small loans would be as many messages as batches.
            lent = self._memory.borrow(min(room, max(backlog_bytes, self._exclusive_bytes // 4)))
            self._borrowed_bytes += lent
            return lent

    def on_read(self, size: int) -> int:
        """The task read `size` bytes; returns the bytes to grant, 0 while they are not worth a message."""
        with self._lock:
            self._ungranted_bytes += size
            if self._ungranted_bytes < self._exclusive_bytes // 4:
                return 0
            granted, self._ungranted_bytes = self._ungranted_bytes, 0
            if not self._has_backlog and self._borrowed_bytes:
                returned = min(granted, self._borrowed_bytes)
                self._borrowed_bytes -= returned
                self._memory.give_back(returned)
                granted -= returned
            return granted

    def release(self) -> None:
        """The channel has ended: return its floating memory. Harmless when repeated."""
        with self._lock:
            borrowed, self._borrowed_bytes = self._borrowed_bytes, 0
            self._maximum_bytes = 0
        if borrowed:
            self._memory.give_back(borrowed)


# The network memory of one TaskManager: floating bytes that channels with a backlog borrow on top of their own.


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
