"""Text as a terminal may show it: control characters as escapes, so that data can neither move the cursor nor hide."""

from __future__ import annotations

import re

NULL_TEXT = "<NULL>"
"""What stands for NULL where people read, so that it differs from the text NULL (Flink: PrintStyle.NULL_VALUE)."""

_HARMFUL = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: cursor, colours, titles, the clipboard
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction: text that reads otherwise than it is
    "\u200b\u2060\ufeff"  # invisible; joiners (U+200C, U+200D) are parts of words and emoji, and stay
    "\u2028\u2029\ud800-\udfff"  # line separators; what cannot be encoded
)
_ONE_LINE = re.compile(f"[{_HARMFUL}]")
_LINES = re.compile(f"(?![\t\n])[{_HARMFUL}]")


def shown(text: str) -> str:
    """The text on one line, with control, direction and invisible characters as Python's escapes.

    >>> shown("a\\tb\\x1b[2J\\u202e")
    'a\\\\tb\\\\x1b[2J\\\\u202e'
    """
    return _ONE_LINE.sub(_escape, text)


def shown_lines(text: str) -> str:
    """The same for a text of several lines: line breaks and tabs stay.

    >>> shown_lines("a\\nb\\x9b2J")
    'a\\nb\\\\x9b2J'
    """
    return _LINES.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return repr(match.group())[1:-1]


def shortened(text: str, characters_max: int) -> str:
    """The text of a message; a long one is cut, with an ellipsis as its last character.

    >>> shortened("ab" * 100, 6)
    'ababa…'
    """
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def display_width(text: str) -> int:
    """Columns that a terminal needs: East Asian wide characters take two, accents and joiners none.

    >>> display_width("日本 e\\u0301")
    6
    """
    return len(text) if text.isascii() else sum(map(character_width, text))


def character_width(character: str) -> int:
    """Columns of one character: 0, 1 or 2."""
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
