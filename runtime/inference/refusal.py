"""The two errors of inference."""

from __future__ import annotations

from sqlstream.errors import UserError

DECLARE = "declare the table with CREATE TABLE and its columns"


def cannot_infer(path: str, reason: str, hint: str = DECLARE, detail: str = "") -> UserError:
    return UserError("SS5024", f'no table can be inferred from "{path}": {reason}', hint=hint, detail=detail)


def do_not_fit(first: str, other: str, reason: str, detail: str = "") -> UserError:
    """Two files of which no one table can be made."""
    return UserError(
        "SS5025",
        f'"{other}" does not fit to "{first}": {reason}',
        detail=detail,
        hint="name files of one kind with a pattern, or declare the table with CREATE TABLE and its columns",
    )
