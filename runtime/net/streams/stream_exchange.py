"""Tasks of several processes: one stream for each TaskManager that this process reads from, and for each that reads from it."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import flight

from sqlstream.errors import ExternalError
from sqlstream.messages.rpc import InputChannelDescriptor
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.credits import CreditWindow, NetworkMemory
from sqlstream.runtime.net.endpoint import Endpoint
from sqlstream.runtime.net.exchange import OnLost, PartitionTable, SubpartitionId
from sqlstream.runtime.net.flight import FlightConnections, PrintedLines, ResultStreamId, encode, under_schema
from sqlstream.runtime.net.results import ClientStream
from sqlstream.runtime.net.socket_directory import new_address, remove_socket, socket_path
from sqlstream.runtime.net.streams.byte_stream import ByteStream
from sqlstream.runtime.net.streams.handshake import (
    HANDSHAKE_TIMEOUT_S,
    Credentials,
    accept_stream,
    connect_nearest,
)
from sqlstream.runtime.net.streams.producer_stream import Connect, ProducerStream, RemoteInput
from sqlstream.runtime.net.streams.shared_segment import SegmentWriter
from sqlstream.runtime.net.streams.stream_loop import StreamLoop
from sqlstream.runtime.net.streams.subpartition_stream import SubpartitionStream

logger = logging.getLogger(__name__)

SEGMENTS_BYTES_MIN = 1 << 20
"""With less memory than this for all of them there are no shared segments."""


class StreamExchange:
    """Batches within this process are passed directly, others go over streams; rows of results go to clients over Flight.

    Half of `memory_bytes` is what channels borrow while their senders are ahead, the other half what segments hold that this
    process shares with others of the machine. State: the streams, the partition table and this memory, until `close`."""

    def __init__(
        self,
        connections: FlightConnections,
        credentials: Credentials,
        memory_bytes: int,
        endpoint: Endpoint | None,
        directory: str,
    ) -> None:
        """It listens at `endpoint`, or in `directory`, or at both: then those of this machine and user that find the directory
        take the latter. ExternalError SS6071."""
        self.table = PartitionTable()
        self.floating = NetworkMemory(memory_bytes // 2)
        self.shared = NetworkMemory(memory_bytes - memory_bytes // 2)
        self._connections = connections
        self._credentials = credentials
        self._lock = threading.Lock()
        self._producers: dict[str, ProducerStream] = {}
        self._consumers: set[SubpartitionStream] = set()
        self._is_closed = False
        self._has_warned = False
        self._loop = StreamLoop()
        try:
            self._listeners = [
                StreamListener(self._loop, place, directory, self._accept)
                for place in ((endpoint, None) if endpoint is not None and directory else (endpoint,))
            ]
        except BaseException:
            self._loop.close()
            raise
        self.own_address = ""
        """The address under which descriptors name this process; channels from it are passed directly."""

    @property
    def stream_addresses(self) -> tuple[str, ...]:
        """Where the consumers of our rows connect to: all of them at the first."""
        return tuple(listener.address for listener in self._listeners)

    def open_output(self, job_id: str, partition_id: str, subpartition: int, capacity_bytes: int) -> Channel:
        return self.table.meet(SubpartitionId(job_id, partition_id, subpartition), capacity_bytes)

    def open_input(
        self, job_id: str, descriptor: InputChannelDescriptor, capacity_bytes: int, on_lost: OnLost
    ) -> Channel:
        if descriptor.address == self.own_address:
            return self.open_output(job_id, descriptor.partition_id, descriptor.subpartition, capacity_bytes)
        subpartition = SubpartitionId(job_id, descriptor.partition_id, descriptor.subpartition)
        while True:
            stream, is_new = self._producer(descriptor)
            # A quarter of the bound is the channel's own; the rest is borrowed while the sender has a backlog.
            window = CreditWindow(capacity_bytes // 4, capacity_bytes, self.floating)
            remote = RemoteInput(stream, subpartition, window, on_lost)
            if stream.open(remote):
                if is_new:
                    stream.start()
                return remote

    def open_client_stream(self, address: str, job_id: str, operator_id: int) -> ClientStream:
        return FlightClientStream(self._connections, address, ResultStreamId(job_id, operator_id))

    def release_job(self, job_id: str) -> None:
        self.table.release_job(job_id)

    def give_back_memory(self) -> None:
        """Return to the system what segments hold and nothing uses."""
        with self._lock:
            consumers = list(self._consumers)
        for stream in consumers:
            stream.trim()

    def close(self) -> None:
        """End all streams, and no longer listen. Harmless when repeated."""
        for listener in self._listeners:
            listener.close()
        with self._lock:
            self._is_closed = True
            producers, consumers = list(self._producers.values()), list(self._consumers)
            self._consumers.clear()
        for producer in producers:
            producer.close()
        for consumer in consumers:
            consumer.close()
        self._loop.close()

    # --- streams that we read

    def _producer(self, descriptor: InputChannelDescriptor) -> tuple[ProducerStream, bool]:
        """The stream, and whether the caller must start it. ChannelClosed after `close`."""
        address, name = descriptor.address, f'TaskManager "{descriptor.task_manager_id}"'
        with self._lock:
            if self._is_closed:
                raise ChannelClosed
            stream = self._producers.get(address)
            if stream is not None:
                return stream, False
            stream = ProducerStream(name, self._connector(address), self._loop, self._forget_producer)
            self._producers[address] = stream
            return stream, True

    def _connector(self, address: str) -> Connect:
        def connect() -> tuple[ByteStream, int | None]:
            told = self._connections.stream_addresses(address, HANDSHAKE_TIMEOUT_S)
            return connect_nearest(told, self._credentials)

        return connect

    def _forget_producer(self, stream: ProducerStream) -> None:
        with self._lock:
            for address in [a for a, s in self._producers.items() if s is stream]:
                del self._producers[address]

    # --- streams that we write

    def _accept(self, connection: socket.socket) -> None:
        segment = self._segment() if connection.family == socket.AF_UNIX else None
        try:
            file = segment.file if segment is not None else None
            opened = accept_stream(connection, self._credentials, file)
        except BaseException:
            if segment is not None:
                segment.close()
            raise
        if segment is not None:
            segment.close_file()
        stream = SubpartitionStream(opened, self._loop, self.table, segment, self._forget_consumer)
        with self._lock:
            is_over = self._is_closed
            if not is_over:
                self._consumers.add(stream)
        if is_over:
            stream.close()
        else:
            stream.start()

    def _segment(self) -> SegmentWriter | None:
        if self.shared.total_bytes < SEGMENTS_BYTES_MIN:
            return None
        try:
            return SegmentWriter(self.shared)
        except (OSError, AttributeError) as error:
            if not self._has_warned:
                self._has_warned = True
                logger.warning("rows go through sockets, since no memory can be shared: %s", error)
            return None

    def _forget_consumer(self, stream: SubpartitionStream) -> None:
        with self._lock:
            self._consumers.discard(stream)


# How a result sink sends its rows and lines to the client's process: over one Flight stream.


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


# Where the consumers of a TaskManager's rows connect to it.


HANDSHAKES_MAX = 256
"""How many connections may be in their handshake at a time; more are closed at once."""

_BACKLOG = 256
_PAUSE_S = 1.0


class StreamListener:
    """Listens at `endpoint`, or on a Unix socket in `directory`, and calls `on_connection` with each connection, on a thread that
    lasts as long as the call; `close` breaks off those connections for which the call has not returned.

    State: the socket and these connections, until `close`, and whether it pauses."""

    def __init__(
        self,
        loop: StreamLoop,
        endpoint: Endpoint | None,
        directory: str,
        on_connection: Callable[[socket.socket], None],
    ) -> None:
        """ExternalError SS6071 when nothing can listen there."""
        self._loop = loop
        self._on_connection = on_connection
        self._handshakes: set[socket.socket] = set()
        self._is_closed = False
        self._is_pausing = False
        self._lock = threading.Lock()
        if endpoint is None:
            self.address = new_address(directory)
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(socket_path(self.address))
            self._socket.listen(_BACKLOG)
        else:
            self._socket = _tcp_socket(endpoint)
            self.address = endpoint.address(self._socket.getsockname()[1])
        self._socket.setblocking(False)
        loop.add(self._socket, self._on_ready)

    def _on_ready(self, is_readable: bool, is_writable: bool) -> None:
        # The loop may find the socket ready once more before it forgets it.
        if self._is_closed or self._is_pausing:
            return
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            # It has gone again.
            return
        except OSError as error:
            logger.warning("could not accept a connection: %s", error)
            self._pause()
            return
        if not self._begin_handshake(connection):
            connection.close()
            return
        try:
            threading.Thread(target=self._greet, args=(connection,), name="greet", daemon=True).start()
        except RuntimeError as error:
            logger.warning("could not start a thread for a connection: %s", error)
            self._end_handshake(connection)
            connection.close()
            self._pause()

    def _begin_handshake(self, connection: socket.socket) -> bool:
        with self._lock:
            if self._is_closed or len(self._handshakes) >= HANDSHAKES_MAX:
                return False
            self._handshakes.add(connection)
            return True

    def _end_handshake(self, connection: socket.socket) -> None:
        with self._lock:
            self._handshakes.discard(connection)

    def _pause(self) -> None:
        """This process has no descriptor left for who waits, and would be told of it without a pause."""
        self._is_pausing = True
        self._loop.remove(self._socket, lambda: None)
        again = threading.Timer(_PAUSE_S, self._go_on)
        again.daemon = True
        again.start()

    def _go_on(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_pausing = False
                self._loop.add(self._socket, self._on_ready)

    def _greet(self, connection: socket.socket) -> None:
        try:
            self._on_connection(connection)
        except Exception as error:  # the thread's boundary: whoever connects cannot disturb this process
            self._end_handshake(connection)
            connection.close()
            level = logging.WARNING if not isinstance(error, OSError | ssl.SSLError) else logging.INFO
            logger.log(level, "a connection for rows was refused: %s", error)
        else:
            self._end_handshake(connection)

    def close(self) -> None:
        """Harmless when repeated."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            for connection in self._handshakes:
                # Its thread finds the end of the connection, and closes it.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        remove_socket(self.address)
        self._loop.remove(self._socket, self._socket.close)


def _tcp_socket(endpoint: Endpoint) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            endpoint.bind_host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.bind(place)
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise ExternalError(
            "SS6071",
            f'could not listen on "{endpoint.bind_host}": {(error.strerror or str(error)).lower()}',
            hint="set taskmanager.bind-host to an address of that host",
        ) from error
    return listening
