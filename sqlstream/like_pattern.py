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


_SIMILAR_SPECIALS = frozenset("[]()|^-+*_%?{}")


def similar_regex(pattern: str, escape: str | None = None) -> str:
    r"""The pattern of SIMILAR TO as a regular expression for the whole text: % and _ are as in LIKE, a backslash and a dollar
    sign stand for themselves, the rest is as usual.

    UserError SS3103 for an escape that is not one character, or that stands before another one than a special one and itself.

    >>> similar_regex("(a|b)%!%$", "!")
    '(a|b).*%\\$'
    """
    if escape is not None and len(escape) != 1:
        raise UserError("SS3103", f'the escape "{escape}" of SIMILAR TO is not one character')
    written: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            written.append(_escaped(next(characters, ""), pattern, escape))
        elif character in "%_":
            written.append(".*" if character == "%" else ".")
        else:
            written.append(f"\\{character}" if character in "\\$" else character)
    return "".join(written)


def _escaped(character: str, pattern: str, escape: str) -> str:
    if (character not in _SIMILAR_SPECIALS and character != escape) or not character:
        raise UserError(
            "SS3103",
            f'the SIMILAR TO pattern "{pattern}" has its escape character before "{character}"',
            hint=f"write {escape}{escape} for the character itself; it may stand before special characters only",
        )
    return character if character in "%_" or character.isalnum() else f"\\{character}"
