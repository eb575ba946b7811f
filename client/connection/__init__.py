"""Connections: one interface for the shell, the command line and Python, to a session here or behind HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from client.connection.interface import Connection, ResultKind, StatementResult

__all__ = ["Connection", "ResultKind", "StatementResult", "connect"]


def connect(url: str, *, token: str = "", config: Mapping[str, str] | None = None) -> Connection:
    """Open a session: on a cluster in this process (`embedded://`), or on the server at `http://host:8083`.

    `config` are settings of the session, in addition to those in the URL's parameters. UserError for a wrong URL or setting;
    ExternalError SS5030 when the server does not answer.
    """
    from client.connection.address import parse_address

    address = parse_address(url, token)
    settings = {**address.config, **(config or {})}
    if address.is_embedded:
        from client.connection.embedded import embedded_connection

        return embedded_connection(settings)
    from client.connection.http import HttpConnection

    return HttpConnection(address, settings)
