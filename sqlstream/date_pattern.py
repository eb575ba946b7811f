"""Java's date patterns, read into parts."""

from __future__ import annotations

import dataclasses
import re

from sqlstream.errors import UserError

PARSED_LETTERS = "yuMdHmsS"
"""The letters that text can be read by in every engine; streams also read h with a, and X, the distance to UTC."""

_FORMATTED_LETTERS = "GyuQqMLdDEaHhkKmsSnAN"

SHORT_YEARS = 2000
"""The first of the years that text names by two digits, as in Java."""


@dataclasses.dataclass(frozen=True)
class Token:
    """A run of one pattern letter, or other text (`letter` empty)."""

    letter: str
    text: str

    @property
    def width(self) -> int:
        return len(self.text)

    @property
    def is_short_year(self) -> bool:
        """Whether it is a year of two digits: one from 2000 to 2099 where text is read."""
        return self.letter in ("y", "u") and self.width == 2

    @property
    def is_month_name(self) -> bool:
        return self.letter == "M" and self.width > 2


def read_pattern(pattern: str) -> tuple[Token, ...] | None:
    """The parts of a pattern in order; None when a quote has no end.

    >>> [t.text for t in read_pattern("yyyy-MM-dd'T'HH''mm")]
    ['yyyy', '-', 'MM', '-', 'dd', 'T', 'HH', "'", 'mm']
    """
    tokens = []
    for match in re.finditer(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|(')", pattern):
        if match[3]:
            return None
        if match[2]:
            tokens.append(Token(match[2], match[0]))
        else:
            quoted = match[0] if match[1] is None else match[1]
            tokens.append(Token("", quoted.replace("''", "'")))
    return tuple(tokens)


def format_tokens(pattern: str) -> tuple[Token, ...]:
    """The parts of a pattern that times are written by. UserError SS3105 for another pattern."""
    tokens = _tokens(pattern, _FORMATTED_LETTERS, "formatting")
    wide = next((t for t in tokens if t.width > _WRITTEN_WIDTH_MAX.get(t.letter, t.width)), None)
    if wide is not None:
        raise UserError(
            "SS3105",
            f'"{wide.text}" of date pattern "{pattern}" is not supported in formatting',
            hint=f"write the letter {wide.letter} at most {_WRITTEN_WIDTH_MAX[wide.letter]} times in a row",
        )
    return tokens


_WRITTEN_WIDTH_MAX = {**dict.fromkeys("GMLQqE", 5), "D": 3, "a": 1, **dict.fromkeys("dHhkKms", 2)}
"""How often a letter may stand in a row where times are written, as in Java's DateTimeFormatter. Digits of a second beyond the
ninth are zeros."""


_WIDTH_MAX = {"y": 9, "u": 9, "M": 4, "S": 9, "X": 3, "a": 1}
"""How often a letter may stand in a row where text is read; others may twice. Java has more X, which read seconds too."""


def parse_tokens(pattern: str, *, is_simple: bool = False) -> tuple[Token, ...]:
    """The parts of a pattern by which text is read as Java's DateTimeFormatter does, or its SimpleDateFormat (`is_simple`), in
    which u is no year. UserError SS3105 for another pattern."""
    letters = PARSED_LETTERS.replace("u", "") if is_simple else PARSED_LETTERS
    tokens = _tokens(pattern, letters + "haX", "parsing")
    wide = next((t for t in tokens if t.letter and t.width > _WIDTH_MAX.get(t.letter, 2)), None)
    if wide is not None:
        raise UserError(
            "SS3105",
            f'"{wide.text}" of date pattern "{pattern}" is not supported in parsing',
            hint=f"write the letter {wide.letter} at most {_WIDTH_MAX.get(wide.letter, 2)} times in a row",
        )
    if is_simple and any(t.letter == "y" and t.width < 3 for t in tokens):
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" reads years of two digits, whose century would depend on the clock',
            hint="write yyyy, and the century into the text, as in CONCAT('20', text)",
        )
    of_half_days = {t.letter for t in tokens} & set("Hha")
    if of_half_days not in (set(), {"H"}, {"h", "a"}):
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" does not say which hour of the day it is',
            hint="write HH for hours from 0 to 23, or hh and a for hours from 1 to 12 with AM or PM",
        )
    parts = [t.letter.replace("u", "y") for t in tokens if t.letter]
    twice = next((part for part in parts if parts.count(part) > 1), "")
    if twice:
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" reads the same part of a time twice, by "{twice}"',
            hint="name each part once; what else is in the text can be cut off before, by SUBSTRING or REGEXP_REPLACE",
        )
    return tokens


def _tokens(pattern: str, letters: str, purpose: str) -> tuple[Token, ...]:
    tokens = read_pattern(pattern)
    if tokens is None:
        raise UserError("SS3105", f'date pattern "{pattern}" has a quote without its end')
    for token in tokens:
        if token.letter and token.letter not in letters:
            raise UserError(
                "SS3105",
                f'letter "{token.letter}" of date pattern "{pattern}" is not supported in {purpose}',
                hint=f"use the letters {' '.join(letters)}; put other text in single quotes",
            )
    return tokens
