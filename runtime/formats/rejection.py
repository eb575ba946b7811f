"""The errors for a file's undecodable rows and missing columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.errors import UserError, did_you_mean
from sqlstream.spi.format import Rejected
from sqlstream.terminal_text import shortened

_TEXT_CHARACTERS_MAX = 200

VALUE_CHARACTERS_MAX = 60
"""How much of a value is shown within a message."""


def undecodable(path: str, row: Rejected, option: str = "", hint: str = "") -> UserError:
    """The error for a rejected row; `option` is the full key of the option that makes the format skip such rows, `hint` what is
    better than to skip them."""
    hint = hint or "correct the file"
    if option:
        hint += f", or set '{option}' = 'true' to count such rows and write them to a separate file"
    return UserError(
        "SS5011",
        f'could not decode line {row.line} of "{path}": {row.reason}',
        detail=f"the line is: {shortened(row.text, _TEXT_CHARACTERS_MAX)}",
        hint=hint,
    )


def absent_column(file: str, wanted: str, names: Sequence[str]) -> UserError:
    """The error for a missing column: `file` describes the file, which has the columns `names` but not `wanted`."""
    return UserError(
        "SS5012",
        f'{file} has no column "{wanted}"',
        detail=f"its columns are {', '.join(names)}",
        hint=did_you_mean(wanted, list(names)) or "name the table's columns as the file does",
    )


def quoted(value: object) -> str:
    """A value of the user's within a message, cut where it is long."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return f'"{shortened(text, VALUE_CHARACTERS_MAX)}"'
