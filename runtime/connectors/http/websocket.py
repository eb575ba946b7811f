"""Connector `websocket`: the messages that a server sends over a WebSocket, from the connection to its end."""

from __future__ import annotations

import contextlib
import socket
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.errors import ExternalError, UserError
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
from sqlstream.runtime.host.http_addresses import check_url, shown_url
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

_CONNECTING_S = 10
_AWAITING_S = 0.2
_PART_BYTES = 1 << 20
"""About as much is handed on at once."""


@dataclass(frozen=True, kw_only=True)
class WebSocketOptions(SharedOptions):
    """The options of a table."""

    subscribe_message: str | None = option(
        "subscribe-message",
        OptionType.STRING,
        "A text that is sent when a job has connected, such as what it wants to have.",
    )
    ping_interval_ms: int = option(
        "websocket.ping-interval",
        OptionType.DURATION,
        "How often a server is asked whether it is there; one that does not answer for as long is given up.",
        "20 s",
        minimum=1,
    )
    headers: str | None = option("websocket.header.*", OptionType.STRING, "A header of the first request.")


class WebSocket(OneConnection):
    """One connection, so one reader has all rows. Nobody can ask for them again."""

    descriptor = ConnectorDescriptor(
        "websocket",
        options=(*descriptors_of(WebSocketOptions), *REJECTED_MESSAGES_OPTIONS),
        reading=Reading(boundedness=Boundedness(False), reads_once=True, rejected_rows=REJECTED_MESSAGES),
        place=Place(options=("url",), has_format=True, has_messages=True),
    )

    first = {"connection": 0}
    file_options = (*CERTIFICATE_OPTIONS, REJECTED_ROWS_PATH)

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        given = parse_options(WebSocketOptions, options)
        check_url(given.url, ("ws", "wss"))
        check_headers(options)
        check_certificates(given)
        check_format(schema, options)

    def reader(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> SourceReader:
        return WebSocketReader(spec, context, splits)


class WebSocketReader(ReceivingReader):
    """Emits what has come. State: whether there is a connection; where rows come from there are none before it."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._options = parse_options(WebSocketOptions, spec.options)
        self._headers = headers_of(spec.options, "websocket.header.")
        self._place = shown_url(self._options.url)
        self._socket: socket.socket | None = None
        super().__init__(spec, context, splits, self._place)

    def interrupt(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def receive(self, receiver: Receiver) -> None:
        """In the receiver's thread. The library gives one message at a time, so this is a loop in Python."""
        from websockets.exceptions import ConnectionClosedOK

        with self._errors(), self._connected() as connection:
            if self._options.subscribe_message is not None:
                connection.send(self._options.subscribe_message)
            while not receiver.is_closed.is_set():
                messages: list[bytes] = []
                is_over = False
                try:
                    messages.append(connection.recv(_AWAITING_S, decode=False))
                    size = len(messages[0])
                    while len(messages) < self._context.batch_rows and size < _PART_BYTES:
                        messages.append(connection.recv(0, decode=False))
                        size += len(messages[-1])
                except TimeoutError:
                    pass
                except ConnectionClosedOK:
                    is_over = True
                if messages:
                    receiver.hand_on(Received(pa.array(messages, pa.binary())))
                if is_over:
                    receiver.hand_on(Received(pa.array([], pa.binary()), is_last=True))
                    return

    def _limit(self, opened: socket.socket) -> None:
        """Of the connection; an abort ends it before its timeout."""
        self._socket = opened
        if self._receiver.is_closed.is_set():
            raise OSError("the job was cancelled")
        opened.settimeout(_CONNECTING_S)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        from websockets.sync.client import connect

        from sqlstream.runtime.host.http_client import checked_addresses, first_connected

        options, parts = self._options, urllib.parse.urlsplit(self._options.url)
        is_secure = parts.scheme == "wss"
        port = parts.port or (443 if is_secure else 80)
        addresses = checked_addresses(str(parts.hostname), port, self._context.files)
        interval_s = options.ping_interval_ms / 1000
        with (
            first_connected(addresses, port, self._limit) as connected,
            connect(
                options.url,
                sock=connected,
                ssl=options.certificates.context(self._context.files) if is_secure else None,
                additional_headers=self._headers,
                open_timeout=_CONNECTING_S,
                close_timeout=1,
                ping_interval=interval_s,
                ping_timeout=interval_s,
                max_size=options.bytes_max,
                proxy=None,
            ) as connection,
        ):
            yield connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        import httpcore
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

        from sqlstream.runtime.host.http_client import failure_of_status

        try:
            yield
        except InvalidStatus as error:
            status = error.response.status_code
            said = f'"{self._place}" answers with status {status}'
            raise failure_of_status(status, said) from error
        except ConnectionClosed as error:
            if error.sent is not None and error.sent.code == _TOO_BIG:
                raise UserError(
                    "SS5345", f'a message of "{self._place}" has more than {self._options.bytes_max} bytes'
                ) from error
            raise ExternalError("SS5342", f'the connection to "{self._place}" broke: {error}') from error
        except (OSError, WebSocketException, httpcore.ConnectError) as error:
            raise ExternalError("SS5342", f'could not connect to "{self._place}": {error}') from error


_TOO_BIG = 1009
