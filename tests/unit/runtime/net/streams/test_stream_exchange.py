"""Channels between two exchanges over real sockets, with shared memory and without, over TCP and over TLS, and between two that
listen for other machines and find each other on theirs."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import trustme
from spark_harness.processes import wait_until

from sqlstream.elements import CheckpointBarrier, EndOfInput, Watermark, WatermarkStatus
from sqlstream.messages.rpc import InputChannelDescriptor
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.endpoint import Endpoint, TlsFiles, read_identity
from sqlstream.runtime.net.flight import FlightConnections, FlightServer, ServerCalls
from sqlstream.runtime.net.socket_directory import socket_path
from sqlstream.runtime.net.streams import handshake, stream_exchange
from sqlstream.runtime.net.streams.frames import FrameKind, encode_header
from sqlstream.runtime.net.streams.handshake import (
    Credentials,
    HandshakeFailed,
    connect_nearest,
    connect_stream,
)
from sqlstream.runtime.net.streams.stream_exchange import StreamExchange, StreamListener
from sqlstream.runtime.net.streams.stream_loop import StreamLoop
from sqlstream.runtime.net.streams.subpartition_stream import TURN_ITEMS

CAPACITY = 1 << 20
MEMORY = 16 << 20
TIMEOUT_S = 240
PATHS = ("shared", "socket", "tcp", "tls", "near")
SMALL = pa.record_batch({"a": np.arange(10)})
LARGE = pa.record_batch({"a": np.arange(20_000), "s": [f"row {i}" for i in range(20_000)]})


def certificates(directory: Path) -> TlsFiles:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    paths = [str(directory / name) for name in ("cert.pem", "key.pem", "ca.pem")]
    certificate.cert_chain_pems[0].write_to_path(paths[0])
    certificate.private_key_pem.write_to_path(paths[1])
    authority.cert_pem.write_to_path(paths[2])
    return TlsFiles(*paths)


class End:
    """A TaskManager's exchange, and the server that tells its address."""

    def __init__(self, path: str, directory: str, tls: TlsFiles | None, token: str = "secret") -> None:
        is_tcp = path in ("tcp", "tls", "near")
        endpoint = Endpoint("127.0.0.1", "127.0.0.1", 0, tls) if is_tcp else None
        self.connections = FlightConnections(token, read_identity(tls) if tls else None)
        memory = MEMORY if path in ("shared", "near") else 0
        found = "" if path in ("tcp", "tls") else directory
        self.exchange = StreamExchange(self.connections, Credentials(token, tls), memory, endpoint, found)
        self.server = FlightServer(
            token,
            ServerCalls(lambda data: None),
            directory=None if is_tcp else directory,
            endpoint=endpoint,
            stream_addresses=self.exchange.stream_addresses,
        )
        self.address = self.exchange.own_address = self.server.address

    def output(self, subpartition: int = 0, capacity_bytes: int = CAPACITY) -> Channel:
        return self.exchange.open_output("job", "p", subpartition, capacity_bytes)

    def close(self) -> None:
        self.exchange.close()
        self.connections.close()
        self.server.shutdown()


class Peers:
    """A producer and a consumer. State: the causes of lost channels."""

    def __init__(self, path: str, directory: str, tls: TlsFiles | None) -> None:
        self.producer, self.consumer = End(path, directory, tls), End(path, directory, tls)
        self.lost: list[str] = []
        self.has_lost = threading.Event()

    def input(self, subpartition: int = 0, capacity_bytes: int = CAPACITY) -> Channel:
        descriptor = InputChannelDescriptor("p", subpartition, 0, "e", "tm-7", self.producer.address)
        return self.consumer.exchange.open_input("job", descriptor, capacity_bytes, self._on_lost)

    def _on_lost(self, cause: str) -> None:
        self.lost.append(cause)
        self.has_lost.set()


@pytest.fixture
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Peers]]:
    with ExitStack() as ends:

        def make(path: str) -> Peers:
            files = tmp_path_factory.mktemp("p")
            peers = Peers(path, str(files), certificates(files) if path in ("tls", "near") else None)
            for end in (peers.consumer, peers.producer):
                ends.enter_context(closing(end))
            return peers

        yield make


@pytest.fixture
def peers(make: Callable[[str], Peers]) -> Peers:
    return make("shared")


class Reader:
    """Reads a channel as a task does. State: the items so far."""

    def __init__(self, channel: Channel) -> None:
        self.items: list[Any] = []
        self._channel = channel
        self._readable = threading.Semaphore(0)
        channel.listen(self._readable.release)

    def read(self, is_done: Callable[[], bool]) -> list[Any]:
        while not is_done():
            assert self._readable.acquire(timeout=60)
            has_more = True
            while has_more:
                queued, has_more = self._channel.take()
                if queued is not None:
                    self.items.append(queued.item)
        return self.items

    def read_all(self) -> list[Any]:
        return self.read(lambda: bool(self.items) and isinstance(self.items[-1], EndOfInput))


def put(channel: Channel, *items: Any) -> None:
    for item in items:
        channel.put(item, item.nbytes if isinstance(item, pa.RecordBatch) else 64)
    channel.flush()


@pytest.mark.parametrize("path", PATHS)
def test_batches_and_elements_arrive_in_order_and_unchanged(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    sent = [Watermark(1), LARGE.slice(5000, 3), WatermarkStatus(True), LARGE, LARGE.slice(9999), EndOfInput()]
    received = peers.input()
    put(peers.producer.output(), *sent)
    items = Reader(received).read_all()
    assert items == sent
    assert items[1].get_total_buffer_size() < 1000
    assert peers.lost == []


@pytest.mark.parametrize("path", PATHS)
def test_many_channels_share_one_stream_and_one_thread(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    count = 64
    before = threading.active_count()
    inputs = [Reader(peers.input(i)) for i in range(count)]
    outputs = [peers.producer.output(i) for i in range(count)]
    for turn in range(10):
        for i, output in enumerate(outputs):
            put(output, pa.record_batch({"a": np.full(100, i * 1000 + turn)}))
    put(outputs[0], LARGE.select(["a"]))
    # Those that connect have ended, or will.
    wait_until(lambda: threading.active_count() <= before)
    for output in outputs:
        put(output, EndOfInput())
    for i, reader in enumerate(inputs):
        items = reader.read_all()
        assert [item.column(0)[0].as_py() for item in items[:10]] == [i * 1000 + turn for turn in range(10)]
    assert [t.name for t in threading.enumerate() if t.name == "exchange"] == ["exchange"] * 2


@pytest.mark.parametrize("path", PATHS)
def test_a_slow_consumer_holds_at_most_its_window_and_a_batch_and_stops_no_other(
    make: Callable[[str], Peers], path: str
) -> None:
    peers = make(path)
    batch = pa.record_batch({"a": np.zeros(10_000)})
    slow, fast = peers.input(0), Reader(peers.input(1))
    slow_output, fast_output = peers.producer.output(0), peers.producer.output(1)
    put(slow_output, *[batch] * 200, EndOfInput())
    put(fast_output, *[batch] * 200, EndOfInput())
    assert len(fast.read_all()) == 201
    window = CAPACITY if path in ("shared", "near") else CAPACITY // 4
    assert CAPACITY // 4 <= slow.queued_bytes <= window + batch.nbytes
    assert slow_output.queued_bytes >= 200 * batch.nbytes - slow.queued_bytes
    assert len(Reader(slow).read_all()) == 201
    wait_until(lambda: peers.consumer.exchange.floating.lent_bytes == 0)


@pytest.mark.parametrize("path", PATHS)
def test_a_reader_limits_what_is_under_way_on_both_sides(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    received, output = peers.input(), peers.producer.output()
    batch = LARGE.slice(0, 500)
    put(output, *[batch] * 200)
    wait_until(lambda: received.queued_bytes >= CAPACITY // 4)
    limit = 4 * batch.nbytes
    received.limit(limit)
    wait_until(lambda: output._capacity_bytes == limit // 2)
    # Whatever it had room for before.
    put(output, batch)
    assert not output.has_room or output.queued_bytes < limit // 2

    read = 0
    received.listen(lambda: None)
    while read < 201:
        read += received.take()[0] is not None
    sent = 201
    for _ in range(100):
        while output.has_room:
            put(output, batch)
            sent += 1
        under_way = output.queued_bytes + received.queued_bytes
        assert under_way <= limit + 2 * batch.nbytes
        read += received.take()[0] is not None
    received.limit(CAPACITY)
    wait_until(lambda: output._capacity_bytes == CAPACITY // 2)
    put(output, *[batch] * 20, EndOfInput())
    items = Reader(received).read_all()
    assert len(items) == sent - read + 21
    wait_until(lambda: peers.consumer.exchange.floating.lent_bytes == 0)


def test_a_barrier_that_passes_rows_is_sent_without_credit(peers: Peers) -> None:
    batch = pa.record_batch({"a": np.zeros(50_000)})
    received, output = peers.input(), peers.producer.output()
    put(output, *[batch] * 20)
    wait_until(lambda: received.queued_bytes >= CAPACITY)
    arrived = received.queued_bytes // batch.nbytes
    assert arrived < 20
    barrier = CheckpointBarrier(5, 0, is_unaligned=True)
    passed = output.put_first(barrier, 64)
    assert len(passed) == 20 - arrived
    put(output, EndOfInput())
    reader = Reader(received)
    wait_until(lambda: any(queued.item == barrier for queued in list(received._items)))
    # It passes what has arrived, too, and brings that along.
    (first,) = [queued for queued in list(received._items) if queued.item == barrier]
    assert [queued.item.num_rows for queued in first.passed] == [50_000] * arrived
    assert reader.read_all()[0] == barrier
    assert len(reader.items) == 22


def test_a_barrier_with_a_time_limit_passes_rows_on_either_side_of_a_connection(peers: Peers) -> None:
    batch = pa.record_batch({"a": np.zeros(50_000)})
    received, output = peers.input(), peers.producer.output()
    timed: list[CheckpointBarrier] = []
    received.on_timed = timed.append
    barriers = [CheckpointBarrier(n, 0, overtakes_at_ms=1) for n in (1, 2)]
    put(output, batch, barriers[0])
    wait_until(lambda: timed == barriers[:1])
    put(output, *[batch] * 50, barriers[1])
    # The first has arrived behind a batch; the second waits for credit.
    assert [q.item.num_rows for q in received.overtake(1, keeps_passed=True)] == [50_000]
    assert output.holds(2)
    assert 0 < len(output.overtake(2)) <= 50
    assert not output.holds(2)
    unaligned = [CheckpointBarrier(n, 0, is_unaligned=True, overtakes_at_ms=1) for n in (1, 2)]
    wait_until(lambda: [q.item for q in list(received._items)[:2]] == unaligned)
    put(output, EndOfInput())
    assert len(Reader(received).read_all()) == 54


@pytest.mark.parametrize("path", PATHS)
def test_a_batch_larger_than_the_window_arrives(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    batch = pa.record_batch({"a": np.arange(500_000)})
    received = peers.input(capacity_bytes=65536)
    put(peers.producer.output(capacity_bytes=65536), batch, batch, batch, EndOfInput())
    assert Reader(received).read_all() == [batch, batch, batch, EndOfInput()]


def test_a_task_that_puts_a_batch_does_not_send_for_others_for_as_long_as_they_have_rows(
    peers: Peers,
) -> None:
    readers = [Reader(peers.input(i)) for i in range(4)]
    outputs = [peers.producer.output(i) for i in range(4)]
    senders: list[str] = []
    for output in outputs:
        output.wait_connected()
        output.on_read = lambda size: senders.append(threading.current_thread().name)
    (stream,) = peers.producer.exchange._consumers
    with stream._sending:
        # As while another task sends: what these put waits.
        for output in outputs[1:]:
            put(output, *[SMALL] * 100, EndOfInput())
    own = threading.current_thread().name
    put(outputs[0], SMALL, EndOfInput())
    assert senders.count(own) <= 2 * TURN_ITEMS
    assert [len(reader.read_all()) for reader in readers] == [2, 101, 101, 101]
    assert len(senders) == 305


def test_batches_that_are_kept_do_not_stop_the_stream(peers: Peers) -> None:
    batches = [pa.record_batch({"a": np.full(50_000, i)}) for i in range(100)]
    reader = Reader(peers.input())
    output = peers.producer.output()
    for i, batch in enumerate(batches):
        put(output, batch)
        reader.read(lambda i=i: len(reader.items) > i)
    # 40 MB are kept, of a segment of 8 MB.
    assert reader.items == batches
    assert peers.producer.exchange.shared.lent_bytes <= MEMORY // 2


def test_memory_of_a_segment_returns_when_nothing_uses_it(peers: Peers) -> None:
    reader, output = Reader(peers.input()), peers.producer.output()
    put(output, LARGE, LARGE, EndOfInput())
    reader.read_all()
    shared = peers.producer.exchange.shared
    assert shared.lent_bytes > LARGE.nbytes
    reader.items.clear()
    peers.producer.exchange.give_back_memory()
    assert shared.lent_bytes == 0


@pytest.mark.parametrize("path", PATHS)
def test_a_producer_that_stops_early_is_reported_as_lost(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    peers.input()
    output = peers.producer.output()
    put(output, Watermark(1))
    output.close()
    assert peers.has_lost.wait(60)
    assert peers.lost == ["the producer stopped before the end of its rows"]


@pytest.mark.parametrize("path", PATHS)
def test_batches_of_several_tables_share_a_channel(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    texts = pa.record_batch({"a": ["x"] * LARGE.num_rows})
    optional = pa.schema([pa.field("a", SMALL.schema.field("a").type, nullable=False)])
    wide = pa.record_batch({"a": [1], "b": [None]})
    sent = [
        SMALL,
        texts,
        LARGE,
        wide,
        pa.RecordBatch.from_arrays(SMALL.columns, schema=optional),
        texts.slice(1, 2),
    ]
    received = peers.input()
    put(peers.producer.output(), *sent, EndOfInput())
    assert Reader(received).read_all() == [*sent, EndOfInput()]


def test_what_cannot_be_sent_fails_its_channel_alone(peers: Peers) -> None:
    reader = Reader(peers.input(1))
    peers.input(0)
    outputs = [peers.producer.output(i) for i in range(2)]
    put(outputs[0], SMALL, object())
    assert peers.has_lost.wait(60)
    assert [cause[:27] for cause in peers.lost] == ["a batch could not be sent: "]
    with pytest.raises(ChannelClosed):
        put(outputs[0], SMALL)
    put(outputs[1], SMALL, EndOfInput())
    assert reader.read_all() == [SMALL, EndOfInput()]


@pytest.mark.parametrize("path", PATHS)
def test_a_consumer_that_goes_away_closes_its_producers_channel_and_no_other(
    make: Callable[[str], Peers], path: str
) -> None:
    peers = make(path)
    received, other = peers.input(0), Reader(peers.input(1))
    outputs = [peers.producer.output(i) for i in range(2)]
    put(outputs[0], SMALL)
    wait_until(lambda: bool(received._items))
    received.close()
    wait_until(lambda: outputs[0].is_closed)
    put(outputs[1], SMALL, EndOfInput())
    assert other.read_all() == [SMALL, EndOfInput()]
    assert peers.lost == []
    assert len(peers.producer.exchange.table) == 0


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_that_is_cut_fails_all_its_channels_with_the_name_of_the_peer_and_a_new_one_can_be_made(
    make: Callable[[str], Peers], path: str
) -> None:
    peers = make(path)
    for i in range(3):
        peers.input(i)
    outputs = [peers.producer.output(i) for i in range(3)]
    for output in outputs:
        output.wait_connected()
    (stream,) = peers.consumer.exchange._producers.values()
    stream._stream._stream.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: len(peers.lost) == 3)
    assert set(peers.lost) == {'TaskManager "tm-7": the peer closed the connection'}
    for output in outputs:
        wait_until(lambda output=output: output.is_closed)
    reader = Reader(peers.input(3))
    put(peers.producer.output(3), LARGE, EndOfInput())
    assert reader.read_all() == [LARGE, EndOfInput()]


def test_rows_from_the_same_process_are_passed_directly(peers: Peers) -> None:
    descriptor = InputChannelDescriptor("p", 0, 0, "e", "tm-7", peers.producer.address)
    received = peers.producer.exchange.open_input("job", descriptor, CAPACITY, peers._on_lost)
    output = peers.producer.output()
    assert received is output


def test_a_peer_that_cannot_be_reached_is_reported_as_lost_by_its_name(peers: Peers) -> None:
    peers.producer.server.shutdown()
    peers.input()
    assert peers.has_lost.wait(60)
    assert peers.lost[0].startswith('could not connect to TaskManager "tm-7": ')


@pytest.mark.parametrize("path", ["shared", "tcp", "tls"])
def test_a_stranger_without_the_token_opens_no_stream(make: Callable[[str], Peers], path: str) -> None:
    peers = make(path)
    credentials = Credentials("guess", peers.producer.exchange._credentials.tls)
    with pytest.raises((OSError, HandshakeFailed)):
        connect_stream(peers.producer.exchange.stream_addresses[0], credentials)
    assert peers.producer.exchange._consumers == set()


def test_a_stranger_with_the_token_and_another_certificate_opens_no_stream(
    make: Callable[[str], Peers], tmp_path: Path
) -> None:
    peers = make("tls")
    with pytest.raises((OSError, HandshakeFailed)):
        connect_stream(
            peers.producer.exchange.stream_addresses[0], Credentials("secret", certificates(tmp_path))
        )
    without_tls = peers.producer.exchange.stream_addresses[0].replace("grpc+tls://", "grpc://")
    with pytest.raises((OSError, HandshakeFailed)):
        connect_stream(without_tls, Credentials("secret"))
    assert peers.producer.exchange._consumers == set()


def through_memory(peers: Peers) -> bool:
    """Whether the rows of a channel lie in memory that both share."""
    reader = Reader(peers.input())
    put(peers.producer.output(), LARGE, EndOfInput())
    assert reader.read_all() == [LARGE, EndOfInput()]
    (stream,) = peers.producer.exchange._consumers
    is_unix = stream._stream._stream.socket.family == socket.AF_UNIX
    assert is_unix == (stream._segment is not None)
    return is_unix


def test_who_listens_for_other_machines_shares_memory_with_those_of_its_own(
    make: Callable[[str], Peers],
) -> None:
    peers = make("near")
    assert [a.split(":")[0] for a in peers.producer.exchange.stream_addresses] == ["grpc+tls", "unix"]
    assert through_memory(peers)


def test_who_does_not_find_the_others_socket_takes_the_network(make: Callable[[str], Peers]) -> None:
    """As in a container that has another /tmp."""
    peers = make("near")
    there = Path(socket_path(peers.producer.exchange.stream_addresses[1]))
    there.rename(there.with_name("elsewhere"))
    assert not through_memory(peers)


def test_a_socket_that_nobody_listens_to_is_passed_over(make: Callable[[str], Peers]) -> None:
    """As in a directory that two machines mount."""
    peers = make("near")
    there = socket_path(peers.producer.exchange.stream_addresses[1])
    os.unlink(there)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(there)
    assert not through_memory(peers)


def test_processes_of_two_users_share_no_memory(
    make: Callable[[str], Peers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake.os, "geteuid", lambda: os.getuid() + 1)
    assert not through_memory(make("near"))


def test_the_token_is_needed_on_the_own_machine_too(make: Callable[[str], Peers]) -> None:
    peers = make("near")
    with pytest.raises((OSError, HandshakeFailed)):
        connect_nearest(peers.producer.exchange.stream_addresses, Credentials("guess"))
    assert peers.producer.exchange._consumers == set()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"SQLX\xff\xff" + b"x" * 1000, b"SQ"])
def test_a_stranger_that_speaks_otherwise_is_disconnected(peers: Peers, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(socket_path(peers.producer.exchange.stream_addresses[0]))
        stranger.sendall(data)
        stranger.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert stranger.recv(100) == b""


@pytest.mark.parametrize(
    "frame",
    [
        encode_header(FrameKind.BATCH, 0, 10, 0, 0),
        encode_header(FrameKind.OPEN, 0, 1 << 20, 0, 0),
        encode_header(FrameKind.OPEN, 0, 3, 0, 0) + b"abc",
        b"\xff" * 32,
    ],
    ids=["a batch", "too long", "no name", "garbage"],
)
def test_a_consumer_that_sends_garbage_ends_its_own_stream_alone(peers: Peers, frame: bytes) -> None:
    reader = Reader(peers.input())
    stream, file = connect_stream(peers.producer.exchange.stream_addresses[0], Credentials("secret"))
    assert file is not None
    os.close(file)
    stream.socket.settimeout(10)
    stream.socket.sendall(frame)
    with suppress(ConnectionResetError):
        assert stream.socket.recv(100) == b""
    stream.close()
    put(peers.producer.output(), SMALL, EndOfInput())
    assert reader.read_all() == [SMALL, EndOfInput()]


def use_and_close(directory: Path) -> None:
    peers = Peers("shared", str(directory), None)
    reader = Reader(peers.input())
    put(peers.producer.output(), LARGE, EndOfInput())
    reader.read_all()
    peers.producer.close()
    peers.consumer.close()


def test_closing_leaves_no_thread_socket_or_memory(tmp_path: Path) -> None:
    # Libraries open descriptors for good with their first use.
    use_and_close(tmp_path)
    files = len(os.listdir("/proc/self/fd"))
    use_and_close(tmp_path)
    assert not [t for t in threading.enumerate() if t.name in ("exchange", "greet")]
    assert "sqlstream-exchange" not in Path("/proc/self/maps").read_text()
    assert os.listdir(tmp_path) == []
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= files)


def test_a_process_without_descriptors_accepts_later_and_does_not_spin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop, accepted = StreamLoop(), threading.Event()
    pauses: list[float] = []
    pause = StreamListener._pause

    def counted(listener: StreamListener) -> None:
        pauses.append(time.monotonic())
        pause(listener)

    monkeypatch.setattr(StreamListener, "_pause", counted)

    def accept(connection: socket.socket) -> None:
        connection.close()
        accepted.set()

    listener = StreamListener(loop, None, str(tmp_path), accept)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(loop), closing(listener), socket.socket(socket.AF_UNIX) as client:
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
        try:
            client.connect(socket_path(listener.address))
            wait_until(lambda: len(pauses) >= 2)
            assert not accepted.is_set()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert accepted.wait(TIMEOUT_S)
    # However busy the machine is, it has tried once in each of its pauses.
    assert all(later - sooner >= stream_exchange._PAUSE_S for sooner, later in itertools.pairwise(pauses))
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
