"""Connector `socket`: the messages that a TCP connection brings, divided by a byte, until the other side closes it."""

from __future__ import annotations

import errno
import os
import select
import socket
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.message_rows import REJECTED_MESSAGES, MessageRows, check_format
from sqlstream.runtime.connectors.one_connection import OneConnection
from sqlstream.runtime.connectors.rejected_rows import REJECTED_MESSAGES_OPTIONS
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    Boundedness,
    ConnectorContext,
    ConnectorDescriptor,
    OptionType,
    Place,
    Reading,
    SourceReader,
    SourceStatus,
)
from sqlstream.spi.table_options import descriptors_of, option, parse_options

_CONNECTING_MS = 10_000
_AWAITING_MS = 10
"""How long one call waits for bytes."""
_LEFT_ALONE_MS = 1_000
"""How long a reader is left alone at most while nothing comes."""
_PORT_MAX = 65_535
_RECEIVED_BYTES = 1 << 20
_MESSAGE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, kw_only=True)
class SocketOptions:
    """The options of a table."""

    hostname: str = option("hostname", OptionType.STRING, "The host to connect to.", is_required=True)
    port: int = option("port", OptionType.INTEGER, "The port to connect to.", is_required=True, minimum=1)
    byte_delimiter: int = option(
        "byte-delimiter",
        OptionType.INTEGER,
        "The byte between two messages, as a number; 10 is the end of a line.",
        "10",
        minimum=0,
    )

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.hostname}:{self.port}"


class Socket(OneConnection):
    """One connection, so one reader has all rows. Nobody can ask for them again."""

    descriptor = ConnectorDescriptor(
        "socket",
        options=(*descriptors_of(SocketOptions), *REJECTED_MESSAGES_OPTIONS),
        reading=Reading(boundedness=Boundedness(False), reads_once=True, rejected_rows=REJECTED_MESSAGES),
        place=Place(options=("hostname", "port"), has_format=True, has_messages=True),
    )

    first = {"connection": 0}

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        given = parse_options(SocketOptions, options)
        for name, value, largest in (
            ("port", given.port, _PORT_MAX),
            ("byte-delimiter", given.byte_delimiter, 255),
        ):
            if value > largest:
                raise UserError(
                    "SS4002",
                    f'option "{name}" cannot be {value}',
                    option=name,
                    hint=f"the largest is {largest}",
                )
        check_format(schema, options)

    def reader(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> SourceReader:
        return SocketReader(spec, context, splits)


class SocketReader:
    """Emits what has come. State: whether there is a connection; where rows come from there are none before it."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._context = context
        self._options = parse_options(SocketOptions, spec.options)
        self._splits = list(splits)
        self._rows = MessageRows(spec, context, "SS5332", self._options.place)
        self._connection = Connection(self._options.hostname, self._options.port, context)
        self._messages = Messages(self._options.byte_delimiter)
        self._pending = pa.array([], pa.binary())

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._splits:
            return SourceStatus.END
        if not len(self._pending):
            data = self._connection.receive()
            if data is None:
                return SourceStatus.NOTHING_YET
            self._context.count("numBytesIn", len(data))
            self._pending = self._messages.add(data) if data else self._messages.rest()
            if not data and not len(self._pending):
                self._splits = []
                return SourceStatus.END
            self._check_size()
        rows = self._pending.slice(0, self._context.batch_rows)
        self._pending = self._pending.slice(len(rows))
        return self._rows.rows(rows) if len(rows) else SourceStatus.NOTHING_YET

    def _check_size(self) -> None:
        if self._messages.waiting_bytes > _MESSAGE_BYTES_MAX:
            raise UserError(
                "SS5333",
                f"a message of {self._options.place} has more than {_MESSAGE_BYTES_MAX >> 20} MB",
                hint=f"set 'byte-delimiter' to the byte that divides messages; it is {self._options.byte_delimiter}",
            )

    def next_poll_ms(self) -> int | None:
        return None if self.wait_fileno() is None else self._context.now_ms() + _LEFT_ALONE_MS

    def wait_fileno(self) -> int | None:
        return self._connection.fileno

    def snapshot(self) -> list[dict[str, Any]]:
        return list(self._splits)

    def close(self) -> None:
        self._rows.close()
        self._connection.close()


class Messages:
    """Divides bytes, wherever they were cut, into messages. State: the bytes of one that has not come to its end."""

    def __init__(self, delimiter: int) -> None:
        self._delimiter = bytes([delimiter])
        self._waiting = bytearray()

    @property
    def waiting_bytes(self) -> int:
        return len(self._waiting)

    def add(self, data: bytes) -> pa.Array:
        """The messages that end in these bytes."""
        end = data.rfind(self._delimiter) + 1
        if not end:
            self._waiting += data
            return pa.array([], pa.binary())
        whole = bytes(self._waiting) + data[:end] if self._waiting else data[:end]
        self._waiting = bytearray(data[end:])
        ends = np.flatnonzero(np.frombuffer(whole, np.uint8) == self._delimiter[0])
        offsets = np.concatenate(([0], ends - np.arange(len(ends)))).astype(np.int32)
        content = whole.translate(None, self._delimiter)
        return pa.Array.from_buffers(
            pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        )

    def rest(self) -> pa.Array:
        """The message that has no delimiter behind it, at the end of all."""
        last, self._waiting = bytes(self._waiting), bytearray()
        return pa.array([last] if last else [], pa.binary())


class Connection:
    """Connects at the first call, to the first address of the host that answers. A call waits for some milliseconds."""

    def __init__(self, hostname: str, port: int, context: ConnectorContext) -> None:
        self._hostname, self._port, self._now_ms = hostname, port, context.now_ms
        self._addresses: list[tuple[Any, ...]] | None = None
        self._socket: socket.socket | None = None
        self._is_connected = False
        self._give_up_ms = 0

    @property
    def fileno(self) -> int | None:
        """Of the connection, once it is there."""
        return self._socket.fileno() if self._socket is not None and self._is_connected else None

    def receive(self) -> bytes | None:
        """What has come; empty at the end, None when nothing has. ExternalError SS5331 for a connection that fails."""
        if not self._is_connected and not self._connect():
            return None
        assert self._socket is not None
        try:
            return self._socket.recv(_RECEIVED_BYTES) if self._is_ready(select.POLLIN) else None
        except OSError as error:
            raise self._failure("the connection to", "broke", error) from error

    def _connect(self) -> bool:
        if self._socket is None:
            self._begin()
        assert self._socket is not None
        if not self._is_ready(select.POLLOUT):
            if self._now_ms() < self._give_up_ms:
                return False
            number = errno.ETIMEDOUT
        else:
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not number:
            self._is_connected = True
            return True
        self.close()
        if not self._addresses:
            raise self._failure("", "cannot be connected to", OSError(number, os.strerror(number)))
        return False

    def _is_ready(self, event: int) -> bool:
        poll = select.poll()
        assert self._socket is not None
        poll.register(self._socket, event)
        return bool(poll.poll(_AWAITING_MS))

    def _begin(self) -> None:
        try:
            if self._addresses is None:
                self._addresses = list(
                    socket.getaddrinfo(self._hostname, self._port, type=socket.SOCK_STREAM)
                )
            family, kind, protocol, _, address = self._addresses.pop(0)
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket.connect_ex(address)
        except (OSError, UnicodeError) as error:
            raise self._failure("", "cannot be connected to", error) from error
        self._give_up_ms = self._now_ms() + _CONNECTING_MS

    def _failure(self, before: str, after: str, error: Exception) -> ExternalError:
        place = f'"{self._hostname}:{self._port}"'
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return ExternalError("SS5331", f"{before} {place} {after}: {reason}".strip())

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
