"""The address of a database server: the keywords that a table may give for one."""

from __future__ import annotations

import re

from sqlstream.errors import UserError

_KEYWORDS = {
    "postgres": (
        "host", "hostaddr", "port", "dbname", "user", "connect_timeout", "application_name", "sslmode",
        "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
    ),
    "mysql": ("host", "port", "database", "db", "user", "ssl_mode", "compression"),
}  # fmt: skip
"""By kind of server. None of these holds a secret or makes the client read a file, as `passfile`, `sslkey` and `service` do."""

_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'(?:[^'\\]|\\.)*'|[^\s'\\]+)(?=\s|$)")


def connection_value(value: str) -> str:
    """The value of a keyword, quoted."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_address(kind: str, address: str, option: str = "path") -> None:
    """UserError SS4002 for anything but these keywords with values. The message does not show the values."""
    at, end = 0, len(address.rstrip())
    while at < end:
        pair = _PAIR.match(address, at)
        if pair is None:
            raise UserError(
                "SS4002",
                f'option "{option}" is no address of a {kind} server',
                hint="write keywords with values, as in 'host=localhost port=5432', and no URL",
            )
        keyword = pair[1].lower()
        if keyword in ("password", "passwd"):
            raise UserError(
                "SS4002",
                f'option "{option}" contains a password',
                hint="put it into the option 'password', whose value is never shown",
            )
        if pair[1] not in _KEYWORDS[kind]:
            raise UserError(
                "SS4002",
                f'option "{option}" contains "{pair[1]}", which an address of a {kind} server may not have',
                hint=f"use {', '.join(_KEYWORDS[kind])}",
            )
        at = pair.end()
