"""Channels and results over a real Flight connection on the loopback interface."""

import threading

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from runtime.net.channels import ChannelClosed
from runtime.net.flight import FlightConnections, FlightServer
from runtime.net.flight_exchange import FlightExchange
from runtime.net.memory import NetworkMemory
from runtime.net.partition_table import PartitionTable, SubpartitionId
from runtime.net.results import ResultStore
from sqlstream.elements import EndOfInput, Watermark, WatermarkStatus
from sqlstream.messages.rpc import InputChannelDescriptor

CAPACITY = 1 << 20
SUBPARTITION = SubpartitionId("job", "p", 0)


class Peers:
    """A producer's process with its server, and a consumer's exchange that connects to it."""

    def __init__(self):
        self.table, self.memory, self.lines = PartitionTable(), NetworkMemory(CAPACITY), []
        self.store = ResultStore(1000, lambda *printed: self.lines.append(printed))
        self.server = FlightServer("secret", lambda data: None, table=self.table, receiver=self.store)
        self.connections = FlightConnections("secret")
        self.consumer = FlightExchange(self.connections, PartitionTable(), self.memory, "elsewhere:1")
        self.lost = []
        self.has_lost = threading.Event()

    def open_input(self):
        descriptor = InputChannelDescriptor("p", 0, 0, "e", "tm", self.server.address)
        return self.consumer.open_input("job", descriptor, CAPACITY, self._on_lost)

    def _on_lost(self, cause):
        self.lost.append(cause)
        self.has_lost.set()


@pytest.fixture
def peers():
    made = Peers()
    yield made
    made.store.close_all()
    made.connections.close()
    made.server.shutdown()


def take_all(channel):
    """Read as a task does, until the end of input."""
    readable, items = threading.Semaphore(0), []
    channel.listen(readable.release)
    while not items or not isinstance(items[-1], EndOfInput):
        assert readable.acquire(timeout=10)
        has_more = True
        while has_more:
            queued, has_more = channel.take()
            if queued is not None:
                items.append(queued.item)
    return items


def test_batches_and_elements_arrive_in_order_and_unchanged(peers):
    large = pa.record_batch(
        {"a": pa.array(range(10_000), pa.int64()), "s": [f"row {i}" for i in range(10_000)]}
    )
    sent = [Watermark(1), large.slice(5000, 3), WatermarkStatus(True), large, large.slice(9999), EndOfInput()]
    received = peers.open_input()
    output = peers.table.meet(SUBPARTITION, CAPACITY)
    for item in sent:
        output.put(item, item.nbytes if isinstance(item, pa.RecordBatch) else 64)
    items = take_all(received)
    assert items == sent
    assert items[1].get_total_buffer_size() < 500


def test_a_slow_consumer_holds_at_most_its_window_and_a_batch_and_stops_its_producer(peers):
    batch = pa.record_batch({"a": np.zeros(10_000)})
    received = peers.open_input()
    output = peers.table.meet(SUBPARTITION, CAPACITY)
    sent = 0

    def produce():
        nonlocal sent
        for _ in range(200):
            output.wait_for_room()
            output.put(batch, batch.nbytes)
            sent += 1
        output.put(EndOfInput(), 64)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    # 16 MB to send: the producer stops when its own queue and the consumer's window are full.
    producer.join(1)
    assert producer.is_alive()
    assert received.queued_bytes <= CAPACITY + batch.nbytes
    assert sent * batch.nbytes <= 2 * CAPACITY + 3 * batch.nbytes
    assert len(take_all(received)) == 201
    producer.join(10)
    assert peers.memory.lent_bytes == 0


def test_a_producer_that_stops_early_is_reported_as_lost(peers):
    peers.open_input()
    output = peers.table.meet(SUBPARTITION, CAPACITY)
    output.put(Watermark(1), 64)
    output.close()
    assert peers.has_lost.wait(10)
    assert peers.lost == ["the producer stopped before the end of its rows"]


def test_a_consumer_that_goes_away_closes_its_producers_channel(peers):
    received = peers.open_input()
    output = peers.table.meet(SUBPARTITION, CAPACITY)
    output.put(pa.record_batch({"a": [1]}), 8)
    readable = threading.Event()
    received.listen(readable.set)
    assert readable.wait(10)
    received.close()
    batch = pa.record_batch({"a": np.zeros(100_000)})

    def produce():
        while True:
            output.wait_for_room()
            output.put(batch, batch.nbytes)

    with pytest.raises(ChannelClosed):
        produce()
    assert peers.lost == []


def test_a_peer_that_cannot_be_reached_is_reported_as_lost(peers):
    descriptor = InputChannelDescriptor("p", 0, 0, "e", "tm", "127.0.0.1:1")
    peers.consumer.open_input("job", descriptor, CAPACITY, peers._on_lost)
    assert peers.has_lost.wait(10)


def test_calls_without_the_token_are_refused(peers):
    stranger = FlightConnections("guess")
    with pytest.raises(flight.FlightUnauthenticatedError):
        stranger.send_messages(peers.server.address, [b""], 5)
    stranger.close()


def test_result_rows_and_lines_reach_the_client_before_the_stream_is_finished(peers):
    peers.store.open("job")
    stream = peers.consumer.open_client_stream(peers.server.address, "job", 3)
    stream.put_rows(pa.record_batch({"a": [1, 2]}))
    stream.put_lines(["+I[1]", "+I[2]"], False)
    stream.finish()
    peers.store.close("job")
    assert [b.to_pydict() for b in peers.store.reader("job")] == [{"a": [1, 2]}]
    assert peers.lines == [("job", ["+I[1]", "+I[2]"], False)]


def test_a_client_that_wants_no_more_rows_stops_the_sink(peers):
    peers.store.open("job")
    stream = peers.consumer.open_client_stream(peers.server.address, "job", 3)
    batch = pa.record_batch({"a": np.zeros(100_000)})
    stopped = threading.Event()

    def write():
        try:
            while True:
                stream.put_rows(batch)
        except ChannelClosed:
            stopped.set()

    threading.Thread(target=write, daemon=True).start()
    assert next(iter(peers.store.reader("job"))).num_rows == 100_000
    assert not stopped.wait(0.2)
    peers.store.close("job")
    assert stopped.wait(10)


def test_rows_whose_not_null_marks_differ_go_down_one_result_stream(peers):
    peers.store.open("job")
    stream = peers.consumer.open_client_stream(peers.server.address, "job", 7)
    for nullable in (True, False):
        schema = pa.schema([pa.field("a", pa.int64(), nullable=nullable)])
        stream.put_rows(pa.record_batch({"a": pa.array([1], pa.int64())}).cast(schema))
    stream.finish()
    peers.store.close("job")
    assert [b.to_pydict() for b in peers.store.reader("job")] == [{"a": [1]}] * 2


def test_rows_that_the_stream_cannot_carry_are_an_error_not_a_lost_client(peers):
    peers.store.open("job")
    stream = peers.consumer.open_client_stream(peers.server.address, "job", 7)
    stream.put_rows(pa.record_batch({"a": pa.array([1], pa.int64())}))
    with pytest.raises(pa.ArrowException):
        stream.put_rows(pa.record_batch({"a": pa.array(["x"])}))
    stream.abort()
