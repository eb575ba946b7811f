"""Credit-based flow control, as arithmetic: how much a sender may send and what a receiver grants (Flink:
credit-based flow control).

The receiver grants bytes; the sender spends them and sends with each batch how much more it has (its backlog).
A sender with any credit left may send one batch, whatever its size, so that a batch larger than the window
cannot block a channel for ever: a receiver holds at most its window and one batch."""

from __future__ import annotations

import threading

IN_FLIGHT_BYTES_MIN = 1 << 15
"""A channel holds a batch at least, however slow its reader: less than this saves nothing."""


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
        self._own_bytes = exclusive_bytes
        self._exclusive_bytes = exclusive_bytes
        self._maximum_bytes = maximum_bytes
        self._memory = memory
        self._borrowed_bytes = 0
        self._ungranted_bytes = 0
        self._has_backlog = False
        self._is_released = False
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
            if self._ungranted_bytes < min(self._exclusive_bytes, self._maximum_bytes) // 4:
                return 0
            granted, self._ungranted_bytes = self._ungranted_bytes, 0
            excess = max(0, self.window_bytes - self._maximum_bytes)
            wanted_back = excess if self._has_backlog else max(excess, self._borrowed_bytes)
            if self._borrowed_bytes and wanted_back:
                returned = min(granted, self._borrowed_bytes, wanted_back)
                self._borrowed_bytes -= returned
                self._memory.give_back(returned)
                granted -= returned
            withheld = min(granted, max(0, self.window_bytes - self._maximum_bytes))
            self._exclusive_bytes -= withheld
            return granted - withheld

    def limit(self, maximum_bytes: int) -> int:
        """Set the window's bound; returns the bytes to grant when that widens it. A narrower one is reached as what is in flight
        is read."""
        with self._lock:
            if self._is_released:
                return 0
            self._maximum_bytes = maximum_bytes
            wider = max(0, min(self._own_bytes, maximum_bytes) - self._exclusive_bytes)
            self._exclusive_bytes += wider
            return wider

    def release(self) -> None:
        """The channel has ended: return its floating memory. Harmless when repeated."""
        with self._lock:
            borrowed, self._borrowed_bytes = self._borrowed_bytes, 0
            self._maximum_bytes = 0
            self._is_released = True
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


class InFlightTarget:
    """How many bytes may be under way to a task, so that it takes `target_s` to read them (Flink: buffer debloating).

    State: the task's throughput, averaged over about `samples` observations, and the bound that was last announced."""

    def __init__(self, target_s: float, samples: int, threshold_percent: int, maximum_bytes: int) -> None:
        """Nothing is announced that differs by less than `threshold_percent` from the last."""
        self._target_s = target_s
        self._weight = 2 / (samples + 1)
        self._threshold = threshold_percent / 100
        self._maximum_bytes = maximum_bytes
        self.bytes_per_s: float | None = None
        self.bound_bytes = maximum_bytes

    def forget_bound(self) -> None:
        """The last bound holds no longer: the next observation announces one."""
        self.bound_bytes = self._maximum_bytes

    def observe(self, taken_bytes: int, active_s: float) -> int | None:
        """The task has taken so many bytes in the seconds in which there was something to take; returns the new bound where that
        has to change."""
        if active_s <= 0:
            return None
        rate = taken_bytes / active_s
        before = self.bytes_per_s
        self.bytes_per_s = rate if before is None else before + self._weight * (rate - before)
        bound = max(IN_FLIGHT_BYTES_MIN, min(self._maximum_bytes, round(self.bytes_per_s * self._target_s)))
        if bound == self.bound_bytes:
            return None
        is_end = bound in (IN_FLIGHT_BYTES_MIN, self._maximum_bytes)
        if not is_end and abs(bound - self.bound_bytes) < self._threshold * self.bound_bytes:
            return None
        self.bound_bytes = bound
        return bound
