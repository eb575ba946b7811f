"""Patterns of LIKE."""

from __future__ import annotations

import re

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
    r"""The pattern of SIMILAR TO as a regular expression for the whole text.

    % and _ are as in LIKE, and a backslash and a dollar sign stand for themselves. `[[:DIGIT:]]` names characters as in SQL.

    UserError SS3103 for an escape that is not one character, or that stands before another one than a special one and itself.

    >>> similar_regex("(a|b)%!%$", "!")
    '(a|b).*%\\$'
    >>> similar_regex("[_[:DIGIT:]]%")
    '[_0-9].*'
    """
    if escape is not None and len(escape) != 1:
        raise UserError("SS3103", f'the escape "{escape}" of SIMILAR TO is not one character')
    written: list[str] = []
    # A bracket behind the escape begins no name.
    unescaped = f"(?<!{re.escape(escape)})" if escape is not None else ""
    within = re.split(rf"(?i)({unescaped}\[:[a-z]+:\])", pattern)
    is_set = False
    characters = iter(c for i, part in enumerate(within) for c in ((part,) if i % 2 else part))
    for character in characters:
        if len(character) > 1:
            written.append(_named_characters(character, pattern) if is_set else character)
        elif escape is not None and character == escape:
            written.append(_escaped(next(characters, ""), pattern, escape))
        elif character in "%_" and not is_set:
            written.append(".*" if character == "%" else ".")
        else:
            is_set = character == "[" or (is_set and character != "]")
            written.append(f"\\{character}" if character in "\\$" else character)
    return "".join(written)


_NAMED = {
    "ALPHA": "a-zA-Z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "a-zA-Z0-9",
    "SPACE": " ",
    "WHITESPACE": r" \t\n\x0B\f\r",
}
"""What `[:name:]` stands for between the brackets of a set, as in Calcite."""


def _named_characters(name: str, pattern: str) -> str:
    found = _NAMED.get(name[2:-2].upper())
    if found is None:
        raise UserError(
            "SS3103",
            f'the SIMILAR TO pattern "{pattern}" has "{name}"',
            hint=f"write [[:DIGIT:]]; the names are {', '.join(_NAMED)}",
        )
    return found


def _escaped(character: str, pattern: str, escape: str) -> str:
    if (character not in _SIMILAR_SPECIALS and character != escape) or not character:
        raise UserError(
            "SS3103",
            f'the SIMILAR TO pattern "{pattern}" has its escape character before "{character}"',
            hint=f"write {escape}{escape} for the character itself; it may stand before special characters only",
        )
    return character if character in "%_" or character.isalnum() else f"\\{character}"
