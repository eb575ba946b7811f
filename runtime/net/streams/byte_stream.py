"""Bytes over a connected socket, encrypted or not, without ever waiting."""

from __future__ import annotations

import socket
import ssl
import threading
from collections import deque
from collections.abc import Sequence

_ENCRYPTED_BYTES = 1 << 18
_PARTS_MAX = 64


class TlsLayer:
    """Encrypts and decrypts in memory, so that any thread may send while another receives. State: that of the TLS session, and
    encrypted bytes on their way; one lock."""

    def __init__(self, context: ssl.SSLContext, is_server: bool, server_name: str | None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, is_server, server_name)
        self._lock = threading.Lock()

    def handshake(self, connection: socket.socket) -> None:
        """Agree with the peer, within the socket's timeout. OSError, with ssl.SSLError, when that fails."""
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                connection.sendall(self._outgoing.read())
                received = connection.recv(_ENCRYPTED_BYTES)
                if not received:
                    raise ConnectionError("the peer closed the connection") from None
                self._incoming.write(received)
            else:
                connection.sendall(self._outgoing.read())
                return

    def encrypt(self, parts: Sequence[memoryview]) -> bytes:
        with self._lock:
            for part in parts:
                if part:
                    self._session.write(part)
            return self._outgoing.read()

    def decrypt(self, received: bytes) -> None:
        """Take encrypted bytes; `read_into` gives what they mean."""
        with self._lock:
            self._incoming.write(received)

    @property
    def has_encrypted(self) -> bool:
        """Whether bytes were taken that `read_into` has not given."""
        return self._incoming.pending > 0 or self._session.pending() > 0

    def read_into(self, target: memoryview) -> int:
        """0 when more must be received first. ConnectionError when the peer has ended the session."""
        with self._lock:
            try:
                received = self._session.read(min(len(target), _ENCRYPTED_BYTES))
            except ssl.SSLWantReadError:
                return 0
            except ssl.SSLZeroReturnError:
                received = b""
        if not received:
            raise ConnectionError("the peer closed the connection")
        target[: len(received)] = received
        return len(received)


class ByteStream:
    """Sends and receives as much as the socket takes and has. `send` is called under its caller's lock, `receive_into` by one
    thread. State: bytes that the socket did not take, until `flush` has sent them."""

    def __init__(self, connection: socket.socket, tls: TlsLayer | None) -> None:
        connection.setblocking(False)
        self.socket = connection
        self._tls = tls
        self._pending: deque[memoryview] = deque()

    @property
    def is_congested(self) -> bool:
        return bool(self._pending)

    @property
    def has_encrypted(self) -> bool:
        """Whether `receive_into` has bytes to give that it has received already."""
        return self._tls is not None and self._tls.has_encrypted

    def send(self, parts: Sequence[memoryview]) -> None:
        """Send, or keep for `flush`. OSError when the connection is broken."""
        if self._tls is not None:
            parts = [memoryview(self._tls.encrypt(parts))]
        was_congested = bool(self._pending)
        self._pending.extend(part for part in parts if part)
        if not was_congested:
            self.flush()

    def flush(self) -> None:
        """Send what is kept, as far as the socket takes it."""
        while self._pending:
            try:
                sent = self.socket.sendmsg(
                    [self._pending[i] for i in range(min(len(self._pending), _PARTS_MAX))]
                )
            except BlockingIOError:
                return
            while self._pending and sent >= len(self._pending[0]):
                sent -= len(self._pending.popleft())
            if sent:
                self._pending[0] = self._pending[0][sent:]

    def receive_into(self, target: memoryview) -> int:
        """The number of received bytes, 0 when there are none at the moment. OSError when the stream ends or breaks."""
        try:
            if self._tls is not None:
                return self._receive_encrypted(self._tls, target)
            size = self.socket.recv_into(target)
        except BlockingIOError:
            return 0
        if size == 0:
            raise ConnectionError("the peer closed the connection")
        return size

    def _receive_encrypted(self, tls: TlsLayer, target: memoryview) -> int:
        size = tls.read_into(target)
        if size:
            return size
        received = self.socket.recv(_ENCRYPTED_BYTES)
        if not received:
            raise ConnectionError("the peer closed the connection")
        tls.decrypt(received)
        return tls.read_into(target)

    def close(self) -> None:
        self._pending.clear()
        self.socket.close()
