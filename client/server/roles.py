"""Who asks the server, and what each role may do."""

from __future__ import annotations

import dataclasses
import enum
import re

from sqlstream.errors import SqlStreamError, UserError


class Role(enum.Enum):
    """READ_ONLY looks at everything and runs statements that only read. OPERATOR runs all statements and ends jobs, but neither
    makes nor drops catalogs. ADMIN does that too, and stops the server."""

    READ_ONLY = "read-only"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def level(self) -> int:
        """A role of a higher level may do all that those below may."""
        return list(Role).index(self)


@dataclasses.dataclass(frozen=True)
class Principal:
    """Who asks. `name` is that of the token."""

    name: str
    role: Role


LOCAL = Principal("local", Role.ADMIN)
"""Whoever reaches a server that requires no token: a user of this machine."""

PAGE_READER = Principal("page", Role.READ_ONLY)
"""Whoever loads the console's files, which say nothing of this server, to give the token there."""

_VERSION = re.compile(r"^/v\d+(?=/)")
_OF_SESSION = re.compile(r"/sessions(?:/([^/]*).*)?")
_READING_STATEMENTS = frozenset(
    {
        *("Query", "Explain", "Show", "Describe", "DescribeNamespace", "DescribeExtension", "DescribeJob"),
        *("ShowCheckpoints", "Use", "SetOption", "ResetOption", "Verify", "VerifyJob"),
    }
)
"""Names of the statements (planner.dialect.statements) that change nothing but their session. One that is not named here is
refused."""

_CATALOG_STATEMENTS = frozenset({"CreateCatalog", "AlterCatalog", "DropCatalog"})


def may_request(role: Role, method: str, path: str) -> bool:
    """Whether a role may make a request at all. Statements are judged one by one, by `refused_statement`.

    >>> may_request(Role.READ_ONLY, "GET", "/jobs/overview"), may_request(Role.READ_ONLY, "PATCH", "/jobs/1")
    (True, False)
    """
    bare = _VERSION.sub("", path)
    if bare == "/cluster" and method == "DELETE":
        return role is Role.ADMIN
    if role is not Role.READ_ONLY or method in ("GET", "HEAD", "OPTIONS"):
        return True
    # A session is open to whoever knows its handle and has the role that opened it, or a higher one (Security).
    return _OF_SESSION.fullmatch(bare) is not None or bare == "/console/complete-statement"


def names_files(role: Role) -> bool:
    """Whether a role may name files by their path, in statements and in completion."""
    return role is not Role.READ_ONLY


def session_of(path: str) -> str:
    """The handle of the session that a request is about; empty when it is about none.

    >>> session_of("/v4/sessions/AB/statements"), session_of("/jobs/1")
    ('ab', '')
    """
    found = _OF_SESSION.fullmatch(_VERSION.sub("", path))
    return (found[1] or "").lower() if found is not None else ""


def refused_statement(role: Role, text: str) -> str:
    """Why a role may not run these statements; empty when it may. A text that cannot be parsed changes nothing."""
    if role is Role.ADMIN:
        return ""
    from planner.dialect.file_paths import reads_paths
    from planner.dialect.parser import parse_script
    from planner.dialect.statements import SetOption

    try:
        parsed = parse_script(text)
        names = [type(statement).__name__ for statement in parsed]
    except SqlStreamError:
        return ""
    if role is Role.OPERATOR:
        return (
            "making, altering and dropping catalogs needs the role admin"
            if _CATALOG_STATEMENTS & {*names}
            else ""
        )
    if not _READING_STATEMENTS.issuperset(names):
        return "the role read-only runs statements that only read"
    if "/*+" in text and not {"Query", "Explain", "Verify"}.isdisjoint(names):
        # A hint could point a table to another file.
        return "the role read-only gives no hints"
    if any(
        s.option is not None and s.option.key == "python.files" for s in parsed if isinstance(s, SetOption)
    ):
        return "the role read-only ships no Python files"
    if any(map(reads_paths, parsed)):
        return "the role read-only reads tables, and no files by their path"
    return ""


def parse_role(text: str) -> Role:
    """UserError SS4002 for what is no role."""
    try:
        return Role(text.strip().lower())
    except ValueError as error:
        raise UserError(
            "SS4002", f'there is no role "{text}"', hint=f"choose one of {', '.join(r.value for r in Role)}"
        ) from error
