"""Control messages within one process: the receiver's entry point is called."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream.messages.rpc import ControlMessage

Receive = Callable[[ControlMessage], None]


class LocalTransport:
    """Addresses are names within this process. Receivers only queue a message, so a send never waits.

    Implements `Transport`. State: the receivers by address; a message to an address without one is dropped.
    """

    def __init__(self) -> None:
        self._receivers: dict[str, Receive] = {}

    def listen(self, address: str, receive: Receive) -> None:
        self._receivers[address] = receive

    def send(self, address: str, message: ControlMessage) -> None:
        receive = self._receivers.get(address)
        if receive is not None:
            receive(message)
