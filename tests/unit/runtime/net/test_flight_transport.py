"""Control messages over Flight arrive once, in order, however many wait for the peer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sqlstream.messages.rpc import CancelTask, decode_control_message
from sqlstream.runtime.net.flight import FlightConnections, FlightServer, ServerCalls
from sqlstream.runtime.net.flight_transport import FlightTransport


class Peer:
    """A server that takes messages down, held up while `may_take` is not set."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.may_take = threading.Event()
        self.has_all = threading.Event()
        self.expected = 0
        self.server = FlightServer("token", ServerCalls(self._take))

    def _take(self, data: bytes) -> None:
        assert self.may_take.wait(60)
        message = decode_control_message(data)
        assert isinstance(message, CancelTask)
        self.taken.append(message.execution_id)
        if len(self.taken) == self.expected:
            self.has_all.set()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.server.shutdown()


@pytest.mark.parametrize("count", [1, 250])
def test_messages_that_wait_for_a_peer_arrive_in_order(peer: Peer, count: int) -> None:
    connections = FlightConnections("token")
    transport = FlightTransport(connections)
    peer.expected = count
    wanted = [f"e{i}" for i in range(count)]
    for execution_id in wanted:
        transport.send(peer.server.address, CancelTask("tm", "job", execution_id))
    # The call under way is held up: the others wait behind it.
    peer.may_take.set()
    assert peer.has_all.wait(60)
    transport.close()
    connections.close()
    assert peer.taken == wanted


def test_who_closes_a_transport_may_wait_until_all_is_sent(peer: Peer) -> None:
    connections = FlightConnections("token")
    transport = FlightTransport(connections)
    peer.expected = 2
    for execution_id in ("a", "b"):
        transport.send(peer.server.address, CancelTask("tm", "job", execution_id))
    # The peer takes nothing yet: the time passes.
    transport.close(0.05)
    assert not peer.has_all.is_set()
    peer.may_take.set()
    transport.close(60)
    assert peer.has_all.is_set()
    connections.close()


def test_a_closed_transport_sends_what_was_waiting_and_ends_its_threads(peer: Peer) -> None:
    connections = FlightConnections("token")
    transport = FlightTransport(connections)
    peer.expected = 3
    for execution_id in ("a", "b", "c"):
        transport.send(peer.server.address, CancelTask("tm", "job", execution_id))
    transport.close()
    peer.may_take.set()
    assert peer.has_all.wait(60)
    (sender,) = [t for t in threading.enumerate() if t.name == f"send-{peer.server.address}"] or [None]
    if sender is not None:
        sender.join(60)
        assert not sender.is_alive()
    connections.close()
