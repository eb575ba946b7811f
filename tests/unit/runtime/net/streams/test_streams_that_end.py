"""Streams that end while something else goes on: a connection is made, a channel is opened, a peer is greeted."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from sqlstream.messages.rpc import InputChannelDescriptor
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.credits import CreditWindow, NetworkMemory
from sqlstream.runtime.net.exchange import PartitionTable, SubpartitionId
from sqlstream.runtime.net.flight import FlightConnections
from sqlstream.runtime.net.socket_directory import socket_path
from sqlstream.runtime.net.streams.byte_stream import ByteStream
from sqlstream.runtime.net.streams.frames import Frame, FrameKind, encode
from sqlstream.runtime.net.streams.handshake import Credentials, connect_stream
from sqlstream.runtime.net.streams.producer_stream import ProducerStream, RemoteInput
from sqlstream.runtime.net.streams.shared_segment import SegmentWriter
from sqlstream.runtime.net.streams.stream_exchange import StreamExchange
from sqlstream.runtime.net.streams.stream_loop import StreamLoop
from sqlstream.runtime.net.streams.subpartition_stream import SubpartitionStream

CREDENTIALS = Credentials("secret")
SUBPARTITION = SubpartitionId("job", "p", 0)


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[StreamExchange]:
    with (
        closing(FlightConnections("secret")) as connections,
        closing(StreamExchange(connections, CREDENTIALS, 0, None, str(tmp_path))) as exchange,
    ):
        yield exchange


def greeters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "greet"]


class Consumer:
    """A stream towards a producer that answers when it is told to. State: the causes of lost channels."""

    def __init__(self, is_segment_good: bool = True) -> None:
        self.near, self.far = socket.socketpair()
        writer = SegmentWriter(NetworkMemory(1 << 20))
        self.file = os.dup(writer.file) if is_segment_good else os.open("/dev/null", os.O_RDWR)
        writer.close()
        self.answers = threading.Event()
        self.loop = StreamLoop()
        self.lost: list[str] = []
        self.has_lost = threading.Event()
        self.stream = ProducerStream("tm-1", self._connect, self.loop, lambda stream: None)
        window = CreditWindow(1000, 1000, NetworkMemory(0))
        self.remote = RemoteInput(self.stream, SUBPARTITION, window, self._on_lost)
        assert self.stream.open(self.remote)
        self.stream.start()

    def _connect(self) -> tuple[ByteStream, int | None]:
        assert self.answers.wait(60)
        return ByteStream(self.near, None), self.file

    def _on_lost(self, cause: str) -> None:
        self.lost.append(cause)
        self.has_lost.set()

    def is_file_open(self) -> bool:
        try:
            os.fstat(self.file)
        except OSError:
            return False
        return True


@pytest.mark.parametrize("is_loop_closed", [False, True])
def test_a_stream_that_is_closed_while_it_connects_leaves_no_socket_and_no_memory(
    is_loop_closed: bool,
) -> None:
    consumer = Consumer()
    consumer.stream.close()
    assert consumer.lost == ["the exchange with tm-1 has ended"]
    if is_loop_closed:
        consumer.loop.close()
    consumer.answers.set()
    with consumer.far:
        assert consumer.far.recv(1) == b""
    consumer.loop.close()
    assert not consumer.is_file_open()
    assert consumer.lost == ["the exchange with tm-1 has ended"]


def test_shared_memory_that_cannot_be_mapped_loses_the_channels_and_closes_the_connection() -> None:
    consumer = Consumer(is_segment_good=False)
    with closing(consumer.loop), consumer.far:
        consumer.answers.set()
        assert consumer.has_lost.wait(60)
        assert consumer.lost == ["could not connect to tm-1: a shared file without room"]
        assert consumer.far.recv(1) == b""


def test_a_channel_that_is_opened_behind_the_end_of_its_stream_is_closed() -> None:
    near, far = socket.socketpair()
    table, loop = PartitionTable(), StreamLoop()
    with closing(loop), far:
        stream = SubpartitionStream(ByteStream(near, None), loop, table, None, lambda stream: None)
        stream.close()
        stream.start()
        output = table.meet(SUBPARTITION, 1000)
        stream._on_frame(Frame(FrameKind.OPEN, 0, 1000, 0, encode(SUBPARTITION)))
        assert output.is_closed
        assert far.recv(1) == b""
    assert len(table) == 0


def test_a_closed_exchange_breaks_off_who_is_greeted(exchange: StreamExchange) -> None:
    with ExitStack() as strangers:
        sockets = [strangers.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        for stranger in sockets:
            stranger.settimeout(10)
            stranger.connect(socket_path(exchange.stream_addresses[0]))
            stranger.sendall(b"SQ")
        while len(greeters()) < 3:
            pass
        threads = greeters()
        exchange.close()
        for thread in threads:
            thread.join(1)
        assert not any(thread.is_alive() for thread in threads)
        for stranger in sockets:
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""


def test_who_is_greeted_to_the_end_behind_the_close_is_disconnected(exchange: StreamExchange) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with listening:
        port = listening.getsockname()[1]
        opened: list[ByteStream] = []

        def connect() -> None:
            opened.append(connect_stream(f"grpc://127.0.0.1:{port}", CREDENTIALS)[0])

        exchange.close()
        peer = threading.Thread(target=connect)
        peer.start()
        connection, _ = listening.accept()
        exchange._accept(connection)
        peer.join(60)
    opened[0].socket.settimeout(10)
    assert opened[0].socket.recv(1) == b""
    opened[0].close()
    assert exchange._consumers == set()


def test_a_closed_exchange_opens_no_input(exchange: StreamExchange) -> None:
    exchange.close()
    before = threading.active_count()
    descriptor = InputChannelDescriptor("p", 0, 0, "e", "tm-7", "grpc+unix:///nowhere")
    with pytest.raises(ChannelClosed):
        exchange.open_input("job", descriptor, 1000, lambda cause: None)
    assert threading.active_count() == before
