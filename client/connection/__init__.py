"""Connections: one interface for the shell, the command line and Python, to a session here or behind HTTP."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from sqlstream.client.connection.interface import Connection, StatementResult
from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind

__all__ = ["Connection", "ResultFacts", "ResultKind", "StatementResult", "connect"]


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


def _warn_of_network(settings: Mapping[str, str]) -> None:
    """A Python warning for settings of the network that have no effect."""
    from sqlstream.options.network_options import network_note

    if note := network_note(settings):
        warnings.warn(note, stacklevel=3)


def _check_settings(settings: Mapping[str, str]) -> None:
    """Refuse what SET would refuse: a server keeps what it does not know, since Flink's clients send all they have."""
    from sqlstream import config as options

    for key, value in settings.items():
        options.settle(key, value)
