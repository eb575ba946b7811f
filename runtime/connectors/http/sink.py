"""Sends rows to a server: as they come, or by the commits of checkpoints.

Each request bears an `Idempotency-Key`. One that is repeated because its answer was lost has the same key, and a server that
knows keys does its work once. A commit names writer, checkpoint and request in the key, so that it may be repeated by whoever
goes on with the job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.connectors.http.bodies import content_type, joined
from sqlstream.runtime.connectors.http.options import headers_of, plain, write_options
from sqlstream.runtime.connectors.staged_rows import (
    StagedRowsWriter,
    new_writer_id,
    remove_committed,
    staged_rows,
)
from sqlstream.runtime.formats import calling_through, format_of, format_options
from sqlstream.runtime.host.http_client import Answer, HttpClient, Request, Retries
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable, in_order
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import Files
from sqlstream.spi.format import HasMessages, MessageWriter
from sqlstream.types import BYTES

_STAGED = Schema.of(("value", BYTES))
_KEY = "idempotency-key"


class Requests:
    """Sends messages, so many in a request. State: connections."""

    def __init__(
        self, spec: SinkSpec, files: Files, is_cancelled: threading.Event, retries_max: int | None = None
    ) -> None:
        """`retries_max`: other than the table's."""
        given = plain(spec.options)
        self._options, self._format = write_options(spec), given["format"]
        options = self._options
        self._rows_max = options.rows_max if format_of(self._format).descriptor.is_text else 1
        self._client = HttpClient(files, options.certificates, options.write_timeout_s, options.bytes_max)
        self._retries = Retries(options.write_retries if retries_max is None else retries_max, is_cancelled)
        headers = headers_of(given, "http.sink.header.")
        named = {name.lower() for name in headers}
        default = {} if "content-type" in named else {"content-type": content_type(self._format)}
        self._headers: Mapping[str, str] = {**default, **headers}

    def send(self, messages: pa.Array, keys: Iterator[str]) -> int:
        """The bytes that were sent, each request with the next of the keys. ExternalError SS5342, SS5343 and UserError SS5344
        for a server that does not take one."""
        size = 0
        for first in range(0, len(messages), self._rows_max):
            part = messages.slice(first, self._rows_max)
            body = joined(part, self._format, self._options.mode == "batch" and self._rows_max > 1)
            headers = {**self._headers, _KEY: next(keys)}
            request = Request(self._options.method, self._options.url, headers, body)
            self._retries.answered(self._client, request, _is_taken)
            size += len(body)
        return size

    def abort(self) -> None:
        self._client.abort()

    def close(self) -> None:
        self._client.close()


def _is_taken(answer: Answer) -> bool:
    return answer.status // 100 == 2


def _message_writer(spec: SinkSpec, files: Files) -> MessageWriter:
    given = plain(spec.options)
    form = format_of(given["format"])
    assert isinstance(form, HasMessages)
    made = form.message_writer(spec.schema, format_options(given["format"], given))
    return calling_through(made, files)


class HttpWriter:
    """A row is with its server when `write` returns. State: how many requests were sent."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._context = context
        self._is_cancelled = threading.Event()
        self._writer = _message_writer(spec, context.files)
        self._requests = Requests(spec, context.files, self._is_cancelled)
        self._keys = _numbered(new_writer_id(context))
        context.on_cancel(self._cancel)

    def _cancel(self) -> None:
        self._is_cancelled.set()
        self._requests.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        self._context.count("numBytesOut", self._requests.send(self._writer.encode(batch), self._keys))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        if checkpoint_id == LAST_CHECKPOINT_ID:
            self._requests.close()
        return []

    def abort(self) -> None:
        self._requests.close()


def _numbered(name: str) -> Iterator[str]:
    number = 0
    while True:
        yield f"{name}-{number}"
        number += 1


class StagingWriter:
    """Stages messages for the commit. State: the open file of staged messages."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._writer = _message_writer(spec, context.files)
        staged = msgspec.structs.replace(spec, schema=_STAGED)
        self._staged = StagedRowsWriter(staged, write_options(spec).staging_path, context)
        self._schema = to_arrow_schema(_STAGED)

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            values = self._writer.encode(batch)
            self._staged.write(pa.RecordBatch.from_arrays([values], schema=self._schema))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return self._staged.prepare_commit(checkpoint_id)

    def abort(self) -> None:
        self._staged.abort()


def commit(spec: SinkSpec, checkpoint_id: int, committables: Sequence[Committable], files: Files) -> None:
    """Send the staged messages, in requests that a repetition makes again as they were. ExternalError SS5066 for damaged ones,
    and as of `Requests.send`."""
    # A commit that fails is repeated, and until then leaves its thread to those of others.
    requests = Requests(spec, files, threading.Event(), retries_max=0)
    try:
        for committable in in_order(list(committables)):
            if files.status(committable.content["path"]) is None:
                # A commit removes rows only when it has sent all of them.
                continue
            rows = staged_rows(committable, files)
            name = f"{committable.writer_id}-{committable.checkpoint_id}"
            requests.send(rows.column(0).combine_chunks(), _numbered(name))
    finally:
        requests.close()
    remove_committed(checkpoint_id, committables, files)
