"""An in-memory network for simulations: a seed decides which messages are lost, doubled, delayed or
reordered."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from sqlstream.messages.rpc import ControlMessage, decode_control_message, encode_message


@dataclass(frozen=True)
class NetworkFaults:
    """Chances per message; most delays are up to `delay_ms_max`, a few up to `delay_ms_worst`."""

    drop: float = 0.0
    duplicate: float = 0.0
    slow: float = 0.0
    delay_ms_max: int = 5
    delay_ms_worst: int = 3000


class SimulatedNetwork:
    """Carries encoded messages between addresses under a virtual clock. Implements `Transport` for one sender
    at a time.

    State: messages under way, and the addresses that are cut off. `deliver` returns a message once its time has
    come; two messages between the same two peers may arrive in either order."""

    def __init__(self, random: random.Random, faults: NetworkFaults) -> None:
        self.faults = faults
        self.now_ms = 0
        self._random = random
        self._under_way: list[tuple[int, int, str, bytes]] = []
        self._sent = 0
        self._cut_off: set[str] = set()

    def cut_off(self, address: str) -> None:
        """Drop every further message to this address."""
        self._cut_off.add(address)

    def reconnect(self, address: str) -> None:
        self._cut_off.discard(address)

    def send(self, address: str, message: ControlMessage) -> None:
        if self._random.random() < self.faults.drop:
            return
        data = encode_message(message)
        copies = 2 if self._random.random() < self.faults.duplicate else 1
        for _ in range(copies):
            self._sent += 1
            heapq.heappush(self._under_way, (self.now_ms + self._delay_ms(), self._sent, address, data))

    def next_ms(self) -> int | None:
        """When the next message arrives."""
        return self._under_way[0][0] if self._under_way else None

    def deliver(self) -> tuple[str, ControlMessage] | None:
        """The next message whose time has come; None when there is none, or its address is cut off."""
        if not self._under_way or self._under_way[0][0] > self.now_ms:
            return None
        _, _, address, data = heapq.heappop(self._under_way)
        return None if address in self._cut_off else (address, decode_control_message(data))

    def _delay_ms(self) -> int:
        is_slow = self._random.random() < self.faults.slow
        return self._random.randint(0, self.faults.delay_ms_worst if is_slow else self.faults.delay_ms_max)
