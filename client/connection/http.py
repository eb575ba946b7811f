"""Requests to a server, by whoever sends them: one class for the shell, the command line and Python."""

from __future__ import annotations

import base64
import contextlib
import logging
import math
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import msgspec

from sqlstream import __version__
from sqlstream.client.connection.address import Address
from sqlstream.client.connection.failover import Failed, Failover, GiveUp, Servers
from sqlstream.client.connection.interface import closed_error
from sqlstream.client.connection.wire import LEADER_HEADER, START_HINT, answered_error
from sqlstream.client.http_api.types_json import DETAILED, RESPOND_ASYNC
from sqlstream.errors import ExternalError, Retry, SqlStreamError, UserError

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
"""How long a call may take, a result stream apart."""

SILENCE_S, STREAM_SILENCE_S = 15.0, 45.0
"""With several servers: how long a call that can be repeated may take, and a stream be silent, whose server sends something every
15 s, before another server is asked."""

CLOSE_TIMEOUT_S = 5.0
"""How long is tried to tell a server what it finds out by itself, and how long `close` waits for answers."""

CONNECTIONS_MAX = 200
"""Sockets of one client; each result that is being read holds one."""

_CONNECT_ATTEMPTS_AGAIN = 2
_MOMENT_S = 0.001
# A stream may be silent for hours: the system finds out whether its other end still exists.
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]


def _client_options(address: Address) -> dict[str, Any]:
    headers = {"user-agent": f"sqlstream/{__version__}", "accept": f"*/*, {DETAILED}"}
    if address.token:
        headers["authorization"] = _shown(address.token)
    timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    # Proxies of the environment are for other hosts than one's own server; the token must not reach them.
    return {"headers": headers, "timeout": timeout, "trust_env": False}


def _shown(token: str) -> str:
    """The header for a token, or for NAME:PASSWORD of a directory's user: no token has a colon."""
    if ":" in token:
        return f"Basic {base64.b64encode(token.encode()).decode()}"
    return f"Bearer {token}"


def _transport_options(address: Address) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=CONNECTIONS_MAX)
    return {
        "retries": _CONNECT_ATTEMPTS_AGAIN,
        "limits": limits,
        "socket_options": _KEEPALIVE,
        "verify": _trusted(address),
    }


def _trusted(address: Address) -> ssl.SSLContext | bool:
    if not address.url.startswith("https:"):
        return False
    context = ssl.create_default_context()
    if address.certificate_file:
        try:
            context.load_cert_chain(address.certificate_file)
        except (OSError, ssl.SSLError) as error:
            reason = _reason(error)
            what = f'cannot read a certificate and its key from "{address.certificate_file}": {reason}'
            raise UserError("SS4044", what) from error
    if address.ca_file:
        try:
            context.load_verify_locations(address.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                "SS4044", f'cannot read certificates from "{address.ca_file}": {_reason(error)}'
            ) from error
    return context


def _reason(error: Exception) -> str:
    """What the operating system or TLS says, without the number of the error."""
    return re.sub(r"^\[errno -?\d+\] *", "", str(error).lower())


@contextlib.contextmanager
def naming_url(url: str) -> Iterator[None]:
    """Raise what goes wrong on the way as an ExternalError that names the URL."""
    try:
        yield
    except httpx.ConnectError as error:
        reason = _reason(error) or "no connection"
        hint = "give the server's certificate: ?ca_file=FILE" if "certificate" in reason else START_HINT
        if "WRONG_VERSION_NUMBER" in str(error):
            hint = "the server has no certificate: address it as http://"
        raise ExternalError("SS5040", f"cannot connect to {url}: {reason}", hint=hint) from error
    except httpx.ConnectTimeout as error:
        raise ExternalError(
            "SS5040", f"cannot connect to {url} within {CONNECT_TIMEOUT_S:g} s", hint=START_HINT
        ) from error
    except httpx.TimeoutException as error:
        raise ExternalError("SS5042", f"{url} did not answer within {ANSWER_TIMEOUT_S:g} s") from error
    except httpx.TransportError as error:
        raise ExternalError(
            "SS5043",
            f"the connection to {url} was lost: {_reason(error) or type(error).__name__}",
            retry=Retry.BACKOFF,
            hint="see whether the server still runs, then send the statement again"
            + ("; a server with a certificate is addressed as https://" if url.startswith("http://") else ""),
        ) from error


class HttpClient:
    """Sends requests to the server that leads of one address or several, with its token. Thread-safe. A request that reached
    nobody goes to the next server, for a minute at most; one whose answer was lost does so when to repeat it is safe.

    State: open sockets, until `close`, which server was the last to answer, and how many threads wait for a server."""

    def __init__(self, address: Address) -> None:
        self._has_changed = threading.Condition()
        self._waiting = 0
        self._is_closed = False
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._servers = Servers(address.urls)
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(**_transport_options(address)),
            event_hooks={"request": [self._have_told]},
            **_client_options(address),
        )

    @property
    def url(self) -> str:
        """The server that was the last to answer."""
        return self._servers.current

    @property
    def has_several_servers(self) -> bool:
        return self._servers.are_several

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        repeats: bool | None = None,
        within_s: float = math.inf,
        /,
        **parameters: str,
    ) -> Any:
        """One request, whose body is JSON unless it is bytes, and the JSON of its answer, None for an empty one. `repeats`: to
        carry it out twice is the same as once, by default that of everything but POST. A body that is a function is asked for
        each attempt, with whether an earlier one may have arrived; all attempts end `within_s`. SqlStreamError for any answer
        but success; ExternalError when there is none, SS6091 when nobody knows whether the request had its effect."""
        repeats = method != "POST" if repeats is None else repeats
        silence_s = SILENCE_S if self._servers.are_several and repeats else ANSWER_TIMEOUT_S
        deadline_s = time.monotonic() + within_s

        def send(url: str, is_repeated: bool) -> httpx.Response:
            content = body(is_repeated) if callable(body) else body
            given: dict[str, Any] = {"content": content} if isinstance(content, bytes) else {"json": content}
            timeout = self._timeout(silence_s, max(_MOMENT_S, deadline_s - time.monotonic()))
            return self._client.request(
                method, url + path, params=parameters or None, timeout=timeout, **given
            )

        is_harmless = method in ("GET", "DELETE")
        return _answer(self._sent(send, repeats, is_harmless, deadline_s), self.url)

    @contextlib.contextmanager
    def stream(self, path: str, **parameters: str) -> Iterator[httpx.Response]:
        """An answer whose body is read piece by piece, and may take for ever. With several servers it may be 202 Accepted:
        what is to be sent is not there yet. Errors as for `call`."""
        # A server that stands still keeps its connections open: another one may lead meanwhile.
        several = self._servers.are_several
        timeout = self._timeout(STREAM_SILENCE_S if several else None)
        headers = {"prefer": RESPOND_ASYNC} if several else {}

        def send(url: str, _: bool) -> httpx.Response:
            request = self._client.build_request(
                "GET", url + path, params=parameters, headers=headers, timeout=timeout
            )
            return self._client.send(request, stream=True)

        response = self._sent(send, False, True)
        with contextlib.closing(response):
            if not response.is_success:
                with self.waiting(self.url):
                    response.read()
                _answer(response, self.url)
            yield response

    def _have_told(self, request: httpx.Request) -> None:
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of a socket that is opened."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            opened = info["return_value"].get_extra_info("socket")
            with self._has_changed:
                self._sockets.add(opened)
                if self._is_closed:
                    _shut_down(opened)

    @contextlib.contextmanager
    def waiting(self, url: str) -> Iterator[None]:
        """Around what waits for a server: `close` waits for it. What goes wrong names the URL, or says that the client was
        closed meanwhile, whichever error its socket had from that."""
        with self._has_changed:
            self._waiting += 1
        try:
            with naming_url(url):
                yield
        except (ExternalError, RuntimeError, OSError) as error:
            if self._is_closed:
                raise closed_error() from error
            raise
        finally:
            with self._has_changed:
                self._waiting -= 1
                self._has_changed.notify_all()

    @staticmethod
    def _timeout(silence_s: float | None, left_s: float = math.inf) -> httpx.Timeout:
        connect_s = min(CONNECT_TIMEOUT_S, left_s / (1 + _CONNECT_ATTEMPTS_AGAIN))
        return httpx.Timeout(None if silence_s is None else min(silence_s, left_s), connect=connect_s)

    def _sent(
        self,
        send: Callable[[str, bool], httpx.Response],
        repeats: bool,
        is_harmless: bool,
        deadline_s: float = math.inf,
    ) -> httpx.Response:
        """The answer of the server that leads. `is_harmless`: whoever sends it again need not know whether it had its effect."""
        if self._is_closed:
            raise closed_error()
        attempts = Failover(self._servers, repeats)
        while True:
            leader = ""
            try:
                with self.waiting(attempts.url):
                    response = send(attempts.url, attempts.may_have_arrived)
                    if LEADER_HEADER in response.headers:
                        response.read()
            except ExternalError as error:
                how, reason = Failed.LOST if error.code in LOST_CODES else Failed.UNREACHED, error
            else:
                if LEADER_HEADER not in response.headers:
                    self._servers.answered(attempts.url)
                    return response
                response.close()
                how, leader = Failed.NOT_LEADING, response.headers[LEADER_HEADER]
                reason = _not_leading(attempts.url)
            step = attempts.failed(how, time.monotonic(), leader)
            if not isinstance(step, GiveUp) and time.monotonic() + step.pause_s >= deadline_s:
                step = GiveUp(attempts.may_have_arrived)
            if isinstance(step, GiveUp):
                if step.is_unknown and self._servers.are_several and not is_harmless:
                    raise unknown_outcome(reason) from reason
                raise reason
            logger.info("the request goes to %s: %s", step.url, reason.message)
            time.sleep(step.pause_s)

    def close(self, within_s: float = 0.0) -> None:
        """Close the sockets. `within_s`: how long other threads may wait on for what a server still has to say to them."""
        with self._has_changed:
            self._has_changed.wait_for(lambda: not self._waiting, within_s)
            self._is_closed = True
            for opened in self._sockets:
                _shut_down(opened)
        self._client.close()


def _shut_down(opened: socket.socket) -> None:
    """Wake a thread that reads it, which its `close` does not."""
    with contextlib.suppress(OSError):
        # That of TLS would take away what the thread is using.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)


LOST_CODES = ("SS5042", "SS5043")
"""Of errors of a request that was sent and not answered."""


def _not_leading(url: str) -> ExternalError:
    return ExternalError(
        "SS6090",
        f"{url} waits to take the place of the server that leads, and that one does not answer",
        hint="give the addresses of all servers: http://HOST1:PORT,HOST2:PORT",
    )


def unknown_outcome(reason: SqlStreamError) -> ExternalError:
    """Of a request that must not be carried out twice."""
    return ExternalError(
        "SS6091",
        f"the request was sent, and its answer was lost: {reason.message}",
        hint="see whether it had its effect before you send it again: SHOW JOBS, or sqlstream jobs",
    )


def _answer(response: httpx.Response, url: str) -> Any:
    if not response.is_success:
        raise answered_error(response.status_code, response.content, url)
    if not response.content.strip():
        return None
    try:
        return msgspec.json.decode(response.content)
    except msgspec.DecodeError as error:
        raise ExternalError(
            "SS5041", f"{url} answered with what is no JSON", hint="check that the URL is that of a server"
        ) from error
