"""One end of what `main.py exchange` measures, and the process of the end that sends.

The process reads a ProcessOrder, writes its address, then produces for each Load of its input and writes an Outcome for it, as
lines of JSON."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from sqlstream import config
from sqlstream.elements import EndOfInput
from sqlstream.errors import FailureReason, JobError
from sqlstream.messages.rpc import InputChannelDescriptor
from sqlstream.runtime.host.process import ignore_interrupts, limit_library_threads
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.endpoint import Endpoint, TlsFiles, read_identity
from sqlstream.runtime.net.exchange import OnLost
from sqlstream.runtime.net.flight import FlightConnections, FlightServer, ServerCalls
from sqlstream.runtime.net.streams.handshake import Credentials
from sqlstream.runtime.net.streams.stream_exchange import StreamExchange
from sqlstream.runtime.taskmanager.input_gate import InputChannel, InputGate
from sqlstream.runtime.taskmanager.mailbox import Mailbox

COLUMNS = 4
SPACING_S = 0.005
_READ_CHECK_S = 0.001
SWITCH_INTERVAL_S = 0.0002
"""That of a TaskManager's process."""

CAPACITY_BYTES: int = config.get({}, "taskmanager.network.memory.max-buffered-bytes")
NETWORK_MEMORY_BYTES: int = config.get({}, "taskmanager.memory.network.max")


class Load(msgspec.Struct, frozen=True):
    """Batches of `rows` rows, in turn over `channels` channels of job `job_id`: without a pause for `seconds`, or `spaced` of
    them, one each five milliseconds."""

    job_id: str
    channels: int
    rows: int
    seconds: float
    spaced: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """What one end has seen. Wall time is from its first batch to its last, CPU time that of all its process's threads. `error`
    says why it did not come to its end."""

    batches: int
    wall_s: float
    cpu_s: float
    threads: int = 0
    latencies_us: tuple[float, ...] = ()
    error: str = ""


class ProcessOrder(msgspec.Struct, frozen=True):
    """Listen on a Unix socket in `directory`, or over TCP on loopback when that is empty, with certificates when `tls` names
    them; with both as a TaskManager that others of its machine find."""

    token: str
    directory: str
    tls: TlsFiles | None = None


class BenchEnd:
    """A server and an exchange, as a TaskManager has them. State: these, until `close`."""

    def __init__(self, order: ProcessOrder) -> None:
        tls = order.tls
        endpoint = None if order.directory and tls is None else Endpoint("127.0.0.1", "127.0.0.1", tls=tls)
        self._connections = FlightConnections(order.token, read_identity(tls) if tls is not None else None)
        self._exchange = StreamExchange(
            self._connections, Credentials(order.token, tls), NETWORK_MEMORY_BYTES, endpoint, order.directory
        )
        self._server = FlightServer(
            order.token,
            ServerCalls(lambda data: None),
            directory=None if endpoint is not None else order.directory,
            endpoint=endpoint,
            stream_addresses=self._exchange.stream_addresses,
        )
        self.address = self._exchange.own_address = self._server.address

    def outputs(self, load: Load) -> list[Channel]:
        return [self._exchange.open_output(load.job_id, "p", i, CAPACITY_BYTES) for i in range(load.channels)]

    def inputs(self, load: Load, address: str, on_lost: OnLost) -> list[Channel]:
        descriptors = [InputChannelDescriptor("p", i, 0, "e", "tm", address) for i in range(load.channels)]
        return [self._exchange.open_input(load.job_id, d, CAPACITY_BYTES, on_lost) for d in descriptors]

    def close(self) -> None:
        self._exchange.close()
        self._connections.close()
        self._server.shutdown()


def produce(load: Load, channels: Sequence[Channel]) -> Outcome:
    """Send what `load` says, and the end of input to all channels."""
    columns = [pa.array(np.arange(load.rows, dtype=np.int64) + i) for i in range(COLUMNS)]
    batch = pa.RecordBatch.from_arrays(columns, names=list("abcd"[:COLUMNS]))
    size, sent = batch.nbytes, 0
    begun_s, cpu_s = time.monotonic(), time.process_time()
    while sent < load.spaced or time.monotonic() - begun_s < load.seconds:
        if load.spaced:
            time.sleep(SPACING_S)
            batch = batch.set_column(0, "a", pa.array(np.full(load.rows, time.monotonic_ns())))
        channel = channels[sent % len(channels)]
        if not channel.has_room:
            _flush(channels)
            channel.wait_for_room()
        channel.put(batch, size)
        if load.spaced:
            channel.flush()
        sent += 1
    for channel in channels:
        channel.put(EndOfInput(), 0)
    _flush(channels)
    for channel in channels:
        channel.wait_connected()
    wait_until_read(channels)
    return Outcome(sent, time.monotonic() - begun_s, time.process_time() - cpu_s)


def try_to_produce(load: Load, channels: Sequence[Channel]) -> Outcome:
    """As `produce`; what fails closes the channels, so that the consumer does not wait, and is the outcome's `error`."""
    try:
        return produce(load, channels)
    except ChannelClosed:
        error = "its consumer has ended"
    except Exception as failure:  # the boundary of the end that sends: the other one tells the user
        error = f"{type(failure).__name__}: {failure}"
    for channel in channels:
        channel.close()
    return Outcome(0, 0.0, 0.0, error=error)


def _flush(channels: Sequence[Channel]) -> None:
    """As a task does before it waits."""
    for channel in channels:
        channel.flush()


def wait_until_read(channels: Sequence[Channel]) -> None:
    while any(channel.queued_bytes for channel in channels):
        time.sleep(_READ_CHECK_S)


class Consumer:
    """Takes what channels bring as a task does. State: what was counted, until all channels have ended."""

    def __init__(self, are_spaced: bool) -> None:
        self._mailbox = Mailbox()
        self._are_spaced = are_spaced
        self._latencies_us: list[float] = []
        self._batches = 0

    def on_lost(self, cause: str) -> None:
        """Called by any thread: `consume` fails with the cause."""

        def fail() -> None:
            raise lost(cause)

        self._mailbox.post(fail)

    def consume(self, channels: Sequence[Channel]) -> Outcome:
        """Wait for the first batch, then count until every channel has ended. JobError SS6063."""
        gate = InputGate((0,), (tuple(channels),), self._mailbox)
        gate.open()
        begun_s, cpu_s = 0.0, 0.0
        threads = 0
        while not gate.is_finished:
            while (mail := self._mailbox.take_mail()) is not None:
                mail()
            channel = self._mailbox.take_readable()
            if channel is None:
                self._mailbox.wait(None)
                continue
            assert isinstance(channel, InputChannel)
            queued = channel.take()
            item = queued.item if queued is not None else None
            if isinstance(item, EndOfInput):
                gate.on_end(channel, lambda ended: None)
            elif item is not None:
                if not self._batches:
                    begun_s, cpu_s = time.monotonic(), time.process_time()
                    threads = threading.active_count()
                self._on_batch(item)
        used_s = time.process_time() - cpu_s
        wall_s = time.monotonic() - begun_s
        return Outcome(self._batches, wall_s, used_s, threads, tuple(self._latencies_us))

    def _on_batch(self, batch: pa.RecordBatch) -> None:
        self._batches += 1
        if self._are_spaced:
            self._latencies_us.append((time.monotonic_ns() - batch.column(0)[0].as_py()) / 1000)


def lost(cause: str) -> JobError:
    return JobError("SS6063", f"lost the end that sends: {cause}", reason=FailureReason.INTERNAL)


def main() -> int:
    ignore_interrupts()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    limit_library_threads()
    order = msgspec.json.decode(sys.stdin.readline(), type=ProcessOrder)
    end = BenchEnd(order)
    print(msgspec.json.encode(end.address).decode(), flush=True)
    for line in sys.stdin:
        load = msgspec.json.decode(line, type=Load)
        outcome = try_to_produce(load, end.outputs(load))
        print(msgspec.json.encode(outcome).decode(), flush=True)
    end.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
