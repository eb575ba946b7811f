"""Who asks the server, and what each role may do."""

from __future__ import annotations

import dataclasses
import enum
import re

from sqlstream.effects import Effects, Permit, Right
from sqlstream.errors import UserError


class Role(enum.Enum):
    """READ_ONLY looks at everything and reads tables. OPERATOR runs all statements and ends jobs, but neither makes nor drops
    catalogs. ADMIN does that too, and stops the server."""

    READ_ONLY = "read-only"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def level(self) -> int:
        """A role of a higher level may do all that those below may."""
        return list(Role).index(self)

    @property
    def permit(self) -> Permit:
        return Permit(f"the role {self.value}", _RIGHTS[self])


def of_level(level: int) -> Role:
    return list(Role)[level]


_RIGHTS = {
    Role.READ_ONLY: frozenset({Right.READ}),
    Role.OPERATOR: frozenset(Right) - {Right.CATALOGS, Right.SERVER},
    Role.ADMIN: frozenset(Right),
}


@dataclasses.dataclass(frozen=True)
class Principal:
    """Who asks. `name` is that of the token, or begins with who vouches for the user: oidc:, ldap: or cert:."""

    name: str
    role: Role


LOCAL = Principal("local", Role.ADMIN)
"""Whoever reaches a server that requires no token: a user of this machine."""

PAGE_READER = Principal("page", Role.READ_ONLY)
"""Whoever loads the console's files, which say nothing of this server, to give the token there."""

_VERSION = re.compile(r"^/v\d+(?=/)")
_OF_SESSION = re.compile(r"/sessions(?:/([^/]*).*)?")
_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CANCELLING_GETS = ("/yarn-cancel", "/yarn-stop")
"""What Flink's clients send with GET although it ends a job."""


def request_effects(method: str, path: str) -> Effects:
    """What a request does by itself. The statements that it brings have effects of their own, which their session requires.

    >>> request_effects("GET", "/jobs/overview") == Effects(), request_effects("PATCH", "/v1/jobs/1").jobs
    (True, frozenset({'/jobs/1'}))
    """
    bare = _VERSION.sub("", path)
    if (bare, method) in (("/cluster", "DELETE"), ("/log-levels", "PUT")):
        return Effects(changes_server=True)
    if bare.rstrip("/").endswith(_CANCELLING_GETS):
        return Effects(jobs=frozenset({bare}))
    if method in _READING_METHODS:
        return Effects()
    # A session is open to whoever knows its handle and has the role that opened it, or a higher one (Security).
    if _OF_SESSION.fullmatch(bare) is not None or bare == "/console/complete-statement":
        return Effects()
    if bare.startswith("/artifacts/"):
        return Effects(files=frozenset({bare}))
    # Every other request is about a job, or about what jobs have saved.
    return Effects(jobs=frozenset({bare}))


def session_of(path: str) -> str:
    """The handle of the session that a request is about; empty when it is about none.

    >>> session_of("/v4/sessions/AB/statements"), session_of("/jobs/1")
    ('ab', '')
    """
    found = _OF_SESSION.fullmatch(_VERSION.sub("", path))
    return (found[1] or "").lower() if found is not None else ""


def parse_role(text: str) -> Role:
    """UserError SS4002 for what is no role."""
    try:
        return Role(text.strip().lower())
    except ValueError as error:
        raise UserError(
            "SS4002", f'there is no role "{text}"', hint=f"choose one of {', '.join(r.value for r in Role)}"
        ) from error
