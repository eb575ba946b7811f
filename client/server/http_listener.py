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

from client.server.server_config import TlsFiles
from sqlstream.errors import UserError

logger = logging.getLogger(__name__)

GRACE_S = 2
"""How long requests under way may take once the server stops."""

CONNECTIONS_MAX = 1000
"""Beyond these a request is answered with 503. Each stream of results holds one."""


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
        self, app: Any, sockets: list[socket.socket], tls: TlsFiles | None, on_end: Callable[[], None]
    ) -> None:
        """UserError SS4002 when the files of TLS are not what they should be."""
        self._sockets = sockets
        self._on_end = on_end
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=tls.certificate if tls is not None else None,
            ssl_keyfile=tls.key if tls is not None else None,
            ssl_keyfile_password=(tls.key_password or None) if tls is not None else None,
        )
        try:
            config.load()
        except (ssl.SSLError, OSError) as error:
            raise UserError(
                "SS4002",
                f"the certificate and key of security.ssl.rest cannot be used: {error}",
                hint="give PEM files that belong together, and the password of the key",
            ) from error
        uvicorn_logger = logging.getLogger("uvicorn.error")
        if not any(isinstance(known, _CutOffIsNoError) for known in uvicorn_logger.filters):
            uvicorn_logger.addFilter(_CutOffIsNoError())
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._is_stopping = False

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=self._sockets))
        except (Exception, SystemExit):
            logger.exception("the HTTP server broke off")
        if not self._is_stopping:
            self._on_end()

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
