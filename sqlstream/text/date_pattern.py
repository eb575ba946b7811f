"""Java's date patterns, read into parts."""

from __future__ import annotations

import dataclasses
import re

from sqlstream.errors import UserError

PARSED_LETTERS = "yuMdHmsS"
"""The letters that text can be read by in every engine."""

ZONE_LETTERS = "ZzXxVO"
"""Letters of the distance to UTC, and of the time zone."""

_FORMATTED_LETTERS = "GyuYQqMLwWdDEecaHhkKmsSnAN"

DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

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
    def is_zone(self) -> bool:
        return self.letter != "" and self.letter in ZONE_LETTERS

    @property
    def is_day_name(self) -> bool:
        """Of the day of the week."""
        return self.letter == "E" or (self.letter in ("e", "c") and self.width > 2)

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


def format_tokens(pattern: str, *, has_zone: bool = False) -> tuple[Token, ...]:
    """The parts of a pattern that times are written by; weeks are those of ISO 8601, from Monday. UserError SS3105 for another
    pattern, and for a letter of the time zone unless the times have one (`has_zone`)."""
    if not has_zone and (found := next((t for t in read_pattern(pattern) or () if t.is_zone), None)):
        raise UserError(
            "SS3105",
            f'"{found.text}" of date pattern "{pattern}" writes a time zone, which a TIMESTAMP does not have',
            hint="CAST the timestamp to TIMESTAMP_LTZ, which is shown in table.local-time-zone",
        )
    tokens = _tokens(pattern, _FORMATTED_LETTERS + ZONE_LETTERS, "formatting")
    _check_widths(pattern, tokens, "formatting")
    wide = next((t for t in tokens if t.width > _WRITTEN_WIDTH_MAX.get(t.letter, t.width)), None)
    if wide is not None:
        raise UserError(
            "SS3105",
            f'"{wide.text}" of date pattern "{pattern}" is not supported in formatting',
            hint=f"write the letter {wide.letter} at most {_WRITTEN_WIDTH_MAX[wide.letter]} times in a row",
        )
    return tokens


_WRITTEN_WIDTH_MAX = {
    **dict.fromkeys("GMLQqEecZXx", 5), **dict.fromkeys("DzO", 3), **dict.fromkeys("aW", 1), **dict.fromkeys("dHhkKmswV", 2),
    "O": 4,
}  # fmt: skip
"""How often a letter may stand in a row where times are written, as in Java's DateTimeFormatter. Digits of a second beyond the
ninth are zeros."""


_WIDTH_MAX = {
    **dict.fromkeys("yuYS", 9), **dict.fromkeys("MEeczO", 4), **dict.fromkeys("XxZ", 5), "a": 1,
}  # fmt: skip
"""How often a letter may stand in a row where text is read; others may twice."""


def _check_widths(pattern: str, tokens: tuple[Token, ...], purpose: str) -> None:
    """UserError SS3105 for a letter that stands in a row as often as in no pattern of Java."""
    wrong = {"V": (1,), "O": (2, 3), "c": (2,)}
    found = next((t for t in tokens if t.width in wrong.get(t.letter, ())), None)
    if found is not None:
        raise UserError(
            "SS3105",
            f'"{found.text}" of date pattern "{pattern}" is not supported in {purpose}',
            hint="write VV, O or OOOO, and c, ccc or cccc",
        )


def parse_tokens(pattern: str, *, is_simple: bool = False) -> tuple[Token, ...]:
    """The parts of a pattern by which text is read as Java's DateTimeFormatter does, or its SimpleDateFormat (`is_simple`), in
    which u is no year. UserError SS3105 for another pattern."""
    letters = (
        PARSED_LETTERS.replace("u", "") + "haEZzX" if is_simple else f"{PARSED_LETTERS}haYwEec{ZONE_LETTERS}"
    )
    tokens = _tokens(pattern, letters, "parsing", is_simple=is_simple)
    _check_widths(pattern, tokens, "parsing")
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
    parts = ["X" if t.is_zone else _SAME_PART.get(t.letter, t.letter) for t in tokens if t.letter]
    twice = next((part for part in parts if parts.count(part) > 1), "")
    if twice:
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" reads the same part of a time twice, by "{twice}"',
            hint="name each part once; what else is in the text can be cut off before, by SUBSTRING or REGEXP_REPLACE",
        )
    if "w" in parts or "Y" in parts:
        _check_weeks(pattern, set(parts))
    return tokens


_SAME_PART = {"u": "y", "c": "E", "e": "E"}


def _check_weeks(pattern: str, parts: set[str]) -> None:
    """UserError SS3105 unless a week has its year, and nothing else tells the day but the day of the week."""
    if not {"w", "Y"} <= parts or parts & set("yMd"):
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" does not say which day it is by a year (Y), a week (w) and a day (e) alone',
            hint="write yyyy-MM-dd for dates, or YYYY-'W'ww-e for days of weeks",
        )


def _tokens(pattern: str, letters: str, purpose: str, *, is_simple: bool = False) -> tuple[Token, ...]:
    """UserError SS3105 for other letters, and for what Java's DateTimeFormatter reserves; `is_simple` is SimpleDateFormat, to
    which brackets are text."""
    tokens = read_pattern(pattern)
    if tokens is None:
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" has a quote without its end',
            hint="close it with '; two quotes stand for one",
        )
    if re.search("%[A-Za-z]", re.sub("'[^']*'", "''", pattern)):
        raise UserError(
            "SS3105",
            f'date pattern "{pattern}" has letters behind %, as in other dialects',
            hint="write letters alone, such as yyyy-MM-dd HH:mm:ss; put a % before a letter in single quotes",
        )
    if not is_simple and (found := re.search(r"[\[\]{}#]", re.sub("'[^']*'", "", pattern))):
        raise UserError(
            "SS3105",
            f'"{found[0]}" of date pattern "{pattern}" is not supported in {purpose}: parts are not optional',
            hint=f"put text in single quotes: '{found[0]}'; for several forms of a time, COALESCE one call for each pattern",
        )
    for token in tokens:
        if token.letter and token.letter not in letters:
            raise UserError(
                "SS3105",
                f'letter "{token.letter}" of date pattern "{pattern}" is not supported in {purpose}',
                hint=f"use the letters {' '.join(letters)}; put other text in single quotes",
            )
    return tokens
