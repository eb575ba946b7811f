"""Serves an application on sockets, from a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import ssl
import threading
from collections.abc import Callable, MutableMapping
from typing import Any

import uvicorn

from sqlstream.client.gateway.pushed_results import CUT_OFF
from sqlstream.client.server.places import ListeningSocket, PlaceLimits, Places
from sqlstream.client.server.server_config import TlsFiles
from sqlstream.errors import UserError

logger = logging.getLogger(__name__)

GRACE_S = 2
"""How long requests under way may take once the server stops."""

LATE_CHECK_S = 1.0
"""How often connections are looked for that send no request."""


_is_cut_off: contextvars.ContextVar[bool] = contextvars.ContextVar("the response is cut off", default=False)


class _SayNothingOfCutOffs(logging.Filter):
    """uvicorn takes a response that is not completed for a bug of the application, and says so in the task of its request."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_cut_off.get()


_NOTHING_OF_CUT_OFFS = _SayNothingOfCutOffs()


def _marking_cut_offs(app: Any) -> Any:
    """The application; whatever its server says after a response that it cuts off on purpose (CUT_OFF) is dropped."""

    async def marked(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        _is_cut_off.set(scope.get("state", {}).get(CUT_OFF, False))

    return marked


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
            _marking_cut_offs(app),
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
        logging.getLogger("uvicorn.error").addFilter(_NOTHING_OF_CUT_OFFS)
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
