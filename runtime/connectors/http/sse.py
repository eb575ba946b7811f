"""Connector `sse`: the events that a server sends over one long answer, from the one on that was last read (WHATWG HTML, 9.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.runtime.connectors.http.options import (
    CERTIFICATE_OPTIONS,
    SharedOptions,
    check_certificates,
    check_headers,
    headers_of,
)
from sqlstream.runtime.connectors.http.received import Received, Receiver, ReceivingReader
from sqlstream.runtime.connectors.message_rows import REJECTED_MESSAGES, check_format
from sqlstream.runtime.connectors.one_connection import OneConnection
from sqlstream.runtime.connectors.rejected_rows import REJECTED_MESSAGES_OPTIONS
from sqlstream.runtime.host.http_addresses import check_url, header_value, shown_url
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    REJECTED_ROWS_PATH,
    Boundedness,
    ConnectorContext,
    ConnectorDescriptor,
    OptionType,
    Place,
    Reading,
    SourceReader,
)
from sqlstream.spi.table_options import descriptors_of, option, parse_options
from sqlstream.types import STRING

if TYPE_CHECKING:
    from sqlstream.runtime.host.http_client import Answer, Request

_NO_CONTENT = 204
_RETRY_MS_MIN, _RETRY_MS_MAX = 100, 60_000
_LAST_ID = "last-event-id"


@dataclass(frozen=True, kw_only=True)
class SseOptions(SharedOptions):
    """The options of a table."""

    idle_timeout_ms: int = option(
        "sse.idle-timeout",
        OptionType.DURATION,
        "A connection over which nothing has come for this long, no comment either, is made again.",
        "5 min",
        minimum=1,
    )
    retries_max: int = option(
        "sse.max-retries",
        OptionType.INTEGER,
        "How often in a row a connection that fails is made again.",
        "5",
        minimum=0,
    )
    headers: str | None = option("sse.header.*", OptionType.STRING, "A header of requests.")


class Sse(OneConnection):
    """One connection, so one reader has all rows."""

    descriptor = ConnectorDescriptor(
        "sse",
        options=(*descriptors_of(SseOptions), *REJECTED_MESSAGES_OPTIONS),
        reading=Reading(
            boundedness=Boundedness(False),
            metadata={"event": STRING.with_nullable(False), "id": STRING},
            rejected_rows=REJECTED_MESSAGES,
        ),
        place=Place(options=("url",), has_format=True, has_messages=True),
    )

    first = {"id": ""}
    file_options = (*CERTIFICATE_OPTIONS, REJECTED_ROWS_PATH)

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        given = parse_options(SseOptions, options)
        check_url(given.url)
        check_headers(options)
        check_certificates(given)
        check_format(schema, options)

    def reader(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> SourceReader:
        return SseReader(spec, context, splits)


class SseReader(ReceivingReader):
    """Events come once if each has an id, from which a server goes on. A server that answers 204 has no more.

    State: the id of the last event."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        from sqlstream.runtime.host.http_client import HttpClient

        self._options = options = parse_options(SseOptions, spec.options)
        self._headers = headers_of(spec.options, "sse.header.")
        self._client = HttpClient(
            context.files, options.certificates, options.idle_timeout_ms / 1000, options.bytes_max
        )
        self._retry_ms = 1000
        super().__init__(spec, context, splits, shown_url(options.url))

    def interrupt(self) -> None:
        self._client.abort()

    def receive(self, receiver: Receiver) -> None:
        """In the receiver's thread: connect again and again, from the last event on."""
        last_id, failures = str(self._splits[0].get("id", "")), 0
        while not receiver.is_closed.is_set():
            events = Events(last_id, self._options.bytes_max)
            try:
                if not self._receive_once(receiver, events):
                    receiver.hand_on(Received(pa.array([], pa.binary()), is_last=True))
                    return
                failures = 0
            except ExternalError as error:
                failures = 1 if events.has_come else failures + 1
                if error.retry is not Retry.BACKOFF or failures > self._options.retries_max:
                    raise
            last_id = events.last_id
            self._retry_ms = events.retry_ms if events.retry_ms is not None else self._retry_ms
            receiver.is_closed.wait(min(self._retry_ms << max(0, failures - 1), _RETRY_MS_MAX) / 1000)

    def _receive_once(self, receiver: Receiver, events: Events) -> bool:
        """Until the answer ends; False when there is nothing more to come."""
        from sqlstream.runtime.host.http_client import Request

        headers, protocol = self._headers, {"accept": b"text/event-stream", "cache-control": b"no-store"}
        if last_id := header_value(events.last_id.encode(), self._options.url):
            # Where the table itself says where to begin, it says so of the first connection.
            headers = {k: v for k, v in headers.items() if k.lower() != _LAST_ID}
            protocol[_LAST_ID] = last_id
        request = Request("GET", self._options.url, headers, protocol=protocol)
        with self._client.stream(request, self._options.idle_timeout_ms / 1000) as (answer, parts):
            if answer.status == _NO_CONTENT:
                return False
            self._check(answer, request)
            for part in parts:
                found = events.add(part)
                if found is not None:
                    # A checkpoint shall not have an id from which no connection can go on.
                    header_value(events.last_id.encode(), answer.url)
                    receiver.hand_on(found)
                if receiver.is_closed.is_set():
                    break
        return True

    def _check(self, answer: Answer, request: Request) -> None:
        from sqlstream.runtime.host.http_client import failure_of

        if answer.status != 200:
            raise failure_of(answer, request)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream":
            raise UserError(
                "SS5344",
                f'"{shown_url(answer.url)}" sends no events, but "{kind}"',
                hint="read it with 'connector' = 'http'",
            )

    def close(self) -> None:
        super().close()
        self._client.close()


class Events:
    """Divides bytes, wherever they were cut, into events. State: the bytes of one that has not come to its end; the last id."""

    def __init__(self, last_id: str, bytes_max: int) -> None:
        self.last_id, self._bytes_max = last_id, bytes_max
        self.retry_ms: int | None = None
        self.has_come = False
        self._waiting = b"\n"
        """An event may begin where another one ends: there is a line end before the first."""

    def add(self, data: bytes) -> Received | None:
        """The events that end in these bytes; None for none. UserError SS5345 for one that is too large."""
        text = self._waiting + data
        # The second half of a line end may be still to come.
        held = b"\r" if text.endswith(b"\r") else b""
        text = text.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self.has_come:
            text = text.replace(b"\n\xef\xbb\xbf", b"\n", 1)
        end = text.rfind(b"\n\n") + 1
        self._waiting = text[end:] + held
        if len(self._waiting) > self._bytes_max:
            raise UserError("SS5345", f"an event has more than {self._bytes_max} bytes")
        try:
            return self._events(text[1:end]) if end > 1 else None
        except pa.ArrowInvalid as error:
            raise UserError("SS5346", f"the id or type of an event is no text: {error}") from error

    def _events(self, text: bytes) -> Received | None:
        lines = pc.split_pattern(pa.array([text], pa.binary()), b"\n").flatten()
        numbers = np.cumsum(pc.equal(pc.binary_length(lines), 0).to_numpy(zero_copy_only=False))
        data, owners = _field(lines, numbers, "data")
        types, of_types = _field(lines, numbers, "event")
        # A NUL makes an id none.
        is_id = pc.invert(pc.match_substring_regex(lines, "^id:.*\\x00"))
        ids, of_ids = _field(lines.filter(is_id), numbers[np.asarray(is_id)], "id")
        retries, _ = _field(lines, numbers, "retry")
        last_retry = retries[-1].as_py() if len(retries) else b""
        if last_retry.isdigit():
            # Python refuses to read a number of thousands of digits.
            self.retry_ms = min(max(int(last_retry[:10]), _RETRY_MS_MIN), _RETRY_MS_MAX)
        self.has_come = True
        first = np.flatnonzero(np.diff(owners, prepend=-1)) if len(owners) else np.array([], dtype=np.int64)
        events = owners[first]
        place = np.searchsorted(of_ids, events, side="right") - 1
        # An id stays that of the events behind it.
        known = pa.concat_arrays([ids.cast(pa.string()), pa.array([self.last_id])])
        of_events = known.take(pa.array(np.where(place < 0, len(ids), place)))
        self.last_id = known[len(ids) - 1 if len(ids) else 0].as_py()
        if not len(events):
            return None
        offsets = pa.array(np.append(first, len(owners)).astype(np.int32))
        messages = pc.binary_join(pa.ListArray.from_arrays(offsets, data), b"\n")
        kinds = pa.concat_arrays([types.cast(pa.string()), pa.array(["message"])])
        at = np.searchsorted(of_types, events, side="right") - 1
        is_named = (at >= 0) & (np.append(of_types, -1)[at] == events)
        named = kinds.take(pa.array(np.where(is_named, at, len(types))))
        id_values = pc.if_else(pc.equal(of_events, ""), pa.scalar(None, pa.string()), of_events)
        return Received(messages, {"event": named, "id": id_values}, {"id": self.last_id})


def _field(lines: pa.Array, numbers: np.ndarray[Any, Any], name: str) -> tuple[pa.Array, Any]:
    """The values of a field, and the number of the event of each."""
    is_field = pc.match_substring_regex(lines, f"^{name}(:|$)")
    values = pc.replace_substring_regex(lines.filter(is_field), f"^{name}:? ?", b"")
    return values, numbers[is_field.to_numpy(zero_copy_only=False)]
