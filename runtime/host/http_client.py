"""Requests to HTTP servers: bounded in size and time, and only to addresses that tables may call.

The name of a host is resolved once, its addresses are checked, and the connection goes to what was checked. So a name cannot
lead elsewhere between the check and the connection, nor can a redirection.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import select
import socket
import ssl
import threading
import urllib.parse
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import httpcore

from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.http_addresses import is_same_server, led_to, shown_url
from sqlstream.secrets import MASK
from sqlstream.spi.files import Files
from sqlstream.terminal_text import shortened

_REDIRECTIONS_MAX = 5
_REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
_PAUSE_S, _PAUSE_MAX_S, _ASKED_PAUSE_MAX_S = 0.1, 10.0, 60.0
_PLAIN = {"accept-encoding": b"identity"}
_LINK = re.compile(r"<([^>]*)>([^<]*)")
_TEXT_CHARACTERS_MAX = 200
_EXCERPT_BYTES = 1000
_CONNECTING_S = 10.0
"""A connection and its handshake, each; a silence on it may be longer."""


@dataclass(frozen=True)
class Request:
    """`headers` are those of the table, which may be secrets: they go to the server of `url` alone. Those of `protocol` go on to
    the servers of redirections too."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    protocol: Mapping[str, bytes] = field(default_factory=dict)

    def headers_for(self, url: str) -> list[tuple[str, str | bytes]]:
        """Those of a request to this address; the table's come before others of the name."""
        of_table = dict(self.headers) if is_same_server(url, self.url) else {}
        named = {name.lower() for name in of_table}
        others = {**_PLAIN, **self.protocol}
        return [*((k, v) for k, v in others.items() if k not in named), *of_table.items()]


@dataclass(frozen=True)
class Answer:
    """`url` is where it came from, behind redirections."""

    status: int
    headers: dict[str, str]
    body: bytes
    url: str

    @property
    def next_link(self) -> str | None:
        """Of `Link: <…>; rel="next"` (RFC 8288). UserError SS5344 for one that cannot be followed."""
        for target, parameters in _LINK.findall(self.headers.get("link", "")):
            names = [p.strip(" ,\t").replace('"', "").lower() for p in parameters.split(";")]
            if any(p.startswith("rel=") and "next" in p[4:].split() for p in names):
                return led_to(self.url, target)
        return None


class Trust(Protocol):
    @property
    def has_files(self) -> bool:
        """Whether certificates are named, which are read at once; those of the system are read for the first https address."""

    def context(self, files: Files) -> ssl.SSLContext:
        """The certificates that are trusted, and one of our own."""


class HttpClient:
    """Keeps connections between requests. Several threads may call it; another one may `abort` them all.

    State: open connections, those of http and of https."""

    def __init__(
        self, files: Files, certificates: Trust, timeout_s: float, bytes_max: int, connections_max: int = 64
    ) -> None:
        self._timeout_s, self._bytes_max = timeout_s, bytes_max
        self._backend = _CheckedNetwork(files)
        self._certificates, self._files, self._connections_max = certificates, files, connections_max
        self._pools: dict[bool, httpcore.ConnectionPool] = {}
        self._lock = threading.Lock()
        if certificates.has_files:
            self._pool(is_secure=True)

    def call(self, request: Request, timeout_s: float | None = None) -> Answer:
        """The answer, whatever its status; `timeout_s` holds in place of the client's. ExternalError SS5342 for a server that
        does not answer in time; UserError SS5341 for one that must not be called, SS5345 for an answer that is too large."""
        with self._opened(request, self._timeout_s if timeout_s is None else timeout_s) as (response, url):
            headers = _headers_of(response)
            body = self._body(response, headers, url)
            return Answer(response.status, headers, body, url)

    @contextlib.contextmanager
    def stream(self, request: Request, idle_s: float) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """The answer with its first bytes at most, and then its bytes as they come; `idle_s` is the longest silence."""
        with self._opened(request, None, idle_s) as (response, url):
            headers = _headers_of(response)
            if response.status != 200:
                body = self._body(response, headers, url)
                yield Answer(response.status, headers, body, url), iter(())
                return
            _check_encoding(headers, url)
            with _errors_of(url):
                yield Answer(response.status, headers, b"", url), response.iter_stream()

    @contextlib.contextmanager
    def _opened(
        self, request: Request, timeout_s: float | None, idle_s: float | None = None
    ) -> Iterator[tuple[httpcore.Response, str]]:
        url, headers = request.url, request.headers_for(request.url)
        wait_s = idle_s or timeout_s
        timeouts = dict.fromkeys(("read", "write", "pool"), wait_s)
        timeouts["connect"] = min(wait_s or _CONNECTING_S, _CONNECTING_S)
        with self._backend.until(timeout_s):
            for _ in range(_REDIRECTIONS_MAX + 1):
                with contextlib.ExitStack() as open_:
                    with _errors_of(url):
                        response = open_.enter_context(
                            self._pool(urllib.parse.urlsplit(url).scheme == "https").stream(
                                request.method,
                                url,
                                headers=headers,
                                content=request.body,
                                extensions={"timeout": timeouts},
                            )
                        )
                    location = _headers_of(response).get("location")
                    is_redirected = response.status in _REDIRECTIONS and location is not None
                    if not is_redirected or request.method != "GET":
                        yield response, url
                        return
                assert location is not None
                url = led_to(url, location)
                if not is_same_server(url, request.url):
                    # Whoever a server has led away from itself does not come back with secrets.
                    request = replace(request, headers={})
                headers = request.headers_for(url)
        raise UserError("SS5344", f'"{shown_url(request.url)}" leads to more than {_REDIRECTIONS_MAX} others')

    def _body(self, response: httpcore.Response, headers: Mapping[str, str], url: str) -> bytes:
        _check_encoding(headers, url)
        body = bytearray()
        with _errors_of(url):
            for part in response.iter_stream():
                body += part
                if len(body) > self._bytes_max:
                    raise UserError(
                        "SS5345",
                        f'the answer of "{shown_url(url)}" has more than {self._bytes_max} bytes',
                    )
        return bytes(body)

    def abort(self) -> None:
        """End what is under way, and refuse what comes."""
        self._backend.abort()

    def close(self) -> None:
        self._backend.abort()
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()

    def _pool(self, is_secure: bool) -> httpcore.ConnectionPool:
        with self._lock:
            if is_secure not in self._pools:
                # To read the certificates of the system takes as long as many requests.
                context = self._certificates.context(self._files) if is_secure else None
                self._pools[is_secure] = httpcore.ConnectionPool(
                    ssl_context=context,
                    network_backend=self._backend,
                    max_connections=self._connections_max,
                )
            return self._pools[is_secure]


class _CheckedNetwork(httpcore.NetworkBackend):
    """Connects to addresses that were checked. A thread's calls end at its deadline, however slowly bytes come. State: the open
    sockets, from before they are connected, for whoever aborts them."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._deadlines = threading.local()
        self._is_aborted = False

    @contextlib.contextmanager
    def until(self, timeout_s: float | None) -> Iterator[None]:
        before = getattr(self._deadlines, "value", None)
        self._deadlines.value = before if timeout_s is None else steady_s() + timeout_s
        try:
            yield
        finally:
            self._deadlines.value = before

    def limit(self, opened: socket.socket, timeout_s: float | None) -> None:
        """Give the next call of a socket the time that it may take. TimeoutError when there is none left, OSError behind an
        abort."""
        with self._lock:
            self._sockets.add(opened)
            if self._is_aborted:
                raise OSError("the job was cancelled")
        deadline_s = getattr(self._deadlines, "value", None)
        if deadline_s is not None:
            left_s: float = deadline_s - steady_s()
            if left_s <= 0:
                raise TimeoutError("timed out")
            timeout_s = left_s if timeout_s is None else min(left_s, timeout_s)
        opened.settimeout(timeout_s)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = checked_addresses(host, port, self._files)
        with _mapped(httpcore.ConnectTimeout, httpcore.ConnectError):
            connected = first_connected(addresses, port, lambda opened: self.limit(opened, timeout))
        return _BoundedStream(connected, self)

    def abort(self) -> None:
        with self._lock:
            self._is_aborted = True
            for opened in self._sockets:
                with contextlib.suppress(OSError):
                    # That of a TLS socket would take away what its own thread is using.
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose calls end at the deadline of their thread."""

    def __init__(self, connected: socket.socket, network: _CheckedNetwork) -> None:
        self._socket, self._network = connected, network

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _mapped(httpcore.ReadTimeout, httpcore.ReadError):
            self._network.limit(self._socket, timeout)
            return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        with _mapped(httpcore.WriteTimeout, httpcore.WriteError):
            while left:
                self._network.limit(self._socket, timeout)
                left = left[self._socket.send(left) :]

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        with _mapped(httpcore.ConnectTimeout, httpcore.ConnectError):
            opened = self._socket
            try:
                # The handshake comes behind: an abort has to reach the socket that waits for it.
                secured = opened = ssl_context.wrap_socket(
                    opened, server_hostname=server_hostname, do_handshake_on_connect=False
                )
                self._network.limit(secured, timeout)
                secured.do_handshake()
            except BaseException:
                opened.close()
                raise
        return _BoundedStream(secured, self._network)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return _is_readable(self._socket)
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        return self._socket if info == "socket" else None


def _is_readable(opened: socket.socket) -> bool:
    """Whether a call would not wait, such as where the other side has closed the connection."""
    if opened.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(0))


@contextlib.contextmanager
def _mapped(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    """Errors of sockets, as those of the library."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except OSError as error:
        raise failure(str(error)) from error


def first_connected(addresses: list[str], port: int, limit: Callable[[socket.socket], None]) -> socket.socket:
    """A connection to the first address that answers. `limit` is told each socket before it is connected, and sets its timeout.
    OSError of the last one."""
    failure: OSError = OSError("it has no address")
    for address in addresses:
        opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            limit(opened)
            opened.connect((address, port))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened
        except OSError as error:
            opened.close()
            failure = error
    raise failure


def checked_addresses(host: str, port: int, files: Files) -> list[str]:
    """Those that the name has now. UserError SS5341 if one of them must not be called; httpcore.ConnectError without any."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(str(error)) from error
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in addresses:
        files.require_callable(host, address)
    return addresses


def _headers_of(response: httpcore.Response) -> dict[str, str]:
    """By their names in small letters; several of one name are joined by commas."""
    found: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _check_encoding(headers: Mapping[str, str], url: str) -> None:
    """UserError SS5344 for bytes that would have to be decompressed: nobody knows how many they become."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding not in ("", "identity"):
        raise UserError(
            "SS5344",
            f'"{shown_url(url)}" answers in the encoding "{encoding}", although it was asked for none',
        )


@contextlib.contextmanager
def _errors_of(url: str) -> Iterator[None]:
    try:
        yield
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        said = "it did not answer in time" if isinstance(error, httpcore.TimeoutException) else str(error)
        raise ExternalError("SS5342", f'could not call "{shown_url(url)}": {said}') from error


# What the status of an answer means.

_NO_SECRETS = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
_SECRET_CHARACTERS_MIN = 8
"""Shorter words of a header, such as Bearer, are no secrets."""


def failure_of(answer: Answer, request: Request) -> ExternalError | UserError:
    """Of a status that is no success: trying again can help with 429 and 5xx."""
    text = answer.body[:_EXCERPT_BYTES].decode("utf-8", "replace").strip()
    for name, value in request.headers.items():
        # Servers may repeat what they were given: a key that they do not know.
        if name.lower() not in _NO_SECRETS:
            for part in sorted({value, *value.split()}, key=len, reverse=True):
                text = text.replace(part, MASK) if len(part) >= _SECRET_CHARACTERS_MIN else text
    detail = f"it says: {shortened(text, _TEXT_CHARACTERS_MAX)}" if text else ""
    said = f'"{shown_url(answer.url)}" answers {request.method} with status {answer.status}'
    return failure_of_status(answer.status, said, detail)


def failure_of_status(status: int, said: str, detail: str = "") -> ExternalError | UserError:
    if status in (401, 403):
        return ExternalError("SS5343", said, detail=detail)
    if status == 429 or status >= 500:
        return ExternalError("SS5342", said, detail=detail)
    return UserError("SS5344", said, detail=detail)


class Calls(Protocol):
    def call(self, request: Request) -> Answer:
        """As `HttpClient.call`."""


@dataclass
class Retries:
    """Calls again what fails for a reason that may pass, after pauses that double from `pause_s` up to `pause_max_s`; a server
    may say how long. `is_cancelled` ends a pause. No pause goes beyond `until_s` of the steady clock."""

    retries_max: int
    is_cancelled: threading.Event
    pause_s: float = _PAUSE_S
    pause_max_s: float = _PAUSE_MAX_S
    until_s: float = math.inf

    def answered(self, client: Calls, request: Request, is_success: Callable[[Answer], bool]) -> Answer:
        """The answer of a success. The last ExternalError, or any UserError."""
        pause_s = self.pause_s
        for attempt in range(self.retries_max + 1):
            asked_s: float | None = None
            try:
                answer = client.call(request)
                if is_success(answer):
                    return answer
                failure: ExternalError | UserError = failure_of(answer, request)
                asked_s = _retry_after_s(answer)
            except ExternalError as error:
                failure = error
            is_last = attempt == self.retries_max or self.is_cancelled.is_set()
            if is_last or not isinstance(failure, ExternalError) or failure.retry is not Retry.BACKOFF:
                raise failure
            # Many writers that failed together must not all come back together.
            wait_s = asked_s if asked_s is not None else pause_s * random.uniform(0.5, 1)
            if steady_s() + wait_s > self.until_s:
                raise failure
            self.is_cancelled.wait(wait_s)
            pause_s = min(2 * pause_s, self.pause_max_s)
        raise AssertionError("unreachable")


def _retry_after_s(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "")
    return min(float(text), _ASKED_PAUSE_MAX_S) if text.isdecimal() else None
