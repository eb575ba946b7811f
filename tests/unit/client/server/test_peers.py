"""What servers know of each other, and what one answers that waits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from sqlstream import __version__
from sqlstream.client.connection.address import Address
from sqlstream.client.connection.http import HttpClient
from sqlstream.client.connection.wire import LEADER_HEADER
from sqlstream.client.rest.cluster_view import ServerInfo
from sqlstream.client.server.app import version_body
from sqlstream.client.server.http_listener import HttpListener
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.peers import PEERS_MAX, Peer, Peers, WaitingApp, leader_of
from sqlstream.errors import ExternalError

LEADER = Peer("http://head1:8083", "http://head1:8081", 4)
OTHER = Peer("http://head2:8083", "http://head2:8081")


def answer(peers: list[Peer], method: str, path: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(WaitingApp(lambda: peers))
        async with httpx.AsyncClient(transport=transport, base_url="http://head2") as client:
            return await client.request(method, path)

    return asyncio.run(ask())


def looked(peers: Peers) -> list[Peer]:
    peers.look()
    return peers.all()


def test_the_one_that_leads_or_was_the_last_to_is_first_and_one_that_ends_in_order_is_gone(
    tmp_path: Path,
) -> None:
    store = FolderStore(str(tmp_path / "records"))
    first, second = (Peers(store, f"/data/{n}") for n in (1, 2))
    assert leader_of(looked(first)) is None
    first.announce(LEADER)
    second.announce(OTHER)
    assert looked(second) == [LEADER, OTHER]
    later = Peer(OTHER.gateway, OTHER.rest, 5)
    second.announce(later)
    assert leader_of(looked(first)) == later
    assert looked(second) == [later, LEADER]
    second.leave()
    second.leave()
    assert looked(first) == [LEADER]


def test_the_leader_removes_records_of_servers_that_are_gone_and_those_that_live_come_back(
    tmp_path: Path,
) -> None:
    store = FolderStore(str(tmp_path / "records"))
    leader, waiting = Peers(store, "/data/1"), Peers(store, "/data/2")

    def killed() -> None:
        for number in range(PEERS_MAX):
            store.write(f"server-{number:03}", b'{"gateway": "a", "rest": "b", "epoch": 1}', None)

    waiting.announce(OTHER)
    killed()
    leader.announce(LEADER)
    assert looked(leader) == [LEADER]
    assert looked(waiting) == [LEADER]
    assert looked(waiting) == [LEADER, OTHER]
    killed()
    # Before the leader has looked: more than the bound, the leader among them.
    assert leader_of(looked(waiting)) == LEADER
    assert looked(leader) == [LEADER]
    assert len(store.keys()) == 1


def test_damaged_records_name_nobody_and_there_are_no_more_than_a_bound(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path / "records"))
    for number in range(PEERS_MAX + 5):
        store.write(
            f"server-{number:03}", b'{"gateway": "a", "rest": "b", "epoch": 1}' if number else b"{", None
        )
    store.write("leader", b'{"gateway": "a", "rest": "b", "epoch": 1}', None)
    assert len(looked(Peers(store, "/data"))) == PEERS_MAX - 1


class HangingStore(FolderStore):
    """Does not answer who is there while `answers` is not set."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory))
        self.answers, self.is_asked = threading.Event(), threading.Event()
        self.answers.set()

    def keys(self) -> list[str]:
        self.is_asked.set()
        self.answers.wait()
        return super().keys()


def test_no_request_waits_for_a_store_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.client.server.peers.LOOK_S", 0.01)
    store = HangingStore(tmp_path / "records")
    peers = Peers(store, "/data/1")
    peers.announce(OTHER)
    peers.start()
    store.answers.clear()
    Peers(FolderStore(str(tmp_path / "records")), "/data/2").announce(LEADER)
    store.is_asked.clear()
    assert peers.all() == [OTHER]
    assert store.is_asked.wait(60)
    assert peers.all() == [OTHER]
    store.answers.set()
    deadline_s = time.monotonic() + 60
    while leader_of(peers.all()) != LEADER:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    # What it has named it names again when the store fails.
    (tmp_path / "records").rename(tmp_path / "away")
    store.is_asked.clear()
    assert leader_of(peers.all()) == LEADER
    assert store.is_asked.wait(60)
    assert leader_of(peers.all()) == LEADER
    peers.leave()


def test_one_that_waits_is_alive_not_ready_and_names_the_leader() -> None:
    assert answer([LEADER], "GET", "/health").status_code == 200
    ready = answer([LEADER], "GET", "/ready")
    assert (ready.status_code, ready.json()["status"]) == (503, "WAITING")
    assert ready.json()["reason"].endswith(": http://head1:8083 leads, or was the last to")
    # Its release is that of a server that leads, word for word.
    version = answer([LEADER], "GET", "/version")
    assert (version.status_code, version.json()) == (200, version_body(ServerInfo(__version__)))
    found = answer([LEADER, OTHER], "POST", "/v4/sessions")
    assert found.status_code == 503
    assert found.headers[LEADER_HEADER] == LEADER.gateway
    assert found.json()["error"] == {
        "code": "SS6090",
        "message": "this server waits to take the place of the one that leads: http://head1:8083 leads, or was the last to",
        "hint": "give clients the addresses of all servers: http://HOST1:PORT,HOST2:PORT",
        "detail": "",
        "family": "EXTERNAL",
        "retry": "BACKOFF",
    }
    assert answer([OTHER], "GET", "/v4/info").headers[LEADER_HEADER] == ""


@pytest.mark.parametrize("path", ["/", "/console/", "/console/app.js"])
def test_a_page_of_the_console_is_that_of_the_leader(path: str) -> None:
    found = answer([LEADER], "GET", path)
    assert (found.status_code, found.headers["location"]) == (307, f"http://head1:8081{path}")
    assert answer([], "GET", path).status_code == 503


class Leader:
    """Answers with the path of each request, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(f"{scope['method']} {scope['path']}")
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"answered": true}'})


def served(app: Any) -> tuple[HttpListener, str]:
    found = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{found.getsockname()[1]}"
    listener = HttpListener(app, [found], None, lambda: None)
    listener.start()
    return listener, url


def test_a_client_goes_to_the_leader_that_a_waiting_server_names_and_past_servers_that_are_not_there() -> (
    None
):
    leader = Leader()
    listener, url = served(leader)
    waiting, waiting_url = served(WaitingApp(lambda: [Peer(url, url, 1)]))
    try:
        client = HttpClient(Address("http://127.0.0.1:1", others=(waiting_url,)))
        assert client.call("POST", "/v4/sessions", {}) == {"answered": True}
        assert client.call("GET", "/jobs") == {"answered": True}
        with client.stream("/stream") as response:
            assert response.read() == b'{"answered": true}'
        # Once it is known, nobody else is asked.
        assert client.url == url
        assert leader.asked == ["POST /v4/sessions", "GET /jobs", "GET /stream"]
        client.close()
    finally:
        listener.stop()
        waiting.stop()


class Silent:
    """Breaks off each connection once a request has come; `count` tells how many."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.count = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    self.count += bool(connection.recv(65536))

    def stop(self) -> None:
        self._listener.close()


def test_what_was_sent_and_not_answered_is_repeated_only_where_that_is_safe() -> None:
    silent, leader = Silent(), Leader()
    second, second_url = served(leader)
    try:
        client = HttpClient(Address(silent.url, others=(second_url,)))
        with pytest.raises(ExternalError) as caught:
            client.call("POST", "/jobs/1/stop", {})
        assert caught.value.code == "SS6091"
        assert (silent.count, leader.asked) == (1, [])
        assert client.call("POST", "/v4/sessions", {}, True) == {"answered": True}
        assert silent.count == 2
        client.close()
    finally:
        silent.stop()
        second.stop()


def test_what_may_have_been_executed_is_not_taken_for_unsent_when_nobody_else_answers() -> None:
    silent = Silent()
    try:
        client = HttpClient(Address(silent.url, others=("http://127.0.0.1:1",)))
        for method, code in {
            "POST": "SS6091",
            "PATCH": "SS6091",
            "GET": "SS5040",
            "DELETE": "SS5040",
        }.items():
            with pytest.raises(ExternalError) as caught:
                client.call(method, "/statements", {}, True)
            assert caught.value.code == code
        client.close()
    finally:
        silent.stop()
