"""Who is known beside the tokens of the server: their role follows from their groups, and who fails too often waits."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from sqlstream.client.server.roles import Principal, Role, parse_role
from sqlstream.errors import UserError

KEPT_MAX = 10_000
"""Logins that are remembered, and addresses whose failures are counted."""

WINDOW_S = 60.0


class NotKnown(Exception):
    """The text says why, for the audit log: who asks is told only that it does not count."""


class Unavailable(Exception):
    """Whoever knows users cannot be asked now."""


class TooOften(Exception):
    """Too many logins from this address have failed."""


@dataclasses.dataclass(frozen=True)
class Login:
    """`name` says who vouches for the user, and is none that a token can have. Not to be remembered after `until_s`."""

    name: str
    groups: tuple[str, ...]
    until_s: float = float("inf")


class ChecksTokens(Protocol):
    def login(self, token: str) -> Login: ...


class ChecksPasswords(Protocol):
    def login(self, user: str, password: str) -> Login: ...


@dataclasses.dataclass(frozen=True)
class Roles:
    """The role of each group, and of each name of a certificate. `kept_s`: how long a login is remembered."""

    groups: Mapping[str, Role]
    certificates: Mapping[str, Role]
    kept_s: float = 60.0
    failures_max: int = 20


class KnownUsers:
    """Logs in users of an issuer, a directory or with a certificate. Thread-safe.

    State: the last logins by a digest of what was shown, with a key of this process, and the failures of each address in the last
    minute; KEPT_MAX of each."""

    def __init__(
        self,
        roles: Roles,
        tokens: ChecksTokens | None,
        passwords: ChecksPasswords | None,
        now_s: Callable[[], float],
    ) -> None:
        self._roles = roles
        self._tokens = tokens
        self._passwords = passwords
        self._now_s = now_s
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._logins: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    @property
    def takes_passwords(self) -> bool:
        return self._passwords is not None

    def of_certificate(self, names: tuple[str, ...]) -> Principal | None:
        """The first name that has a role."""
        for name in names:
            role = self._roles.certificates.get(name)
            if role is not None:
                return Principal(f"cert:{name}", role)
        return None

    def remembered(self, scheme: str, shown: str) -> Principal | None:
        """Who has shown the same a short while ago."""
        with self._lock:
            found = self._logins.get(self._digest(scheme, shown))
        return found[0] if found is not None and found[1] > self._now_s() else None

    def log_in(self, scheme: str, shown: str, address: str) -> Principal:
        """Who shows this (`bearer` or `basic`) from an address; it may wait for an issuer or a directory. NotKnown, Unavailable,
        TooOften."""
        self._check_failures(address)
        try:
            login = self._asked(scheme, shown)
            role = max(
                (self._roles.groups[g] for g in login.groups if g in self._roles.groups),
                key=lambda role: role.level,
                default=None,
            )
            if role is None:
                raise NotKnown(f"{login.name} is in no group that has a role")
        except NotKnown:
            self._count_failure(address)
            raise
        principal = Principal(login.name, role)
        until_s = min(self._now_s() + self._roles.kept_s, login.until_s)
        with self._lock:
            self._logins[self._digest(scheme, shown)] = principal, until_s
            while len(self._logins) > KEPT_MAX:
                self._logins.popitem(last=False)
        return principal

    def _asked(self, scheme: str, shown: str) -> Login:
        if scheme == "bearer" and self._tokens is not None:
            return self._tokens.login(shown)
        if scheme == "basic" and self._passwords is not None:
            try:
                user, separator, password = base64.b64decode(shown, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError) as error:
                raise NotKnown("no name and password") from error
            if separator:
                return self._passwords.login(user, password)
        raise NotKnown("wrong token")

    def _digest(self, scheme: str, shown: str) -> bytes:
        return hmac.digest(self._key, f"{scheme} {shown}".encode("utf-8", "surrogatepass"), hashlib.sha256)

    def _check_failures(self, address: str) -> None:
        begun_s = self._now_s() - WINDOW_S
        with self._lock:
            recent = [at_s for at_s in self._failures.get(address, ()) if at_s > begun_s]
            if len(recent) >= self._roles.failures_max:
                raise TooOften

    def _count_failure(self, address: str) -> None:
        with self._lock:
            failures = self._failures.setdefault(address, [])
            failures.append(self._now_s())
            del failures[: -self._roles.failures_max]
            self._failures.move_to_end(address)
            while len(self._failures) > KEPT_MAX:
                self._failures.popitem(last=False)


def parse_roles(key: str, text: str) -> dict[str, Role]:
    """Names and roles, `group=role; group=role`. UserError SS4002.

    >>> parse_roles("k", "data eng=operator; CN=x=admin")
    {'data eng': <Role.OPERATOR: 'operator'>, 'CN=x': <Role.ADMIN: 'admin'>}
    """
    found = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, separator, role = part.rpartition("=")
        if not separator or not name.strip():
            raise UserError(
                "SS4002", f'option "{key}" has "{part}"', hint="write NAME=ROLE, with ; between several"
            )
        found[name.strip()] = parse_role(role)
    return found
