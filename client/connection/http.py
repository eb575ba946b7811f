"""Requests to a server, by whoever sends them: one class for the shell, the command line and Python."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec

from sqlstream import __version__
from sqlstream.client.connection.address import Address
from sqlstream.client.connection.wire import START_HINT, answered_error, closed_error
from sqlstream.client.http_api.types_json import DETAILED
from sqlstream.errors import ExternalError, Retry, UserError

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
"""How long a call may take, a result stream apart."""

CONNECTIONS_MAX = 200
"""Sockets of one client; each result that is being read holds one."""

_CONNECT_ATTEMPTS_AGAIN = 2
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
        headers["authorization"] = f"Bearer {address.token}"
    timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    # Proxies of the environment are for other hosts than one's own server; the token must not reach them.
    return {"base_url": address.url, "headers": headers, "timeout": timeout, "trust_env": False}


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
def naming_url(url: str, client: httpx.Client | None = None) -> Iterator[None]:
    """Raise what goes wrong on the way as an ExternalError that names the URL. UserError SS4042 when `client` is closed."""
    if client is not None and client.is_closed:
        raise closed_error()
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
    """Sends requests to one server, with its token. Thread-safe. State: open sockets, until `close`."""

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(**_transport_options(address)), **_client_options(address)
        )

    def call(self, method: str, path: str, body: Any = None, **parameters: str) -> Any:
        """One request and the JSON of its answer, None for an empty one. SqlStreamError for any answer but success;
        ExternalError when there is none."""
        with naming_url(self.url, self._client):
            response = self._client.request(method, path, json=body, params=parameters or None)
        return _answer(response, self.url)

    @contextlib.contextmanager
    def stream(self, path: str, **parameters: str) -> Iterator[httpx.Response]:
        """An answer whose body is read piece by piece, and may take for ever. Errors as for `call`."""
        timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
        with (
            naming_url(self.url, self._client),
            self._client.stream("GET", path, params=parameters, timeout=timeout) as response,
        ):
            if not response.is_success:
                response.read()
                _answer(response, self.url)
            yield response

    def close(self) -> None:
        self._client.close()


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
