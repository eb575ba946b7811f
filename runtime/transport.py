"""What a shell needs to reach its peers: a way to send, which may fail in silence."""

from __future__ import annotations

from typing import Protocol

from sqlstream.messages.rpc import ControlMessage


class Transport(Protocol):
    def send(self, address: str, message: ControlMessage) -> None:
        """Try to deliver; never blocks for long, never raises for an unreachable peer. Senders repeat what
        matters."""
