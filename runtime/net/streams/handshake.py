"""How two TaskManagers begin a stream: certificates over TLS, the cluster's token, and shared memory when both are on one
machine."""

from __future__ import annotations

import hmac
import os
import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sqlstream.runtime.net.endpoint import ENCRYPTED, TlsFiles
from sqlstream.runtime.net.socket_directory import is_unix, socket_path
from sqlstream.runtime.net.streams.byte_stream import ByteStream, TlsLayer

HANDSHAKE_TIMEOUT_S = 20.0
"""For each step. Long, since a job fails when it has passed, and processes that start together are slow."""

_MAGIC = b"SQLX"
_GREETING = struct.Struct("<4sH")
_TOKEN_BYTES_MAX = 512
_ANSWER = struct.Struct("<4s?")
_PEER = struct.Struct("3i")

_SEND_BUFFER_BYTES = 1 << 20
_LOST_AFTER_MS = 120_000


class HandshakeFailed(Exception):
    """The peer is not of this cluster, or speaks otherwise."""


@dataclass(frozen=True)
class Credentials:
    """What a process shows its peers: the cluster's token, and certificates where addresses are encrypted."""

    token: str
    tls: TlsFiles | None = None


def accept_stream(connection: socket.socket, credentials: Credentials, file: int | None) -> ByteStream:
    """The producer's side of the handshake; `file` is the shared memory for a peer on this machine. OSError, HandshakeFailed."""
    connection.settimeout(HANDSHAKE_TIMEOUT_S)
    tls = None
    if connection.family == socket.AF_UNIX:
        _check_user(connection)
    elif credentials.tls is not None:
        tls = TlsLayer(_context(credentials.tls, ssl.PROTOCOL_TLS_SERVER), True, None)
        tls.handshake(connection)
    talk = _Talk(connection, tls)
    magic, length = _GREETING.unpack(talk.receive(_GREETING.size))
    if magic != _MAGIC or length > _TOKEN_BYTES_MAX:
        raise HandshakeFailed("the peer speaks another protocol")
    if not hmac.compare_digest(talk.receive(length), credentials.token.encode()):
        raise HandshakeFailed("the token of this cluster is wrong")
    answer = _ANSWER.pack(_MAGIC, file is not None)
    if file is not None:
        socket.send_fds(connection, [answer], [file])
    else:
        talk.send(answer)
    return _opened(connection, tls)


_NOT_HERE = (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, PermissionError)
"""How it fails to connect to a Unix socket that is not on this machine, or not for this user."""


def connect_nearest(addresses: Sequence[str], credentials: Credentials) -> tuple[ByteStream, int | None]:
    """As `connect_stream`, to the first of the addresses, unless another one is a Unix socket that this process finds: its name
    is random, and a system connects only to sockets of its own processes, so that the producer is on this machine."""
    for address in addresses[1:]:
        if is_unix(address):
            with suppress(*_NOT_HERE):
                return connect_stream(address, credentials)
    return connect_stream(addresses[0], credentials)


def connect_stream(address: str, credentials: Credentials) -> tuple[ByteStream, int | None]:
    """The consumer's side: the stream, and the file of the shared memory if the producer has some. OSError, HandshakeFailed."""
    connection = _connect(address)
    try:
        connection.settimeout(HANDSHAKE_TIMEOUT_S)
        tls = None
        if credentials.tls is not None and address.startswith(ENCRYPTED):
            name = credentials.tls.server_name or urlsplit(address).hostname
            tls = TlsLayer(_context(credentials.tls, ssl.PROTOCOL_TLS_CLIENT), False, name)
            tls.handshake(connection)
        talk = _Talk(connection, tls)
        token = credentials.token.encode()
        talk.send(_GREETING.pack(_MAGIC, len(token)) + token)
        answer, files = _answer(talk) if not is_unix(address) else _answer_with_file(connection)
        if answer[0] != _MAGIC or answer[1] != bool(files):
            for file in files:
                os.close(file)
            raise HandshakeFailed("the peer speaks another protocol")
        return _opened(connection, tls), (files[0] if files else None)
    except BaseException:
        connection.close()
        raise


def _connect(address: str) -> socket.socket:
    if is_unix(address):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(HANDSHAKE_TIMEOUT_S)
        try:
            connection.connect(socket_path(address))
            _check_user(connection)
        except BaseException:
            connection.close()
            raise
        return connection
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname, parts.port), HANDSHAKE_TIMEOUT_S)


def _check_user(connection: socket.socket) -> None:
    """PermissionError unless this user runs the process at the other end of a Unix socket. Not all systems tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    shown = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    if _PEER.unpack(shown)[1] != os.geteuid():
        raise PermissionError("the peer is of another user")


def _opened(connection: socket.socket, tls: TlsLayer | None) -> ByteStream:
    if connection.family == socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    else:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A host that has gone without a word is noticed.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _LOST_AFTER_MS)
    return ByteStream(connection, tls)


def _context(files: TlsFiles, protocol: Any) -> ssl.SSLContext:
    """Both sides show a certificate that the cluster's authority has signed."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    context.load_verify_locations(files.authority)
    return context


class _Talk:
    """Waits for as long as the socket's timeout; each receive gets no more than it asks for. State: that of the TLS session."""

    def __init__(self, connection: socket.socket, tls: TlsLayer | None) -> None:
        self._connection = connection
        self._tls = tls

    def send(self, data: bytes) -> None:
        self._connection.sendall(data if self._tls is None else self._tls.encrypt([memoryview(data)]))

    def receive(self, size: int) -> bytes:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            filled += self._receive_some(view[filled:])
        return bytes(data)

    def _receive_some(self, target: memoryview) -> int:
        if self._tls is not None:
            size = self._tls.read_into(target)
            if size:
                return size
            received = self._connection.recv(1 << 14)
            self._tls.decrypt(received)
            if received:
                return self._tls.read_into(target)
            raise ConnectionError("the peer closed the connection")
        size = self._connection.recv_into(target)
        if size == 0:
            raise ConnectionError("the peer closed the connection")
        return size


def _answer(talk: _Talk) -> tuple[tuple[Any, ...], list[int]]:
    return _ANSWER.unpack(talk.receive(_ANSWER.size)), []


def _answer_with_file(connection: socket.socket) -> tuple[tuple[Any, ...], list[int]]:
    data, files, _, _ = socket.recv_fds(connection, _ANSWER.size, 1)
    if len(data) != _ANSWER.size:
        for file in files:
            os.close(file)
        raise HandshakeFailed("the peer closed the connection")
    return _ANSWER.unpack(data), files
