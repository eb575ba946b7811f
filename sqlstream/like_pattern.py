"""Patterns of LIKE."""

from __future__ import annotations

from sqlstream.errors import UserError


def like_parts(pattern: str, escape: str | None) -> list[str]:
    """The pattern as literal runs, which start with "=", and the wildcards "%" and "_".

    UserError SS3103 for an escape that is not one character, or that stands before another one than %, _ and itself.

    >>> like_parts("a%b!%", "!")
    ['=a', '%', '=b%']
    """
    if escape is not None and len(escape) != 1:
        raise UserError("SS3103", f'the escape "{escape}" of LIKE is not one character')
    parts: list[str] = []
    is_escaped = False
    for character in pattern:
        if not is_escaped and character == escape:
            is_escaped = True
            continue
        if is_escaped and character not in ("%", "_", escape):
            raise UserError(
                "SS3103",
                f'the LIKE pattern "{pattern}" has its escape character before "{character}"',
                hint=f"write {escape}{escape} for the character itself; it may stand before % and _ only",
            )
        if character in "%_" and not is_escaped:
            parts.append(character)
        elif parts and parts[-1].startswith("="):
            parts[-1] += character
        else:
            parts.append("=" + character)
        is_escaped = False
    if is_escaped:
        raise UserError("SS3103", f'the LIKE pattern "{pattern}" ends with its escape character')
    return parts
