"""The servers that share a place: where each is reached, and what one answers that waits for another's end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import msgspec

from sqlstream.bounds import Int64
from sqlstream.client.connection.wire import LEADER_HEADER
from sqlstream.client.http_api.errors import error_detail
from sqlstream.client.server.app import HEALTH_PATHS
from sqlstream.client.server.leaders.record_store import Conflict, RecordStore
from sqlstream.errors import ExternalError
from sqlstream.runtime.host.clock import steady_s

PEERS_MAX = 64
PEER_BYTES_MAX = 4096

LOOK_S = 1.0

_PREFIX = "server-"
_PAGES = re.compile(r"/|/console(?:/.*)?")

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Peer(msgspec.Struct, frozen=True, rename="kebab"):
    """A server by the addresses that clients write. `epoch` is that in which it leads or has led, -1 while it never has."""

    gateway: str
    rest: str
    epoch: Int64 = -1


class Peers:
    """The servers of a store, each with one record, which stays when a server is killed: it may come back. Thread-safe. State:
    who was there at the last look."""

    def __init__(
        self, store: RecordStore, data_directory: str, now_s: Callable[[], float] = steady_s
    ) -> None:
        self._store, self._now_s = store, now_s
        own = f"{socket.gethostname()} {os.path.realpath(data_directory)}"
        self._key = _PREFIX + hashlib.sha256(own.encode()).hexdigest()[:16]
        self._seen: tuple[float, list[Peer]] | None = None

    def announce(self, peer: Peer) -> None:
        """Say where this server is reached. ExternalError SS6080."""
        while True:
            found = self._store.read(self._key)
            with contextlib.suppress(Conflict):
                self._store.write(self._key, msgspec.json.encode(peer), found.version if found else None)
                return

    def leave(self) -> None:
        """This server ends in order."""
        with contextlib.suppress(ExternalError):
            self._store.remove(self._key)

    def all(self) -> list[Peer]:
        """Those that are known, the one that leads or was the last to do so first. The store is asked once a second at most,
        however many requests there are."""
        seen = self._seen
        if seen is None or self._now_s() - seen[0] >= LOOK_S:
            # A store that does not answer names those that it has named.
            seen = (self._now_s(), seen[1] if seen is not None else [])
            with contextlib.suppress(ExternalError):
                seen = (seen[0], self._look())
            self._seen = seen
        return seen[1]

    def _look(self) -> list[Peer]:
        found = []
        for key in [key for key in sorted(self._store.keys()) if key.startswith(_PREFIX)][:PEERS_MAX]:
            record = self._store.read(key)
            # One that is damaged names nobody.
            with contextlib.suppress(msgspec.MsgspecError):
                if record is not None and len(record.data) <= PEER_BYTES_MAX:
                    found.append(msgspec.json.decode(record.data, type=Peer))
        return sorted(found, key=lambda peer: -peer.epoch)


def leader_of(peers: Sequence[Peer]) -> Peer | None:
    """The one that leads, or was the last to."""
    return peers[0] if peers and peers[0].epoch >= 0 else None


class WaitingApp:
    """The ASGI application of a server that waits: alive, not ready, and where the leader is to be asked. A page of the console
    is redirected there. It needs no token, as it says nothing else. State: none."""

    def __init__(self, peers: Callable[[], Sequence[Peer]]) -> None:
        self._peers = peers

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, is_reading = scope["path"], scope["method"] in ("GET", "HEAD")
        if is_reading and path in HEALTH_PATHS:
            is_health = path == HEALTH_PATHS[0]
            await _answer(send, 200 if is_health else 503, {"status": "OK" if is_health else "WAITING"})
            return
        leader = leader_of(self._peers())
        headers = [(LEADER_HEADER.encode(), leader.gateway.encode() if leader is not None else b"")]
        if leader is not None and is_reading and _PAGES.fullmatch(path):
            headers.append((b"location", (leader.rest + path).encode()))
            await _answer(send, 307, {}, headers)
            return
        error = not_leading(leader)
        body = {
            "errors": [f"error[{error.code}]: {error.message}\nhint: {error.hint}"],
            "error": error_detail(error, ""),
        }
        await _answer(send, 503, body, [*headers, (b"retry-after", b"1")])


def not_leading(leader: Peer | None) -> ExternalError:
    """What a server says to whoever asks while it waits."""
    where = f": {leader.gateway} leads, or was the last to" if leader is not None else ""
    return ExternalError(
        "SS6090",
        f"this server waits to take the place of the one that leads{where}",
        hint="give clients the addresses of all servers: http://HOST1:PORT,HOST2:PORT",
    )


async def _answer(
    send: Send, status: int, body: dict[str, Any], headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    content = msgspec.json.encode(body)
    known = [
        (b"content-type", b"application/json; charset=UTF-8"),
        (b"content-length", str(len(content)).encode()),
    ]
    # The connection is closed: it is to lead to the server that leads next, which may be this one.
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [*known, (b"connection", b"close"), *headers],
    }
    await send(start)
    await send({"type": "http.response.body", "body": content})
