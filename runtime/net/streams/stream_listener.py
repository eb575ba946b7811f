"""Where the consumers of a TaskManager's rows connect to it."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable

from sqlstream.errors import ExternalError
from sqlstream.runtime.net.endpoint import Endpoint
from sqlstream.runtime.net.socket_directory import new_address, remove_socket, socket_path
from sqlstream.runtime.net.streams.stream_loop import StreamLoop

logger = logging.getLogger(__name__)

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
