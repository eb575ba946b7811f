"""The result of a statement that comes over HTTP: its rows as one Arrow stream, its job by the JobManager's REST."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus

import pyarrow as pa

from sqlstream.client.connection.http import CLOSE_TIMEOUT_S, LOST_CODES, HttpClient
from sqlstream.client.connection.interface import StatementResult
from sqlstream.client.connection.wire import (
    job_path,
    metrics_of,
    no_metrics,
    operation_path,
    poll_intervals_s,
    read_ending,
    read_head,
    status_of,
)
from sqlstream.client.following.remarks import Remark, read_remarks
from sqlstream.client.http_api.types_json import METADATA_KEY
from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind, text_of
from sqlstream.errors import ExternalError, SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply

UNSETTLED = ("INITIALIZED", "PENDING", "RUNNING")
"""Of the statuses of an operation."""

SUSPENDED_S = 30.0
"""How long a job may be suspended before one of several servers goes on with it."""


class HttpResult(StatementResult):
    """Implements `StatementResult` over an operation of a server.

    State: the stream, until its end or `close`; while nobody reads it, the socket pushes back. Whether the result is closed, was
    read to its end (`_is_whole`), and was freed on the server.
    """

    def __init__(self, client: HttpClient, session: str, operation: str) -> None:
        self._client = client
        self._session = session
        self._operation = operation
        self._stream = ResultStream(client.url)
        self._response = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._is_waiting = False
        self._is_closed = False
        self._is_whole = False
        self._is_freed = False
        try:
            self._pieces = self._opened()
            self._facts = self._read_head()
        except BaseException:
            self.close()
            raise
        if self.schema is None:
            # Read at once, so that its socket is free for others.
            batches = list(self._all())
            if self.kind is ResultKind.TEXT:
                self._facts = dataclasses.replace(self._facts, text=text_of(batches))

    @property
    def facts(self) -> ResultFacts:
        return self._facts

    # -- the stream --------------------------------------------------------------------------------

    def _opened(self) -> Iterator[bytes]:
        """The bytes of the stream, once the operation is settled. It is asked for its status meanwhile, which can be repeated,
        at another server too; a stream has one reader."""
        path = self._path("/result/stream")
        pauses_s = poll_intervals_s()
        while True:
            response = self._response.enter_context(self._client.stream(path, rowFormat="ARROW"))
            if response.status_code != HTTPStatus.ACCEPTED:
                return response.iter_raw()
            self._response.close()
            while self._client.call("GET", self._path("/status"))["status"] in UNSETTLED:
                time.sleep(next(pauses_s))

    def _read_head(self) -> ResultFacts:
        """SqlStreamError for a stream that ends before its head."""
        while self._stream.head is None:
            piece = self._next()
            if piece is None:
                self._finish_stream()
                raise AssertionError("a finished stream has a head")
            self._stream.feed(piece)
        return self._stream.head

    def _next(self) -> bytes | None:
        with self._client.waiting(self._client.url):
            return next(self._pieces, None)

    def _finish_stream(self) -> None:
        # A connection that another thread has closed meanwhile may look as if the server had ended the stream.
        with self._client.waiting(self._client.url):
            self._stream.finish()

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(()) if self.schema is None else self._all()

    def _all(self) -> Iterator[pa.RecordBatch]:
        """JobError at the end of a job that has not finished, ExternalError for a stream that is not whole."""
        try:
            yield from self._stream.take()
            while (piece := self._next_piece()) is not None:
                self._stream.feed(piece)
                yield from self._stream.take()
            if not self._is_closed:
                self._finish_stream()
                self._is_whole = self.kind is ResultKind.QUERY
                self._free()
        except ExternalError as error:
            if error.code not in LOST_CODES or not self._client.has_several_servers or self.schema is None:
                raise
            raise ExternalError(
                "SS6094", f"the rows that were being fetched are lost with the server: {error.message}"
            ) from error
        finally:
            self._response.close()

    def _next_piece(self) -> bytes | None:
        """Wait for more bytes; None at the end, and after `close`."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_waiting = True
        try:
            return self._next()
        except SqlStreamError:
            if self._is_closed:
                return None
            self._stream.read_ending()
            raise
        finally:
            with self._lock:
                self._is_waiting = False

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            is_waiting = self._is_waiting
        self._free()
        # A reader that waits is woken by the server, which has closed the operation, and closes the response itself.
        if not is_waiting:
            self._response.close()

    def _free(self) -> None:
        """Let the server forget the operation; it cancels the job of a query. It does so itself when it cannot be reached."""
        if self._is_freed:
            return
        self._is_freed = True
        with contextlib.suppress(SqlStreamError):
            self._client.call("DELETE", self._path("/close"), None, True, CLOSE_TIMEOUT_S)

    def _path(self, rest: str) -> str:
        return operation_path(self._session, self._operation, rest)

    # -- the job -----------------------------------------------------------------------------------

    @property
    def _running_job_id(self) -> str | None:
        """The job that may still run."""
        return None if self._is_whole else self.job_id

    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        """TimeoutError when the next look would come after `timeout_s`."""
        job_id = self._running_job_id
        if job_id is None:
            return JobStatusReply(self.job_id or "", JobStatus.FINISHED)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        suspended_s = 0.0
        for interval_s in poll_intervals_s():
            answer = self._client.call("GET", job_path(job_id, "/status"))
            reply = status_of(job_id, answer, None)
            if reply.status is JobStatus.SUSPENDED and self._client.has_several_servers:
                # The next server takes it up, unless it cannot.
                suspended_s += interval_s
            if reply.status.is_globally_terminal or (
                reply.status.is_terminal and not 0 < suspended_s < SUSPENDED_S
            ):
                break
            if deadline_s is not None and time.monotonic() + interval_s > deadline_s:
                raise TimeoutError(f"job {job_id} has not ended")
            time.sleep(interval_s)
        if reply.status is JobStatus.FAILED:
            return status_of(job_id, answer, self._client.call("GET", job_path(job_id, "/exceptions")))
        return reply

    def metrics(self) -> JobMetrics:
        if self.job_id is None:
            return no_metrics()
        return metrics_of(self.job_id, self._client.call("GET", job_path(self.job_id, "/totals")))

    def remarks(self) -> list[Remark]:
        """Those of a query come with its rows, those of another job with its totals."""
        if self.kind is ResultKind.QUERY:
            return self._stream.remarks
        if self.job_id is None:
            return []
        return read_remarks(self._client.call("GET", job_path(self.job_id, "/totals"))["warnings"])

    def cancel(self) -> None:
        job_id = self._running_job_id
        if job_id is None:
            return
        try:
            self._client.call("PATCH", job_path(job_id), mode="cancel")
        except SqlStreamError:
            # A job that has ended cannot be cancelled, which is no error here.
            answer = self._client.call("GET", job_path(job_id, "/status"))
            if not status_of(job_id, answer, None).status.is_terminal:
                raise


# A result's bytes as they come from a server → its head, its batches, and how it ended. These classes read nothing from a
# network.


MESSAGE_BYTES_MAX = 256 * 1024 * 1024
"""A longer message is refused: no server of ours sends one."""

_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<Ii")
_ALIGNMENT = 8
_BODY_LENGTH_FIELD = 3
"""Of the table `Message` in Arrow's format/Message.fbs: version, header_type, header, bodyLength."""


class ArrowStreamDecoder:
    """Any pieces of a stream in, whole batches out, without waiting: pyarrow's reader needs a file and a thread that waits.

    State: the bytes of the message that is not complete, and the schema. `is_ended`: the end mark of the stream was read; a
    stream without it was cut off. `end_metadata`: that of the last batch without rows, empty if it has none. ValueError or
    pa.ArrowInvalid for anything but a stream without dictionaries.
    """

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self.is_ended = False
        self.end_metadata: Mapping[bytes, bytes] = {}
        self._schema_message = b""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        """The batches that are complete with these bytes."""
        self._buffer += data
        batches: list[pa.RecordBatch] = []
        while not self.is_ended and (message := self._next_message()) is not None:
            if self.schema is None:
                self.schema = pa.ipc.read_schema(pa.py_buffer(message))
                self._schema_message = message
            else:
                batch = pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)
                if not batch.num_rows:
                    self.end_metadata = self._metadata(message)
                batches.append(batch)
        return batches

    def _metadata(self, message: bytes) -> Mapping[bytes, bytes]:
        """What the message of a batch says beside its rows, which pyarrow tells only of whole streams."""
        with pa.ipc.open_stream(self._schema_message + message) as reader:
            return dict(reader.read_next_batch_with_custom_metadata().custom_metadata or {})

    def _next_message(self) -> bytes | None:
        """Remove and return the next whole message."""
        if len(self._buffer) < _PREFIX.size:
            return None
        mark, metadata_bytes = _PREFIX.unpack_from(self._buffer)
        if mark != _CONTINUATION:
            raise ValueError("the answer is no Arrow stream")
        if metadata_bytes == 0:
            self.is_ended = True
            return None
        body_start = _PREFIX.size + metadata_bytes
        if not 0 < metadata_bytes <= MESSAGE_BYTES_MAX or metadata_bytes % _ALIGNMENT:
            raise ValueError("the answer is a damaged Arrow stream")
        if len(self._buffer) < body_start:
            return None
        end = body_start + _body_bytes(memoryview(self._buffer)[_PREFIX.size : body_start])
        if end > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of the Arrow stream has more than {MESSAGE_BYTES_MAX:,} bytes")
        if len(self._buffer) < end:
            return None
        message = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return message


def _body_bytes(metadata: memoryview) -> int:
    """`bodyLength` of a FlatBuffers table `Message`: the one field that says where the message ends."""
    try:
        (table,) = struct.unpack_from("<I", metadata, 0)
        (vtable_distance,) = struct.unpack_from("<i", metadata, table)
        vtable = table - vtable_distance
        vtable_bytes, _ = struct.unpack_from("<HH", metadata, vtable)
        slot = 4 + 2 * _BODY_LENGTH_FIELD
        if slot >= vtable_bytes:
            return 0
        (offset,) = struct.unpack_from("<H", metadata, vtable + slot)
        if offset == 0:
            return 0
        (length,) = struct.unpack_from("<q", metadata, table + offset)
    except struct.error as error:
        raise ValueError("the answer is a damaged Arrow stream") from error
    if length < 0:
        raise ValueError("the answer is a damaged Arrow stream")
    return int(length)


class ResultStream:
    """Feed it the pieces of `…/result/stream?rowFormat=ARROW`; when there are no more, call `finish`.

    State: the head once it has come, batches that were not taken, and `remarks`, which come with the end.
    """

    def __init__(self, url: str) -> None:
        self.head: ResultFacts | None = None
        self.remarks: list[Remark] = []
        self._url = url
        self._decoder = ArrowStreamDecoder()
        self._batches: list[pa.RecordBatch] = []

    def feed(self, data: bytes) -> None:
        """Accept a piece. ExternalError SS5041 when it is no result."""
        try:
            batches = self._decoder.feed(data)
            if self.head is None and self._decoder.schema is not None:
                self.head = read_head(self._decoder.schema)
        except (ValueError, pa.ArrowInvalid) as error:
            raise ExternalError(
                "SS5041",
                f"{self._url} answered with no result: {error}",
                hint="check that the URL is that of a server of the same version",
            ) from error
        self._batches += [batch for batch in batches if batch.num_rows]

    def take(self) -> list[pa.RecordBatch]:
        """The batches that have come since the last call, without metadata."""
        taken, self._batches = self._batches, []
        return [batch.replace_schema_metadata(None) for batch in taken]

    def read_ending(self) -> None:
        """Read what the last batch says of the end, if it does. JobError when the job has not finished: its stream is cut off
        after that batch, so that no reader takes it for a whole one."""
        if METADATA_KEY in self._decoder.end_metadata:
            self.remarks = read_ending(self._decoder.end_metadata)

    def finish(self) -> None:
        """No more bytes come. JobError when the job has not finished, ExternalError SS5043 when the stream is not whole."""
        self.read_ending()
        if not self._decoder.is_ended:
            raise ExternalError(
                "SS5043",
                f"the connection to {self._url} was lost within a result",
                hint="see whether the server still runs, then send the statement again",
            )
