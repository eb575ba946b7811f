"""The servers that share a place: where each is reached, and what one answers that waits for another's end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

import msgspec

from sqlstream import __version__
from sqlstream.bounds import Int64
from sqlstream.client.connection.wire import LEADER_HEADER
from sqlstream.client.http_api.errors import error_detail
from sqlstream.client.rest.cluster_view import ServerInfo
from sqlstream.client.server.app import HEALTH_PATHS, version_body
from sqlstream.client.server.leaders.record_store import Conflict, RecordStore
from sqlstream.errors import ExternalError

NOT_LEADING = "SS6090"
"""Clients send what is refused with it to the leader."""

PEERS_MAX = 64
PEER_BYTES_MAX = 4096

LOOK_S, IDLE_S = 1.0, 10.0

_PREFIX = "server-"
_PAGES = re.compile(r"/|/console(?:/.*)?")

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Peer(msgspec.Struct, frozen=True, rename="kebab"):
    """A server by the addresses that clients write. `epoch` is that in which it leads or has led, -1 while it never has."""

    gateway: str
    rest: str
    epoch: Int64 = -1


class Peers:
    """The servers of a store, each with one record, which stays when a server is killed: it may come back. The one that leads
    removes those of all others when it begins to lead, and when there are more than a bound: who lives writes its own again.

    A thread asks the store, so that no request waits for it: once a second at most when somebody wants to know, else now and
    then. Thread-safe. State: who was there at the last look, and what this server says of itself."""

    def __init__(self, store: RecordStore, data_directory: str) -> None:
        self._store = store
        own = f"{socket.gethostname()} {os.path.realpath(data_directory)}"
        self._key = _PREFIX + hashlib.sha256(own.encode()).hexdigest()[:16]
        self._own: Peer | None = None
        self._seen: dict[str, Peer] = {}
        self._asked, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="peers", daemon=True)

    def start(self) -> None:
        """Keep what `all` returns up to date. ExternalError SS6080."""
        self.look()
        self._thread.start()

    def announce(self, peer: Peer) -> None:
        """Say where this server is reached. ExternalError SS6080."""
        self._own = peer
        self._write()
        if peer.epoch > 0:
            self._remove_others(self._keys())

    def leave(self) -> None:
        """This server ends in order."""
        self._own = None
        self._ended.set()
        self._asked.set()
        if self._thread.is_alive():
            # A store that hangs is not waited for.
            self._thread.join(LOOK_S)
        with contextlib.suppress(ExternalError):
            self._store.remove(self._key)

    def all(self) -> list[Peer]:
        """Those that were known at the last look, the one that leads or was the last to do so first."""
        self._asked.set()
        return sorted(self._seen.values(), key=lambda peer: -peer.epoch)

    def look(self) -> None:
        """Ask the store who is there. ExternalError SS6080."""
        keys, own = self._keys(), self._own
        if own is not None and self._key not in keys:
            self._write()
        if own is not None and own.epoch > 0 and len(keys) > PEERS_MAX:
            self._remove_others(keys)
            keys = [self._key]
        seen = {}
        for key in sorted(keys, key=self._rank)[:PEERS_MAX]:
            record = self._store.read(key)
            # One that is damaged names nobody.
            with contextlib.suppress(msgspec.MsgspecError):
                if record is not None and len(record.data) <= PEER_BYTES_MAX:
                    seen[key] = msgspec.json.decode(record.data, type=Peer)
        self._seen = seen

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._asked.wait(IDLE_S)
            self._asked.clear()
            # A store that does not answer names those that it has named.
            with contextlib.suppress(ExternalError):
                self.look()

    def _rank(self, key: str) -> tuple[int, str]:
        """The last leader that is known is not lost among many others."""
        return (-self._seen[key].epoch if key in self._seen else 1, key)

    def _keys(self) -> list[str]:
        found = self._store.keys()
        return [key for key in found if key.startswith(_PREFIX)]

    def _write(self) -> None:
        while (own := self._own) is not None:
            found = self._store.read(self._key)
            with contextlib.suppress(Conflict):
                self._store.write(self._key, msgspec.json.encode(own), found.version if found else None)
                return

    def _remove_others(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key != self._key:
                with contextlib.suppress(ExternalError):
                    self._store.remove(key)


def leader_of(peers: Sequence[Peer]) -> Peer | None:
    """The one that leads, or was the last to."""
    return peers[0] if peers and peers[0].epoch >= 0 else None


class WaitingApp:
    """The ASGI application of a server that waits: alive, not ready, of which release, and where the leader is to be asked. A
    page of the console is redirected there. It needs no token, as it says nothing else. State: none."""

    def __init__(
        self,
        peers: Callable[[], Sequence[Peer]],
        refusal: Callable[[Peer | None], ExternalError] | None = None,
    ) -> None:
        """`refusal` says why a request is not answered, by default `not_leading`."""
        self._peers = peers
        self._refusal = refusal or not_leading

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, is_reading = scope["path"], scope["method"] in ("GET", "HEAD")
        leader = leader_of(self._peers())
        error = self._refusal(leader)
        if is_reading and path in HEALTH_PATHS:
            status, said = _health(path, error.message)
            # The console of a server that is lost asks whether this one leads.
            await _answer(send, status, said, [(b"access-control-allow-origin", b"*")])
            return
        headers = []
        if error.code == NOT_LEADING:
            headers = [(LEADER_HEADER.encode(), leader.gateway.encode() if leader is not None else b"")]
        if leader is not None and is_reading and _PAGES.fullmatch(path):
            headers.append((b"location", (leader.rest + path).encode()))
            await _answer(send, 307, {}, headers)
            return
        body = {
            "errors": [f"error[{error.code}]: {error.message}\nhint: {error.hint}"],
            "error": error_detail(error, ""),
        }
        await _answer(send, 503, body, [*headers, (b"retry-after", b"1")])


def _health(path: str, reason: str) -> tuple[int, dict[str, str]]:
    health, ready, _ = HEALTH_PATHS
    if path == health:
        return 200, {"status": "OK"}
    if path == ready:
        return 503, {"status": "WAITING", "reason": reason}
    return 200, version_body(ServerInfo(__version__))


def not_leading(leader: Peer | None) -> ExternalError:
    """What a server says to whoever asks while it waits."""
    where = f": {leader.gateway} leads, or was the last to" if leader is not None else ""
    return ExternalError(
        NOT_LEADING,
        f"this server waits to take the place of the one that leads{where}",
        hint="give clients the addresses of all servers: http://HOST1:PORT,HOST2:PORT",
    )


async def _answer(
    send: Send, status: int, body: Mapping[str, Any], headers: Sequence[tuple[bytes, bytes]] = ()
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
