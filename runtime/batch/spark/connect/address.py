"""Where a Spark Connect server is, and what every call to it carries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from sqlstream.errors import UserError
from sqlstream.spark import MASTER, is_launch_key

REMOTE = "spark.remote"
TOKEN = "spark.connect.authenticate.token"
API_MODE = "spark.api.mode"
SCHEME = "sc://"

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Spark's own variable for the token, for servers and clients."""

PORT = 15002
"""That of a server which is not told another one."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
LAUNCH_KEYS = frozenset({REMOTE, MASTER, TOKEN, API_MODE})
"""Those that concern the connection; all others that Spark starts with are the server's."""


@dataclass(frozen=True)
class ConnectAddress:
    """A server. `parameters` are those of its URL that sqlstream does not read itself; PySpark and the server do."""

    host: str
    port: int
    is_encrypted: bool = False
    token: str = ""
    parameters: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As messages name it: without parameters, since they may be secret.

        >>> str(ConnectAddress("::1", 15002, token="abc"))
        'sc://[::1]:15002'
        """
        return f"{SCHEME}{self.place}"

    @property
    def place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK_NAMES


def is_connect(given: Mapping[str, str]) -> bool:
    """Whether settings of Spark name a Spark Connect server.

    >>> is_connect({"spark.master": "sc://host"}), is_connect({"spark.master": "local[2]"})
    (True, False)
    """
    return REMOTE in given or given.get(MASTER, "").startswith(SCHEME)


def connect_address(given: Mapping[str, str]) -> ConnectAddress | None:
    """The server that settings of Spark name, None when they name none.

    UserError SS4053 for an address that cannot be used, SS4058 for a setting that belongs to the server, SS4059 for an address
    that would send secrets in plain text to another host."""
    if not is_connect(given):
        return None
    master = given.get(MASTER, "")
    url = given.get(REMOTE, master)
    if master and master != url:
        raise UserError(
            "SS4053",
            f'options "{REMOTE}" and "{MASTER}" name two places for Spark',
            hint=f"RESET '{MASTER}', or RESET '{REMOTE}'",
        )
    _refuse_settings_of_the_server(given)
    return _parsed(url, given.get(TOKEN) or os.environ.get(TOKEN_VARIABLE, ""))


def _refuse_settings_of_the_server(given: Mapping[str, str]) -> None:
    for key in given:
        if is_launch_key(key) and key not in LAUNCH_KEYS:
            raise UserError(
                "SS4058",
                f'option "{key}" belongs to the Spark Connect server, and is in force from its start',
                hint=f"RESET '{key}', and give it where the server is started",
            )


def _parsed(url: str, token: str) -> ConnectAddress:
    """The address of `sc://host:port/;name=value;…`. `token` is for a URL without one."""
    place, _, rest = url.removeprefix(SCHEME).partition("/")
    pairs = [text.partition("=") for text in rest.removeprefix(";").split(";") if text]
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    is_well_formed = (
        url.startswith(SCHEME) and rest[:1] in ("", ";") and all(n and sep for n, sep, _ in pairs)
    )
    if not host or "@" in place or not is_well_formed:
        raise _wrong("it is no address of a Spark Connect server")
    named = {name: unquote(value) for name, _, value in pairs}
    if "session_id" in named:
        raise _wrong("sessions belong to sqlstream, so the address may not name one")
    encryption = named.pop("use_ssl", "").lower()
    if encryption not in ("", "true", "false"):
        raise _wrong('"use_ssl" must be true or false')
    token = named.pop("token", "") or token
    address = ConnectAddress(host, port or PORT, encryption == "true", token, tuple(named.items()))
    _refuse_plain_text(address, is_asked_for=encryption == "false")
    return address


def _wrong(reason: str) -> UserError:
    # The address itself may hold a token.
    return UserError(
        "SS4053",
        f'option "{REMOTE}" cannot be obeyed: {reason}',
        hint=f"SET '{REMOTE}' = 'sc://HOST:{PORT}' or 'sc://HOST:{PORT}/;use_ssl=true;token=TOKEN'",
    )


def _refuse_plain_text(address: ConnectAddress, is_asked_for: bool) -> None:
    """What goes to the server holds rows, and the passwords of tables."""
    if address.is_encrypted or address.is_loopback:
        return
    if address.token:
        raise UserError(
            "SS4059",
            f'the token for "{address}" would leave this machine without encryption',
            hint="add ;use_ssl=true to the address",
        )
    if not is_asked_for:
        raise UserError(
            "SS4059",
            f'rows, and passwords of tables, would go to "{address}" without encryption',
            hint="add ;use_ssl=true to the address, or ;use_ssl=false when the network between keeps strangers out",
        )
