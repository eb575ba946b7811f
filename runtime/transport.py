"""The interface by which a shell sends messages to its peers; a message may be lost without an error."""

from __future__ import annotations

from typing import Protocol

from sqlstream.messages.rpc import ControlMessage


class Transport(Protocol):
    def send(self, address: str, message: ControlMessage) -> None:
        """Try to deliver; never blocks for long, never raises for an unreachable peer. Senders repeat messages that need an
        answer."""
