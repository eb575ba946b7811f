"""How a result sink sends its rows and lines to the client's process: over one Flight stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyarrow import flight

from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.flight import FlightConnections, PrintedLines, ResultStreamId, encode, under_schema


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
