"""Java's date patterns for reading, and the forms of times that SQL reads, as data for the engines' own functions."""

from __future__ import annotations

import dataclasses
import re

from sqlstream.date_pattern import PARSED_LETTERS, Token


@dataclasses.dataclass(frozen=True)
class TimeForm:
    """Text of a time: a regular expression of the whole text, and what each of its groups is: a letter of y M d H m s S, or Y for
    a year of two digits."""

    regex: str
    groups: tuple[str, ...]

    def with_rest(self) -> TimeForm:
        """The form followed by any text."""
        return dataclasses.replace(self, regex=f"{self.regex}(?s:.*)")

    @staticmethod
    def of_tokens(tokens: tuple[Token, ...]) -> TimeForm | None:
        """None for a letter that is not read, or not so often: names of months and years of other than two or four digits."""
        groups: list[str] = []
        regex = ""
        for token in tokens:
            if not token.letter:
                regex += re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", token.text)
                continue
            is_other_year = token.letter in ("y", "u") and token.width not in (2, 4)
            if token.letter not in PARSED_LETTERS or token.is_month_name or is_other_year:
                return None
            name = "y" if token.letter == "u" else token.letter
            groups.append("Y" if token.is_short_year else name)
            regex += f"([0-9]{{{token.width if token.width > 1 else '1,2'}}})"
        return TimeForm(regex, tuple(groups)) if len(set(groups)) == len(groups) else None


_DATE = "([0-9]{1,4})-([0-9]{1,2})-([0-9]{1,2})"
_TIME = r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9})[0-9]*)?)?"
_CLOCK = r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?"
_S = r"[\t\n\f\r ]*"

SQL_TIMESTAMP = TimeForm(f"{_S}{_DATE}(?:[ T]{_TIME})?{_S}", tuple("yMdHmsS"))
"""'2024-01-31 10:20:30.123': the time, its seconds and its fraction may be missing."""

SQL_FALLBACK = TimeForm(f"{_S}{_DATE}(?: +{_CLOCK})?{_S}", tuple("yMdHmsS"))
"""'1999-9-10 05:20:10.123' or '1999-9-10': what TO_TIMESTAMP reads besides its pattern."""

SQL_DATE = TimeForm(
    f"{_S}([0-9]{{1,4}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_TIME})?)?)?{_S}", tuple("yMdHmsS")
)
"""'2024-01-31', also with a time, which is cut off; the day, or the month and the day, may be missing."""

SQL_TIME = TimeForm(f"{_S}{_TIME}{_S}", tuple("HmsS"))
