"""Connection URLs: `embedded://`, or the address of a server."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from sqlstream.errors import UserError, did_you_mean

EMBEDDED = "embedded"
DEFAULT_PORT = 8083
SCHEMES = (EMBEDDED, "http", "https")
TOKEN_FILE_BYTES_MAX = 4096
_OWN_PARAMETERS = ("token", "token_file", "ca_file", "certificate_file")
_EXAMPLE = 'write "embedded://" or a URL such as "http://localhost:8083"'


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a connection leads. `url` is scheme, host, port and path of a server (empty for `embedded://`) without anything
    secret, and `others` are those of the servers that may lead in its place; `ca_file` holds the certificates to trust beside the
    system's, and `certificate_file` what the client shows, with its key; `config` are settings of the session."""

    url: str
    token: str = dataclasses.field(default="", repr=False)
    ca_file: str = ""
    config: Mapping[str, str] = dataclasses.field(default_factory=dict)
    others: tuple[str, ...] = ()
    certificate_file: str = dataclasses.field(default="", repr=False)

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url, *self.others)

    @property
    def is_embedded(self) -> bool:
        return not self.url


def parse_address(text: str, token: str = "") -> Address:
    """Read a connection URL, which may name several hosts with commas between them. UserError SS4040 for any other text.

    Parameters of the URL are settings of the session, but for `token`, `token_file` (a file whose first line is the token),
    `ca_file` and `certificate_file`.

    >>> parse_address("http://localhost?parallelism.default=2")
    Address(url='http://localhost:8083', ca_file='', config={'parallelism.default': '2'}, others=())
    >>> parse_address("http://head1,head2:9000").urls
    ('http://head1:8083', 'http://head2:9000')
    >>> parse_address("embedded://").is_embedded
    True
    """
    texts = _texts_of_hosts(text)
    parts = [_parts_of(one, text) for one in texts]
    first = parts[0]
    config = dict(parse_qsl(first.query, keep_blank_values=True))
    own = {name: config.pop(name, "") for name in _OWN_PARAMETERS}
    if first.scheme == EMBEDDED:
        if first.netloc or first.path.strip("/"):
            raise UserError(
                "SS4040", f'"{_shown(text)}" names a place, but an embedded cluster has none', hint=_EXAMPLE
            )
        return Address("", config=config)
    url, *others = dict.fromkeys(_url_of(found, text) for found in parts)
    found = token or own["token"] or (read_token(own["token_file"]) if own["token_file"] else "")
    return Address(url, found, own["ca_file"], config, tuple(others), own["certificate_file"])


def _texts_of_hosts(text: str) -> list[str]:
    """The URL once for each of its hosts. UserError SS4040 for hosts of another scheme than the first: what stands before their
    colon would be taken for a host, and get the token."""
    scheme, separator, rest = text.partition("://")
    rest = re.sub(rf",\s*{re.escape(scheme)}://", ",", rest, flags=re.IGNORECASE)
    ends = [place for mark in "/?#" if (place := rest.find(mark)) >= 0]
    hosts, tail = rest[: min(ends, default=len(rest))], rest[min(ends, default=len(rest)) :]
    if not separator or "," not in hosts:
        return [text]
    if "://" in re.split("[?#]", rest)[0]:
        hint = "write the scheme once: http://HOST1:PORT,HOST2:PORT"
        raise UserError("SS4040", f'the hosts of "{_shown(text)}" have different schemes', hint=hint)
    return [f"{scheme}://{host.strip()}{tail}" for host in hosts.split(",")]


def _parts_of(text: str, whole: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise UserError("SS4040", f'"{_shown(whole)}" is no URL: {error}', hint=_EXAMPLE) from None
    if parts.scheme not in SCHEMES:
        hint = did_you_mean(parts.scheme, SCHEMES) or _EXAMPLE
        raise UserError("SS4040", f'"{_shown(whole)}" names no way to connect', hint=hint)
    return parts


def _url_of(parts: SplitResult, whole: str) -> str:
    """Scheme, host, port and path of a server."""
    if not parts.hostname:
        raise UserError("SS4040", f'"{_shown(whole)}" names no host', hint=_EXAMPLE)
    if parts.username or parts.password:
        raise UserError(
            "SS4040", "a URL with a user or password is not accepted", hint="give a token: ?token=…"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORT}{parts.path.rstrip('/')}"


def read_token(path: str) -> str:
    """The first line of a token file. UserError SS4041 when it cannot be read or holds none."""
    try:
        with open(Path(path).expanduser(), encoding="utf-8") as file:
            token = file.readline(TOKEN_FILE_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            "SS4041",
            f'cannot read the token in "{os.fspath(path)}": {reason.lower()}',
            hint="give the path of the file that the server wrote at its first start",
        ) from error
    if not token or not token.isprintable() or not token.isascii():
        raise UserError("SS4041", f'"{path}" holds no token', hint="its first line is the token")
    return token


def _shown(text: str) -> str:
    """The URL without its parameters, which may hold a token, and without a password."""
    head = text.partition("?")[0]
    scheme, separator, rest = head.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
