"""Rows of a file that could not be decoded: the error that names file and line."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.spi.format import Rejected

_TEXT_CHARACTERS_MAX = 200


def undecodable(path: str, row: Rejected, option: str = "") -> UserError:
    """`option` is the full key of the option that makes the format go on without such rows."""
    hint = f"correct the file, or set '{option}' = 'true' to count such rows and keep them in a file apart"
    return UserError(
        "SS5011",
        f'could not decode line {row.line} of "{path}": {row.reason}',
        detail=f"the line is: {row.text[:_TEXT_CHARACTERS_MAX]}",
        hint=hint if option else "correct the file",
    )


def quoted(value: object) -> str:
    """A value of the user's within a message, cut where it is long."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return f'"{text if len(text) <= 60 else text[:57] + "…"}"'
