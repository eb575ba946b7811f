"""Regular expressions as Java's are written and RE2 matches them: what is malformed, or needs backtracking, is refused."""

from __future__ import annotations

import re

from sqlstream.errors import UserError

_JAVA_ONLY = (
    ("(?=", "look-ahead"),
    ("(?!", "look-ahead"),
    ("(?<=", "look-behind"),
    ("(?<!", "look-behind"),
    ("(?>", "an atomic group"),
)


class MalformedRegex(UserError):
    """A text that is no regular expression: an error as a literal, no match as data."""


def checked_regex(regex: str) -> str:
    """The expression, compiled once as a check; UserError SS3104 when it is malformed or needs Java's backtracking engine."""
    stripped = re.sub(r"\\\\|\\[^1-9]", "", regex)
    found = next((name for token, name in _JAVA_ONLY if token in stripped), "")
    if not found and re.search(r"\\[1-9]", stripped):
        found = "a back-reference"
    if not found and re.search(r"[*+?}]\+", stripped):
        found = "a possessive quantifier"
    if not found and re.search(r"(?<!\\)(?:\\\\)*\\[GZRXhHeckN]|&&", regex):
        found = "a construct that only Java supports"
    if found:
        raise UserError(
            "SS3104",
            f'regular expression "{regex}" uses {found}',
            hint="rewrite it without: expressions are matched in linear time, without backtracking",
        )
    # Here, because few statements have an expression, and loading Arrow's functions takes time.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        raise MalformedRegex(
            "SS3104", f'regular expression "{regex}" is malformed', detail=str(error)
        ) from error
    return regex
