"""Channels between processes: one Flight stream per channel carries batches and elements, and credits the other way."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import flight

from runtime.net.channels import Channel, ChannelClosed
from runtime.net.credits import CreditWindow
from runtime.net.exchange import OnLost
from runtime.net.flight import (
    CreditGrant,
    FlightConnections,
    PrintedLines,
    ResultStreamId,
    decode_element,
    decode_header,
    encode,
    under_schema,
)
from runtime.net.memory import NetworkMemory
from runtime.net.partition_table import PartitionTable, SubpartitionId
from runtime.net.results import ClientStream
from sqlstream.elements import EndOfInput
from sqlstream.messages.rpc import InputChannelDescriptor


class RemoteInput(Channel):
    """The receiver's side of a channel whose producer runs in another process.

    A thread moves arriving items into a queue, which the granted credit bounds; reading the queue grants more credit.
    State: the queue, the credit window, the stream; released by `close` or at the end of input."""

    def __init__(
        self,
        connections: FlightConnections,
        address: str,
        subpartition: SubpartitionId,
        window: CreditWindow,
        on_lost: OnLost,
    ) -> None:
        super().__init__(capacity_bytes=sys.maxsize)
        self._connections = connections
        self._address = address
        self._subpartition = subpartition
        self._window = window
        self._on_lost = on_lost
        self._writing = threading.Lock()
        self._stream: tuple[Any, Any] | None = None
        self._is_done = False
        self.on_read = self._grant_again
        name = f"receive {subpartition.partition_id}/{subpartition.subpartition}"
        self._thread = threading.Thread(target=self._receive, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        super().close()
        with self._writing:
            stream, is_done = self._stream, self._is_done
        if stream is not None and not is_done:
            stream[1].cancel()
        self._window.release()

    def _receive(self) -> None:
        try:
            self._connect()
            has_ended = self._take_all()
        except ChannelClosed:
            return
        except pa.ArrowException as error:
            if not self.is_closed:
                self._on_lost(str(error).partition("\n")[0])
            return
        finally:
            self._window.release()
            self._close_stream()
        if not has_ended and not self.is_closed:
            self._on_lost("the producer stopped before the end of its rows")

    def _connect(self) -> None:
        client = self._connections.client(self._address)
        descriptor = flight.FlightDescriptor.for_command(encode(self._subpartition))
        stream = client.do_exchange(descriptor, self._connections.options())
        with self._writing:
            self._stream = stream
        if self.is_closed:
            stream[1].cancel()
            raise ChannelClosed
        self._grant(self._window.initial_grant())

    def _take_all(self) -> bool:
        """Returns whether the producer has sent its end of input."""
        assert self._stream is not None
        writer, reader = self._stream
        try:
            while True:
                chunk = reader.read_chunk()
                if chunk.data is None:
                    element = decode_element(chunk.app_metadata)
                    if isinstance(element, EndOfInput):
                        break
                    self.put(element, 0)
                else:
                    header = decode_header(chunk.app_metadata)
                    self._grant(self._window.on_received(header.backlog_bytes))
                    self.put(chunk.data, header.size)
        except StopIteration:
            return False
        with self._writing:
            self._is_done = True
            writer.done_writing()
        # The task need not wait until both ends have closed.
        self._window.release()
        self.put(element, 0)
        with suppress(StopIteration):
            reader.read_chunk()
        return True

    def _close_stream(self) -> None:
        """Close explicitly: a broken or cancelled stream writes to standard error when it is closed by its
        destructor."""
        with self._writing:
            self._is_done = True
            stream = self._stream
        if stream is not None:
            with suppress(pa.ArrowException):
                stream[0].close()

    def _grant_again(self, size: int) -> None:
        if size:
            self._grant(self._window.on_read(size))

    def _grant(self, size: int) -> None:
        if size == 0:
            return
        with self._writing:
            if self._is_done or self._stream is None or self.is_closed:
                return
            try:
                self._stream[0].write_metadata(encode(CreditGrant(size)))
            except pa.ArrowException:
                # The thread that reads the stream sees the same failure and reports it.
                self._is_done = True


class FlightClientStream:
    """Sends a result sink's rows and lines to the client's process over one Flight stream, opened with the first of
    them.

    Flow control is the transport's: a client that is behind stops the writer, until `abort` breaks the
    stream. The transport takes one writer at a time, so `abort` ends the write under way before it closes."""

    def __init__(self, connections: FlightConnections, address: str, stream: ResultStreamId) -> None:
        self._connections = connections
        self._address = address
        self._descriptor = flight.FlightDescriptor.for_command(encode(stream))
        self._stream: tuple[Any, Any] | None = None
        self._schema: pa.Schema | None = None
        self._is_aborted = False
        self._opening = threading.Lock()
        self._writing = threading.Lock()

    def put_rows(self, batch: pa.RecordBatch) -> None:
        with self._writing, _closed_when_broken():
            writer, _ = self._open()
            if self._schema is None:
                self._schema = batch.schema
                writer.begin(batch.schema)
            writer.write_batch(under_schema(batch, self._schema))

    def put_lines(self, lines: list[str], is_error: bool) -> None:
        with self._writing, _closed_when_broken():
            self._open()[0].write_metadata(encode(PrintedLines(lines, is_error)))

    def _open(self) -> tuple[Any, Any]:
        with self._opening:
            if self._is_aborted:
                raise ChannelClosed
            if self._stream is None:
                client = self._connections.client(self._address)
                self._stream = client.do_exchange(self._descriptor, self._connections.options())
            return self._stream

    def finish(self) -> None:
        with self._writing, _closed_when_broken():
            writer, reader = self._open()
            writer.done_writing()
            try:
                reader.read_chunk()
            except StopIteration as error:
                raise ChannelClosed from error
            writer.close()

    def abort(self) -> None:
        with self._opening:
            self._is_aborted = True
            stream = self._stream
        if stream is not None:
            stream[1].cancel()
            with self._writing, suppress(pa.ArrowException):
                stream[0].close()


@contextmanager
def _closed_when_broken() -> Iterator[None]:
    """Raise ChannelClosed when the client has disconnected or takes no more rows: the JobManager, in the client's process,
    ends the job then. Any other failure is the task's own."""
    try:
        yield
    except (flight.FlightCancelledError, flight.FlightUnavailableError) as error:
        raise ChannelClosed from error


class FlightExchange:
    """Tasks of several processes: batches within this process are passed directly, others come over Flight.

    State: the partition table, the network memory and the connections, all of the whole process.
    """

    def __init__(
        self,
        connections: FlightConnections,
        table: PartitionTable,
        memory: NetworkMemory,
        address: str,
    ) -> None:
        self._connections = connections
        self._memory = memory
        self._address = address
        self.table = table

    def open_output(self, job_id: str, partition_id: str, subpartition: int, capacity_bytes: int) -> Channel:
        return self.table.meet(SubpartitionId(job_id, partition_id, subpartition), capacity_bytes)

    def open_input(
        self, job_id: str, descriptor: InputChannelDescriptor, capacity_bytes: int, on_lost: OnLost
    ) -> Channel:
        if descriptor.address == self._address:
            return self.open_output(job_id, descriptor.partition_id, descriptor.subpartition, capacity_bytes)
        # A quarter of the bound is the channel's own; the rest is borrowed while the sender has a backlog.
        window = CreditWindow(capacity_bytes // 4, capacity_bytes, self._memory)
        subpartition = SubpartitionId(job_id, descriptor.partition_id, descriptor.subpartition)
        remote = RemoteInput(self._connections, descriptor.address, subpartition, window, on_lost)
        remote.start()
        return remote

    def open_client_stream(self, address: str, job_id: str, operator_id: int) -> ClientStream:
        return FlightClientStream(self._connections, address, ResultStreamId(job_id, operator_id))

    def release_job(self, job_id: str) -> None:
        self.table.release_job(job_id)
