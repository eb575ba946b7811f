"""Serves an application on sockets, from a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from client.server.places import ListeningSocket, PlaceLimits, Places
from client.server.server_config import TlsFiles
from sqlstream.errors import UserError

logger = logging.getLogger(__name__)

GRACE_S = 2
"""How long requests under way may take once the server stops."""

LATE_CHECK_S = 1.0
"""How often connections are looked for that send no request."""


class _CutOffIsNoError(logging.Filter):
    """uvicorn takes a response that is not completed for a bug of the application. Ours cuts off the stream of a result that
    fails, so that no reader takes it for a whole one: the statement's fault, and not the server's."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == "ASGI callable returned without completing response.":
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.msg = "a response was cut off, as its result has failed"
        return logging.getLogger(record.name).isEnabledFor(record.levelno)


class HttpListener:
    """uvicorn on a thread with an event loop of its own. `on_end` is called when it ends without `stop`. State: the thread."""

    def __init__(
        self,
        app: Any,
        sockets: list[socket.socket],
        tls: TlsFiles | None,
        on_end: Callable[[], None],
        places: Places | None = None,
    ) -> None:
        """UserError SS4002 when the files of TLS are not what they should be."""
        self._sockets = sockets
        self._is_secure = tls is not None
        self._places = places or Places(PlaceLimits())
        self._on_end = on_end
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=tls.certificate if tls is not None else None,
            ssl_keyfile=tls.key if tls is not None else None,
            ssl_keyfile_password=(tls.key_password or None) if tls is not None else None,
        )
        try:
            config.load()
        except (ssl.SSLError, OSError) as error:
            raise _unusable(error) from error
        uvicorn_logger = logging.getLogger("uvicorn.error")
        if not any(isinstance(known, _CutOffIsNoError) for known in uvicorn_logger.filters):
            uvicorn_logger.addFilter(_CutOffIsNoError())
        self._tls = config.ssl
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._is_stopping = False

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except (Exception, SystemExit):
            logger.exception("the HTTP server broke off")
        if not self._is_stopping:
            self._on_end()

    async def _serve(self) -> None:
        sockets: list[socket.socket] = [
            ListeningSocket(found, self._places, is_secure=self._is_secure) for found in self._sockets
        ]
        watching = asyncio.create_task(self._watch())
        try:
            await self._server.serve(sockets=sockets)
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LATE_CHECK_S)
            self._places.break_off_late()

    def reload(self, tls: TlsFiles) -> None:
        """Show new connections the certificate that the files hold. UserError SS4002 when it cannot be used."""
        try:
            # First elsewhere: a certificate without its key would be in force.
            fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            for context in (fresh, self._tls) if self._tls is not None else ():
                context.load_cert_chain(tls.certificate, tls.key, tls.key_password or None)
        except (ssl.SSLError, OSError) as error:
            raise _unusable(error) from error

    def refuse_connections(self) -> None:
        """Accept no other connection, and end requests under way within GRACE_S."""
        self._is_stopping = True
        self._server.should_exit = True

    def stop(self) -> None:
        """Wait for the end, for a little longer than GRACE_S."""
        self.refuse_connections()
        if self._thread.is_alive():
            self._thread.join(GRACE_S + 1)
        self._server.force_exit = True


def _unusable(error: Exception) -> UserError:
    return UserError(
        "SS4002",
        f"the certificate and key of security.ssl.rest cannot be used: {error}",
        hint="give PEM files that belong together, and the password of the key",
    )
