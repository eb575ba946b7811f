"""Connections: one interface for the shell, the command line and Python, to a session here or behind HTTP."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from sqlstream.client.connection.async_interface import AsyncSessionConnection, AsyncStatementResult
from sqlstream.client.connection.interface import Connection, ResultKind, StatementResult

__all__ = [
    "AsyncSessionConnection",
    "AsyncStatementResult",
    "Connection",
    "ResultKind",
    "StatementResult",
    "connect",
    "connect_async",
]


def connect(url: str, *, token: str = "", config: Mapping[str, str] | None = None) -> Connection:
    """Open a session: on a cluster in this process (`embedded://`), or on the server at `http://host:8083`.

    `config` are settings of the session, in addition to those in the URL's parameters. UserError for a wrong URL or setting;
    ExternalError SS5040 when the server does not answer.
    """
    from sqlstream.client.connection.address import parse_address

    address = parse_address(url, token)
    settings = {**address.config, **(config or {})}
    if address.is_embedded:
        from sqlstream.client.connection.embedded import embedded_connection

        _warn_of_network(settings)
        return embedded_connection(settings)
    from sqlstream.client.connection.http_connection import HttpConnection

    _check_settings(settings)
    return HttpConnection(address, settings)


async def connect_async(
    url: str, *, token: str = "", config: Mapping[str, str] | None = None
) -> AsyncSessionConnection:
    """`connect`, awaited."""
    from sqlstream.client.connection.address import parse_address

    address = parse_address(url, token)
    settings = {**address.config, **(config or {})}
    if address.is_embedded:
        from sqlstream.client.connection.embedded import embedded_connection
        from sqlstream.client.connection.threaded import ThreadedConnection

        _warn_of_network(settings)
        return await ThreadedConnection.open(lambda: embedded_connection(settings))
    from sqlstream.client.connection.async_http import AsyncHttpConnection

    _check_settings(settings)
    return await AsyncHttpConnection.open(address, settings)


def _warn_of_network(settings: Mapping[str, str]) -> None:
    """A Python warning for settings of the network that have no effect."""
    from sqlstream.network_options import network_note

    if note := network_note(settings):
        warnings.warn(note.removeprefix("note: "), stacklevel=3)


def _check_settings(settings: Mapping[str, str]) -> None:
    """Refuse what SET would refuse: a server keeps what it does not know, since Flink's clients send all they have."""
    from sqlstream import config as options

    for key, value in settings.items():
        options.settle(key, value)
