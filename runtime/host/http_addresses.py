"""Addresses of servers in the options of tables, and the certificates by which these are known."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.errors import ExternalError, Retry, UserError, reason_of_error
from sqlstream.graph.artifacts import ARTIFACT
from sqlstream.python_functions import cached_file
from sqlstream.secrets import masked
from sqlstream.spi.files import Files

if TYPE_CHECKING:
    import ssl

_NO_HEADER = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Certificates:
    """Paths of files, or ARTIFACT with the name of one that goes with the job: authorities besides the system's, and a
    certificate of our own with its key."""

    authorities: str | None = None
    client: str | None = None
    key: str | None = None

    @property
    def has_files(self) -> bool:
        return self != Certificates()

    def context(self, files: Files) -> ssl.SSLContext:
        """ExternalError SS5342 for files that hold no certificates."""
        import ssl

        made = ssl.create_default_context()
        if not made.get_ca_certs():
            # A machine without certificates of its own.
            import httpcore

            made = httpcore.default_ssl_context()
        try:
            for path in (self.authorities or "").split(","):
                if path.strip():
                    made.load_verify_locations(_on_this_host(path.strip(), files))
            if self.client is not None:
                key = _on_this_host(self.key, files) if self.key is not None else None
                made.load_cert_chain(_on_this_host(self.client, files), key)
        except (OSError, ssl.SSLError) as error:
            raise ExternalError(
                "SS5342",
                f"could not read the certificates of an HTTP table: {reason_of_error(error)}",
                retry=Retry.NEVER,
            ) from error
        return made


def _on_this_host(path: str, files: Files) -> str:
    """Where a library opens the file: one that goes with the job is where this host keeps it. FileNotFoundError for a name that
    the job has no file of."""
    return cached_file(path.removeprefix(ARTIFACT)) if path.startswith(ARTIFACT) else files.handed_on(path)


def shown_url(url: str) -> str:
    """For messages: without what may be secret in it.

    >>> shown_url("https://ann:secret@example.org/a?token=abc")
    'https://example.org/a?…'
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}{'?…' if parts.query else ''}"


_SCHEMES = ("http", "https")


def is_address(url: str, schemes: tuple[str, ...] = _SCHEMES) -> bool:
    """Whether a text is the whole address of a server, in letters that a request can have."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_whole = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_whole and url.isascii() and url.isprintable() and " " not in url


def check_url(url: str, schemes: tuple[str, ...] = _SCHEMES) -> None:
    """UserError SS4002 for a text that is no address of a server."""
    if not is_address(url, schemes) or "#" in url:
        raise UserError(
            "SS4002",
            f'option "url" is no address of a server: "{masked("url", url)}"',
            option="url",
            hint=f"write such as '{schemes[-1]}://example.org/orders'",
        )
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise UserError(
            "SS4002",
            'option "url" holds a user or password',
            option="url",
            hint="write them as a header: 'http.….header.Authorization' = 'user:password'",
        )


# What a server chose, and a request to it, or to another one, has in it.


def led_to(url: str, target: str) -> str:
    """The address that the server of `url` names, as it stands in a header or a body. UserError SS5344 for one that cannot be
    called, or is not as safe."""
    try:
        found = urllib.parse.urljoin(url, target)
    except ValueError:
        found = ""
    if not is_address(found):
        raise UserError("SS5344", f'"{shown_url(url)}" leads to what is no address of HTTP')
    if url.startswith("https:") and not found.startswith("https:"):
        raise UserError("SS5344", f'"{shown_url(url)}" leads to "{shown_url(found)}", which is not as safe')
    return found


def is_same_server(url: str, other: str) -> bool:
    """Whether headers of a table, which may be secrets, may go to both."""
    return _origin(url) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def header_value(chosen: bytes, url: str) -> bytes:
    """What a server wants to be told again, as the value of a header. UserError SS5344 for what none can have."""
    value = chosen.strip(b" \t")
    if _NO_HEADER.search(value):
        raise UserError("SS5344", f'"{shown_url(url)}" gives a tag or id that no header can have')
    return value


def with_parameters(url: str, parameters: dict[str, str]) -> str:
    """An address whose parameters have these values, in place of others of the name.

    >>> with_parameters("https://a/b?x=1&since=2", {"since": "3 4"})
    'https://a/b?x=1&since=3%204'
    """
    parts = urllib.parse.urlsplit(url)
    kept = [
        p for p in parts.query.split("&") if p and urllib.parse.unquote(p.partition("=")[0]) not in parameters
    ]
    added = [f"{urllib.parse.quote(k, '')}={urllib.parse.quote(v, '')}" for k, v in parameters.items()]
    return urllib.parse.urlunsplit(parts._replace(query="&".join([*kept, *added]), fragment=""))
