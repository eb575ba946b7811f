"""The sockets that a server listens on."""

from __future__ import annotations

import contextlib
import errno
import socket

from sqlstream.client.server.server_config import Endpoint
from sqlstream.errors import UserError

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
        hint="stop what listens there, or give another port: sqlstream server --port PORT",
    )
