"""The sockets that a server listens on."""

from __future__ import annotations

import socket

from client.server.listeners import listen
from client.server.server_config import Endpoint


def test_an_accepted_connection_sends_small_answers_at_once() -> None:
    """asyncio turns Nagle's algorithm off only for sockets that name their protocol."""
    with listen(Endpoint("localhost", "127.0.0.1", (0,))) as listener:
        assert listener.proto == socket.IPPROTO_TCP
