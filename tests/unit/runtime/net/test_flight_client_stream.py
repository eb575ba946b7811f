"""Results over a real Flight connection on the loopback interface."""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.flight import FlightConnections, FlightServer, ResultStreamId, ServerCalls
from sqlstream.runtime.net.results import ResultStore
from sqlstream.runtime.net.streams.stream_exchange import FlightClientStream


class Peers:
    """A client's process with its server, and the connections of a task's process."""

    def __init__(self):
        self.lines = []
        self.store = ResultStore(1000, lambda *printed: self.lines.append(printed))
        self.server = FlightServer("secret", ServerCalls(lambda data: None, receiver=self.store))
        self.connections = FlightConnections("secret")

    def open_stream(self, operator_id):
        return FlightClientStream(self.connections, self.server.address, ResultStreamId("job", operator_id))


@pytest.fixture
def peers():
    made = Peers()
    yield made
    made.store.close_all()
    made.connections.close()
    made.server.shutdown()


def test_calls_without_the_token_are_refused(peers):
    stranger = FlightConnections("guess")
    with pytest.raises(flight.FlightUnauthenticatedError):
        stranger.send_messages(peers.server.address, [b""], 5)
    stranger.close()


def test_result_rows_and_lines_reach_the_client_before_the_stream_is_finished(peers):
    peers.store.open("job")
    stream = peers.open_stream(3)
    stream.put_rows(pa.record_batch({"a": [1, 2]}))
    stream.put_lines(["+I[1]", "+I[2]"], False)
    stream.finish()
    peers.store.close("job")
    assert [b.to_pydict() for b in peers.store.reader("job")] == [{"a": [1, 2]}]
    assert peers.lines == [("job", ["+I[1]", "+I[2]"], False)]


def test_a_client_that_wants_no_more_rows_stops_the_sink(peers):
    peers.store.open("job")
    stream = peers.open_stream(3)
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
    assert stopped.wait(60)


def test_a_writer_that_waits_for_the_client_is_released_by_abort(peers):
    peers.store.open("job")
    stream = peers.open_stream(3)
    batch = pa.record_batch({"a": np.zeros(100_000)})
    written, stopped = [], threading.Event()

    def write():
        try:
            while True:
                stream.put_rows(batch)
                written.append(time.monotonic())
        except ChannelClosed:
            stopped.set()

    threading.Thread(target=write, daemon=True).start()
    while not written or time.monotonic() - written[-1] < 0.3:
        time.sleep(0.05)
    aborting = threading.Thread(target=stream.abort, daemon=True)
    aborting.start()
    assert stopped.wait(60)
    aborting.join(60)
    assert not aborting.is_alive()


def test_rows_whose_not_null_marks_differ_go_down_one_result_stream(peers):
    peers.store.open("job")
    stream = peers.open_stream(7)
    for nullable in (True, False):
        schema = pa.schema([pa.field("a", pa.int64(), nullable=nullable)])
        stream.put_rows(pa.record_batch({"a": pa.array([1], pa.int64())}).cast(schema))
    stream.finish()
    peers.store.close("job")
    assert [b.to_pydict() for b in peers.store.reader("job")] == [{"a": [1]}] * 2


def test_rows_that_the_stream_cannot_carry_are_an_error_not_a_lost_client(peers):
    peers.store.open("job")
    stream = peers.open_stream(7)
    stream.put_rows(pa.record_batch({"a": pa.array([1], pa.int64())}))
    with pytest.raises(pa.ArrowException):
        stream.put_rows(pa.record_batch({"a": pa.array(["x"])}))
    stream.abort()
