"""The connections of the HTTP ports: how many there may be, and of whom.

A connection is *served* while a request on it is under way that has passed the server's checks. Any other has a few seconds to
send one: whoever sends its head byte by byte, or nothing, or never ends its TLS handshake, loses it. Some places are for served
ones alone: a new connection that finds the others taken gets the place of the one that has waited longest.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlstream.runtime.host.clock import steady_s

logger = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0
"""How often the log tells of connections that are refused."""

_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC")


def _plain_answer(status: str, message: str) -> bytes:
    body = f'{{"errors": ["{message}"]}}'.encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


_FULL = _plain_answer("503 Service Unavailable", "The server has too many connections.")
_MISTAKEN = _plain_answer("400 Bad Request", "This port speaks HTTPS: write https:// instead of http://.")

Peer = tuple[str, int]


@dataclass(frozen=True)
class PlaceLimits:
    """`waiting_max` of all connections may wait for a request; the places beyond are for served ones."""

    connections_max: int = 1000
    per_address_max: int = 100
    reserved: int = 200
    request_timeout_s: float = 10.0

    @property
    def waiting_max(self) -> int:
        return max(self.connections_max - self.reserved, 1)


class Places:
    """Keeps the account of one server's connections. Used by the thread of its event loop alone.

    State: the connections by their peers, and since when each waits for a request."""

    def __init__(self, limits: PlaceLimits, now_s: Callable[[], float] = steady_s) -> None:
        self._limits = limits
        self._now_s = now_s
        self._all: dict[Peer, Connection] = {}
        # The longest first.
        self._waiting: dict[Peer, float] = {}
        self._by_address: Counter[str] = Counter()
        self._refused = 0
        self._told_s = -LOG_INTERVAL_S

    def take(self, connection: Connection) -> bool:
        """False when there is no place for it."""
        limits = self._limits
        if self._by_address[connection.peer[0]] >= limits.per_address_max:
            return self._refuse(connection.peer[0])
        if len(self._waiting) >= limits.waiting_max or len(self._all) >= limits.connections_max:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return self._refuse(connection.peer[0])
            self._all[longest].break_off()
        self._all[connection.peer] = connection
        self._by_address[connection.peer[0]] += 1
        self._waiting[connection.peer] = self._now_s()
        return True

    def leave(self, connection: Connection) -> None:
        """Harmless when repeated."""
        if self._all.get(connection.peer) is connection:
            del self._all[connection.peer]
            self._waiting.pop(connection.peer, None)
            self._by_address[connection.peer[0]] -= 1
            if not self._by_address[connection.peer[0]]:
                del self._by_address[connection.peer[0]]

    def serve(self, peer: Peer) -> None:
        """A request of this peer has passed the checks."""
        self._waiting.pop(peer, None)

    def await_request(self, peer: Peer) -> None:
        """The request is answered, and the connection may have another."""
        if peer in self._all:
            self._waiting.pop(peer, None)
            self._waiting[peer] = self._now_s()

    def break_off_late(self) -> None:
        """Close the connections that have waited for too long."""
        due_s = self._now_s() - self._limits.request_timeout_s
        late = [peer for peer, since_s in self._waiting.items() if since_s < due_s]
        for peer in late:
            self._all[peer].break_off()

    def _refuse(self, address: str) -> bool:
        self._refused += 1
        if self._now_s() - self._told_s >= LOG_INTERVAL_S:
            logger.warning("%d connections were refused, the last one of %s", self._refused, address)
            self._refused, self._told_s = 0, self._now_s()
        return False


class Connection(socket.socket):
    """An accepted connection, which leaves its place when it is closed."""

    def __init__(self, listener: socket.socket, descriptor: int, places: Places, peer: Peer) -> None:
        super().__init__(listener.family, listener.type, listener.proto, fileno=descriptor)
        self.peer = peer
        self._places = places
        self._is_tls_expected = False

    def close(self) -> None:
        self._places.leave(self)
        super().close()

    def break_off(self) -> None:
        """End it from this side, whatever the peer does; its owner reads the end and closes it."""
        self._places.leave(self)
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def expect_tls(self) -> None:
        self._is_tls_expected = True

    def recv_into(self, buffer: Any, *arguments: Any) -> int:
        """Of a peer that speaks HTTP where TLS is expected nothing is read: it is told so."""
        size = super().recv_into(buffer, *arguments)
        if self._is_tls_expected and size:
            self._is_tls_expected = False
            if bytes(memoryview(buffer)[:4]) in _METHODS:
                logger.warning("a client at %s speaks HTTP to a port that speaks HTTPS", self.peer[0])
                self.say(_MISTAKEN)
                return 0
        return size

    def say(self, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            self.setblocking(False)
            self.send(answer)


class ListeningSocket(socket.socket):
    """Takes over a listening socket, and accepts a connection when there is a place for it."""

    def __init__(self, listener: socket.socket, places: Places, *, is_secure: bool) -> None:
        """OSError for a socket that is closed."""
        super().__init__(listener.family, listener.type, listener.proto, fileno=listener.detach())
        self.setblocking(False)
        self._places = places
        self._is_secure = is_secure

    def accept(self) -> tuple[socket.socket, Any]:
        """ConnectionAbortedError, after which the caller goes on, for one that is refused."""
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        connection = Connection(self, descriptor, self._places, (str(address[0]), int(address[1])))
        if not self._places.take(connection):
            if not self._is_secure:
                connection.say(_FULL)
            connection.close()
            raise ConnectionAbortedError
        if self._is_secure:
            connection.expect_tls()
        return connection, address
