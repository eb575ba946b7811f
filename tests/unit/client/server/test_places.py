"""Nobody fills the house: connections have places, a few of an address, and some for those alone that are let in."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from sqlstream.client.server.places import ListeningSocket, PlaceLimits, Places


class House:
    """A listening socket with its places. State: the clients' ends, and the accepted ones."""

    def __init__(self, limits: PlaceLimits, *, is_secure: bool = False) -> None:
        self.now_s = 0.0
        self.places = Places(limits, lambda: self.now_s)
        self._listener = ListeningSocket(
            socket.create_server(("127.0.0.1", 0)), self.places, is_secure=is_secure
        )
        self._ends = contextlib.ExitStack()
        self._ends.callback(self._listener.close)

    def connect(self, host: str = "127.0.0.1") -> tuple[socket.socket, socket.socket | None]:
        """Both ends; no accepted one when it is refused."""
        client = socket.create_connection(self._listener.getsockname(), 30, source_address=(host, 0))
        self._ends.callback(client.close)
        self._listener.setblocking(True)
        try:
            accepted, _ = self._listener.accept()
        except ConnectionAbortedError:
            return client, None
        self._ends.callback(accepted.close)
        return client, accepted

    def close(self) -> None:
        self._ends.close()


@pytest.fixture
def house() -> Iterator[House]:
    made = House(PlaceLimits(connections_max=6, per_address_max=3, reserved=2))
    yield made
    made.close()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def peer_of(client: socket.socket) -> tuple[str, int]:
    host, port = client.getsockname()[:2]
    return host, port


def test_an_address_has_so_many_connections(house: House) -> None:
    held = [house.connect() for _ in range(3)]
    client, accepted = house.connect()
    assert accepted is None
    assert client.recv(1000).startswith(b"HTTP/1.1 503 ")
    assert house.connect("127.0.0.2")[1] is not None
    assert held[0][1] is not None
    held[0][1].close()
    assert house.connect()[1] is not None


def test_a_new_connection_takes_the_place_of_the_one_that_waited_longest(house: House) -> None:
    """Some addresses of an attacker hold all places that are not reserved, and say nothing."""
    silent = [house.connect(f"127.0.0.{2 + n // 2}")[0] for n in range(4)]
    client, accepted = house.connect("127.0.0.9")
    assert accepted is not None
    assert [is_open(each) for each in silent] == [False, True, True, True]
    # One whose request was let in keeps its place, however many come.
    house.places.serve(peer_of(client))
    later = [house.connect(f"127.0.0.{20 + n}")[0] for n in range(8)]
    assert is_open(client)
    assert [is_open(each) for each in later] == [False] * 4 + [True] * 4


def test_connections_that_are_served_leave_no_more_places_than_there_are(house: House) -> None:
    for n in range(6):
        house.places.serve(peer_of(house.connect(f"127.0.0.{2 + n}")[0]))
    assert house.connect("127.0.0.9")[1] is None


def test_who_sends_no_request_in_time_is_sent_away(house: House) -> None:
    silent, served = house.connect()[0], house.connect()[0]
    house.places.serve(peer_of(served))
    house.now_s = 10.5
    house.places.break_off_late()
    assert (is_open(silent), is_open(served)) == (False, True)
    # Its next request has as long as the first.
    house.places.await_request(peer_of(served))
    house.now_s = 20
    house.places.break_off_late()
    assert is_open(served)
    house.now_s = 21
    house.places.break_off_late()
    assert not is_open(served)


def test_http_to_a_port_of_https_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    house = House(PlaceLimits(), is_secure=True)
    try:
        client, accepted = house.connect()
        assert accepted is not None
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert accepted.recv_into(bytearray(100)) == 0
        assert b"This port speaks HTTPS" in client.recv(1000)
        assert "speaks HTTP to a port that speaks HTTPS" in caplog.text
        client, accepted = house.connect()
        assert accepted is not None
        client.sendall(b"\x16\x03\x01GET ")
        assert accepted.recv_into(bytearray(100)) == 7
    finally:
        house.close()
