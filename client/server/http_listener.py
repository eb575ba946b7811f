"""Serves an application on sockets, from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, MutableMapping
from typing import Any

import uvicorn

from sqlstream.client.gateway.pushed_results import CUT_OFF
from sqlstream.client.server.places import ListeningSocket, PlaceLimits, Places
from sqlstream.client.server.server_config import Endpoint, TlsFiles
from sqlstream.errors import UserError, reason_of_error

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


CERTIFICATE_NAMES = "certificate_names"
"""Under this key of a request's state are the names in its client's certificate, which the handshake has verified."""


class _ShowingCertificates:
    """Before a protocol of uvicorn, whose scopes have a copy of `app_state`."""

    app_state: dict[str, Any]

    def connection_made(self, transport: Any) -> None:
        shown = transport.get_extra_info("peercert") or {}
        if shown:
            self.app_state = {**self.app_state, CERTIFICATE_NAMES: names_of(shown)}
        super().connection_made(transport)  # type: ignore[misc]


def names_of(certificate: Any) -> tuple[str, ...]:
    """The CN, and DNS names, URIs and addresses of mail, of a certificate as the module ssl shows it.

    >>> names_of({"subject": ((("commonName", "ci"),),), "subjectAltName": (("DNS", "ci.local"), ("IP Address", "::1"))})
    ('ci', 'ci.local')
    """
    subject = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    others = [
        value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI", "email")
    ]
    return tuple(dict.fromkeys([*subject, *others]))


class HttpListener:
    """uvicorn on a thread with an event loop of its own. `on_end` is called when it ends without `stop`. State: the thread."""

    def __init__(
        self,
        app: Any,
        sockets: list[socket.socket],
        tls: TlsFiles | None,
        on_end: Callable[[], None],
        places: Places | None = None,
        is_behind_proxy: bool = True,
    ) -> None:
        """`is_behind_proxy`: a client of this machine may say in headers for whom it asks.

        UserError SS4002 when the files of TLS are not what they should be."""
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
            proxy_headers=is_behind_proxy,
            timeout_graceful_shutdown=GRACE_S,
            ssl_certfile=tls.certificate if tls is not None else None,
            ssl_keyfile=tls.key if tls is not None else None,
            ssl_keyfile_password=(tls.key_password or None) if tls is not None else None,
        )
        try:
            config.load()
        except (ssl.SSLError, OSError) as error:
            raise _unusable(error) from error
        if tls is not None and tls.client_authorities:
            self._ask_for_certificates(config, tls)
        logging.getLogger("uvicorn.error").addFilter(_NOTHING_OF_CUT_OFFS)
        self._tls = config.ssl
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._is_stopping = False

    @staticmethod
    def _ask_for_certificates(config: uvicorn.Config, tls: TlsFiles) -> None:
        context = config.ssl
        assert context is not None
        try:
            context.load_verify_locations(tls.client_authorities)
        except (ssl.SSLError, OSError) as error:
            raise UserError(
                "SS4002",
                f"the authorities of security.ssl.rest.ca-file cannot be used: {reason_of_error(error)}",
                hint="give a PEM file with their certificates",
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED if tls.needs_client else ssl.CERT_OPTIONAL
        protocol: Any = config.http_protocol_class
        config.http_protocol_class = type("ShowingCertificates", (_ShowingCertificates, protocol), {})

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


BACKLOG = 1024


def listen(endpoint: Endpoint) -> socket.socket:
    """A listening socket on the first free port of an endpoint. UserError SS4011 when there is none."""
    family, address = _resolve(endpoint)
    for port in endpoint.ports:
        # Said to be TCP, since asyncio sends small answers without delay only on such sockets: with the delay, and that of the
        # client's acknowledgement, each answer of two packets takes 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                with contextlib.suppress(OSError):
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address, port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise _refused(endpoint, port, (error.strerror or str(error)).lower()) from error
        else:
            listener.setblocking(False)
            return listener
    raise _refused(endpoint, endpoint.ports[-1], "it is in use")


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def url_of(endpoint: Endpoint, port: int, is_secure: bool) -> str:
    """The address that clients of an endpoint write."""
    host = f"[{endpoint.name}]" if ":" in endpoint.name else endpoint.name
    return f"{'https' if is_secure else 'http'}://{host}:{port}"


def _resolve(endpoint: Endpoint) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(
            endpoint.bind_address, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise UserError(
            "SS4011",
            f'could not listen on "{endpoint.bind_address}": it is no address of this machine',
            hint="give an address such as 127.0.0.1 as the option bind-address",
        ) from error
    # Flink's clients try IPv4 first, and a name such as localhost often has both.
    family, _, _, _, address = min(found, key=lambda f: f[0] != socket.AF_INET)
    return family, str(address[0])


def _refused(endpoint: Endpoint, port: int, reason: str) -> UserError:
    return UserError(
        "SS4011",
        f"could not listen on port {port} of {endpoint.bind_address}: {reason}",
        hint=f"stop what listens there, or give another port: {endpoint.port_words}",
    )
