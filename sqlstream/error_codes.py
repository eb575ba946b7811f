"""What each error code means: who can mend it, what restarts and retries go by, and what to do about it.

error_codes.txt has them, and docs/errors.md is made from it. It is read when an error is made that leaves its hint, its reason
or its retry to its code, and when somebody asks.
"""

from __future__ import annotations

import enum
import functools
import os
from typing import NamedTuple


class Retry(enum.Enum):
    NOW = "NOW"
    BACKOFF = "BACKOFF"
    NEVER = "NEVER"


class FailureReason(enum.Enum):
    """Why a task or a job failed. Whether a job is restarted depends on this, and on the attempts and the rate of failures that
    its restart strategy allows."""

    OPERATOR_FAILED = "OPERATOR_FAILED"
    USER_DATA = "USER_DATA"
    EXTERNAL = "EXTERNAL"
    ACCESS_REFUSED = "ACCESS_REFUSED"
    """What we talk to lets this user not in, or not do this: only the user can mend it."""
    SERVER_REFUSED = "SERVER_REFUSED"
    """The settings of the server do not allow it, or what it needs is not installed there: only who starts the server can mend
    it."""
    TASK_MANAGER_LOST = "TASK_MANAGER_LOST"
    PARTITION_LOST = "PARTITION_LOST"
    DEPLOYMENT_FAILED = "DEPLOYMENT_FAILED"
    NO_RESOURCES = "NO_RESOURCES"
    CANCELLED = "CANCELLED"
    CHECKPOINT_CORRUPT = "CHECKPOINT_CORRUPT"
    CHECKPOINT_FAILED = "CHECKPOINT_FAILED"
    INTERNAL = "INTERNAL"


class Family(enum.Enum):
    """Who can mend an error, and so which class it has."""

    USER = "UserError"
    OUTSIDE = "ExternalError"
    JOB = "JobError"
    BUG = "InternalError"


class ErrorCode(NamedTuple):
    """`reason` is that of a failed job, None where it differs from one error to the next. `hint` is that of every error of the
    code, or with `has_default_hint` of those without one of their own; empty where each has its own."""

    code: str
    families: tuple[Family, ...]
    meaning: str
    remedy: str
    reason: FailureReason | None = None
    retry: Retry = Retry.NEVER
    hint: str = ""
    has_default_hint: bool = False


_REASONS = {
    Family.USER: FailureReason.USER_DATA,
    Family.OUTSIDE: FailureReason.EXTERNAL,
    Family.JOB: None,
    Family.BUG: FailureReason.INTERNAL,
}


@functools.cache
def error_code(code: str) -> ErrorCode | None:
    """What the table says of a code; None for one that it does not have, as that of another package.

    >>> error_code("") is None
    True
    """
    if not code.startswith("SS"):
        return None
    _, found, rest = _table().partition(f"\n{code} ")
    return parse_code([code, *rest.partition("\n")[0].split()], *rest.split("\n", 3)[1:3]) if found else None


def reason_of(code: str) -> FailureReason:
    """The reason of a failure with this code; INTERNAL where the table fixes none."""
    found = error_code(code)
    return (found and found.reason) or FailureReason.INTERNAL


def hint_of(code: str) -> str:
    """The hint of an error of this code that has none of its own; empty where each has its own."""
    found = error_code(code)
    return found.hint if found else ""


def retry_of(code: str) -> Retry:
    found = error_code(code)
    return found.retry if found else Retry.NEVER


@functools.cache
def _table() -> str:
    with open(f"{os.path.splitext(__file__)[0]}.txt", encoding="utf-8") as file:
        return file.read()


def sections() -> dict[str, list[ErrorCode]]:
    """All codes by the titles of the table."""
    found: dict[str, list[ErrorCode]] = {}
    for line in _table().splitlines():
        if line.startswith("= "):
            codes = found.setdefault(line[2:], [])
        elif line.startswith("SS") and (code := error_code(line.partition(" ")[0])):
            codes.append(code)
    return found


def parse_code(words: list[str], meaning: str, remedy: str) -> ErrorCode:
    code, *said = words
    if strange := {*said} - {*Family.__members__, *FailureReason.__members__, *Retry.__members__}:
        raise ValueError(
            f"error_codes.txt says {', '.join(sorted(strange))} of {code}, which is no word of the table"
        )
    meaning, remedy = meaning.strip(), remedy.strip()
    families = tuple(Family[word] for word in said if word in Family.__members__)
    reasons = [FailureReason[word] for word in said if word in FailureReason.__members__]
    retries = [Retry[word] for word in said if word in Retry.__members__]
    reason = reasons[0] if reasons else _REASONS[families[-1]]
    retry = retries[0] if retries else Retry.NEVER
    written, _, hint = remedy.partition("hint: ")
    if written not in ("", "default "):
        hint = ""
    return ErrorCode(
        code, families, meaning, _sentence(hint) or remedy, reason, retry, hint, bool(hint and written)
    )


def _sentence(hint: str) -> str:
    """
    >>> _sentence("give a PEM file"), _sentence("io.tmp.dirs names another")
    ('Give a PEM file.', 'io.tmp.dirs names another.')
    """
    first = hint.partition(" ")[0]
    return (
        f"{first.capitalize() if first.isalpha() and first.islower() else first}{hint[len(first) :]}."
        if hint
        else ""
    )


_WHO = {
    Family.USER: "you",
    Family.OUTSIDE: "outside",
    Family.JOB: "job",
    Family.BUG: "sqlstream",
}
_HEAD = """\
# Errors

What each error code means and what to do about it. `sqlstream explain-error SS2003` prints the same, and so does
`HELP SS2003` in the shell. The message of an error names what it is about, and its hint the next step.

Who can mend it: *you*, by another statement, setting or row; something *outside*, such as a disk, a database or a
server; the *job*, whose restart strategy decides whether it is started again; or *sqlstream* itself.
"""


def errors_page() -> str:
    """docs/errors.md, as markdown."""
    parts = [_HEAD]
    for title, codes in sections().items():
        rows = [f"| {c.code} | {_cell(c.meaning)} | {_cell(c.remedy)} | {mended_by(c)} |\n" for c in codes]
        parts.append(
            f"## {title}\n\n| code | what it means | what to do | who |\n| --- | --- | --- | --- |\n{''.join(rows)}"
        )
    return "\n".join(parts)


def mended_by(code: ErrorCode) -> str:
    """Who can mend it: "you or outside"."""
    return " or ".join(_WHO[family] for family in code.families)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("*/", "\\*/")


def explanation(code: ErrorCode) -> str:
    """What the code means, for a terminal.

    >>> print(explanation(error_code("SS5040")))
    SS5040: The server cannot be reached.
    what to do: Check the address, and that the server runs: sqlstream status.
    who can mend it: outside; it is tried again after a while
    all codes: docs/errors.md
    """
    again = {
        Retry.NOW: "; it is tried again at once",
        Retry.BACKOFF: "; it is tried again after a while",
        Retry.NEVER: "",
    }
    who = f"{mended_by(code)}{again[code.retry]}"
    return f"{code.code}: {code.meaning}\nwhat to do: {code.remedy}\nwho can mend it: {who}\nall codes: docs/errors.md"
