"""Users of an LDAP directory: their password is tried with a bind, and their groups are looked up."""

from __future__ import annotations

import contextlib
import dataclasses
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from sqlstream.client.server.directories.known_users import Login, NotKnown, Unavailable
from sqlstream.errors import UserError

TIMEOUT_S = 5
GROUPS_MAX = 1000
_USER_CHARACTERS_MAX = 128
_PASSWORD_BYTES_MAX = 1024


@dataclasses.dataclass(frozen=True)
class Directory:
    """`url` is ldaps://HOST, or ldap://HOST, which goes on with StartTLS unless `start_tls` is false, on loopback alone. Who fits
    `user_filter` is found in `users`, as `bind_dn` if that is set; what fits `group_filter` in `groups`, whose `group_attribute`
    is the group's name. {user} and {dn} stand in filters for the name and for the entry that was found."""

    url: str
    users: str
    user_filter: str
    groups: str
    group_filter: str
    group_attribute: str
    bind_dn: str = ""
    bind_password: str = dataclasses.field(default="", repr=False)
    ca_file: str = ""
    start_tls: bool = True

    def __post_init__(self) -> None:
        """UserError SS4002 for a directory that would be told passwords in clear, and for filters without a place."""
        place = urlsplit(self.url)
        if place.scheme not in ("ldap", "ldaps") or not place.hostname:
            raise UserError(
                "SS4002", f'"{self.url}" is no LDAP directory', hint="write ldaps://HOST or ldap://HOST"
            )
        is_loopback = place.hostname in ("localhost", "127.0.0.1", "::1")
        if place.scheme == "ldap" and not self.start_tls and not is_loopback:
            raise UserError(
                "SS4002", f"passwords would go to {self.url} in clear", hint="use ldaps:// or StartTLS"
            )
        for text, mark in ((self.user_filter, "{user}"), (self.group_filter, "{dn}")):
            if mark not in text and (text is self.user_filter or self.groups):
                raise UserError(
                    "SS4002", f'the filter "{text}" has no {mark}', hint=f"write {mark} where it belongs"
                )


class LdapUsers:
    """Implements `KnownUsers` for names with passwords. Thread-safe; no state: each login has connections of its own."""

    def __init__(self, directory: Directory) -> None:
        """UserError SS6150 when the package ldap3 is not installed."""
        try:
            import ldap3  # noqa: F401
        except ImportError as error:
            raise UserError(
                "SS6150",
                "users of an LDAP directory need the package ldap3",
                hint="install it: pip install 'sqlstream[users]'",
            ) from error
        self._directory = directory

    def login(self, user: str, password: str) -> Login:
        """NotKnown for a user that is not there once, or another password; Unavailable when the directory cannot be asked."""
        from ldap3.core.exceptions import LDAPException
        from ldap3.utils.conv import escape_filter_chars

        # A bind without a password succeeds everywhere: it is an anonymous one.
        if not password or not user or "\0" in password or len(password.encode()) > _PASSWORD_BYTES_MAX:
            raise NotKnown("no password")
        if len(user) > _USER_CHARACTERS_MAX or not user.isprintable():
            raise NotKnown("no name of a user")
        d = self._directory
        try:
            with self._connected(d.bind_dn, d.bind_password) as reader:
                if reader is None:
                    raise Unavailable("the directory refuses bind-dn and bind-password")
                wanted = d.user_filter.replace("{user}", escape_filter_chars(user))
                entries = _found(reader, d.users, wanted, [], 2)
                if len(entries) != 1:
                    raise NotKnown("no such user" if not entries else "several users of this name")
                dn = str(entries[0]["dn"])
                with self._connected(dn, password) as own:
                    if own is None:
                        raise NotKnown("another password")
                return Login(f"ldap:{user}", self._groups(reader, dn, escape_filter_chars(dn)))
        except LDAPException as error:
            raise Unavailable(f"the directory cannot be asked: {type(error).__name__}") from error

    def _groups(self, reader: Any, dn: str, escaped: str) -> tuple[str, ...]:
        d = self._directory
        if not d.groups:
            return ()
        found = _found(
            reader, d.groups, d.group_filter.replace("{dn}", escaped), [d.group_attribute], GROUPS_MAX
        )
        return tuple(str(name) for entry in found for name in entry["attributes"].get(d.group_attribute, ()))

    @contextlib.contextmanager
    def _connected(self, dn: str, password: str) -> Iterator[Any]:
        """A connection that is bound, encrypted before anything is told; None when the directory does not take the password."""
        import ldap3

        d = self._directory
        tls = ldap3.Tls(
            validate=ssl.CERT_REQUIRED, ca_certs_file=d.ca_file or None, version=ssl.PROTOCOL_TLS_CLIENT
        )
        server = ldap3.Server(d.url, tls=tls, connect_timeout=TIMEOUT_S, get_info=ldap3.NONE)
        how = {"user": dn, "password": password} if dn else {}
        connection = ldap3.Connection(
            server, auto_bind=ldap3.AUTO_BIND_NONE, receive_timeout=TIMEOUT_S, auto_referrals=False, **how
        )
        try:
            connection.open()
            if d.url.startswith("ldap://") and d.start_tls:
                connection.start_tls(read_server_info=False)
            yield connection if connection.bind() else None
        finally:
            connection.unbind()


def _found(reader: Any, base: str, text: str, attributes: list[str], count: int) -> list[Any]:
    reader.search(base, text, attributes=attributes or None, size_limit=count, time_limit=TIMEOUT_S)
    return [entry for entry in reader.response or () if entry.get("type") == "searchResEntry"]
