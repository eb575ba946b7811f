"""Java's date patterns: times to text by Spark's date_format, and text to times by regular expressions.

Spark's own reading of patterns takes more texts than the stream does, so text is rewritten as yyyy-MM-dd HH:mm:ss.SSSSSS by
the groups of an expression, and Spark casts that.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from sqlglot import exp

from sqlstream.date_pattern import PARSED_LETTERS, Token, read_pattern
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.spark.regex import quoted
from sqlstream.planner.lower.spark.scope import let, refuse
from sqlstream.planner.lower.spark.types import TIMESTAMP, text

_FORMATTED = re.compile(r"[yu]{1,5}|M{1,4}|L{1,2}|d{1,2}|D{1,3}|[HhkKms]{1,2}|S{1,6}|E{1,4}|a")
_SPARK_LETTER = {"u": "y", "L": "M"}
_SPACE = r"[ \t\n\f\r]*"
_DATE = r"(?P<y>\d{1,4})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
_MINUTES = r"(?P<H>\d{1,2}):(?P<m>\d{1,2})"
_SECONDS = r":(?P<s>\d{1,2})"
_FRACTION = r"\.(?P<S>\d{1,9})"


def _tokens(pattern: str) -> tuple[Token, ...]:
    tokens = read_pattern(pattern)
    if tokens is None:
        raise refuse(f'the date pattern "{pattern}"')
    return tokens


def formatted(timestamp: exp.Expr, pattern: str) -> exp.Expr:
    """A TIMESTAMP_NTZ as text."""
    written = []
    for token in _tokens(pattern):
        if not token.letter:
            written.append("'" + token.text.replace("'", "''") + "'")
        elif _FORMATTED.fullmatch(token.text):
            written.append(_SPARK_LETTER.get(token.letter, token.letter) * token.width)
        else:
            raise refuse(f'"{token.text}" in the date pattern "{pattern}"')
    return tree.call("date_format", timestamp, text("".join(written)))


@dataclasses.dataclass(frozen=True)
class TimeForm:
    """Texts that match `regex`, whose groups are named y M d H m s S, or Y for a year of two digits; those that are missing are
    the first of 1970."""

    regex: str

    @property
    def java(self) -> str:
        return rf"(?d)\A{self.regex}\z"

    @property
    def iso(self) -> str:
        """The replacement that makes 'y-M-d H:m:s.S' of a text."""
        names = set(re.findall(r"\?<(\w)>", self.regex))
        part = {name: f"${{{name}}}" for name in names}
        year = f"20{part['Y']}" if "Y" in names else part.get("y", "1970")
        date = f"{year}-{part.get('M', '1')}-{part.get('d', '1')}"
        clock = f"{part.get('H', '0')}:{part.get('m', '0')}:{part.get('s', '0')}"
        return f"{date} {clock}.{part['S']}" if "S" in names else f"{date} {clock}"


def _form(regex: str) -> TimeForm:
    """Groups get Java's syntax, and years are not 0."""
    regex = re.sub(r"\(\?P<y>\\d\{(\d)\}", r"(?!0{\1})\g<0>", regex)
    regex = regex.replace(r"(?P<y>\d{1,", r"(?!0+(?!\d))(?P<y>\d{1,")
    return TimeForm(regex.replace("(?P<", "(?<"))


def sql_timestamps() -> list[TimeForm]:
    """'2024-01-31 10:20:30.123': the time, its seconds and its fraction may be missing."""
    clocks = ("", f"[ T]{_MINUTES}", f"[ T]{_MINUTES}{_SECONDS}", f"[ T]{_MINUTES}{_SECONDS}{_FRACTION}\\d*")
    return [_form(f"{_SPACE}{_DATE}{clock}{_SPACE}") for clock in clocks]


def sql_fallbacks() -> list[TimeForm]:
    """'1999-9-10 05:20:10.123' or '1999-9-10': what TO_TIMESTAMP reads besides its pattern."""
    clocks = ("", f" +{_MINUTES}{_SECONDS}", f" +{_MINUTES}{_SECONDS}{_FRACTION}")
    return [_form(f"{_SPACE}{_DATE}{clock}{_SPACE}") for clock in clocks]


def sql_dates() -> list[TimeForm]:
    """As `sql_timestamps`; the day, or the month and the day, may be missing."""
    year, month = r"(?P<y>\d{1,4})", r"-(?P<M>\d{1,2})"
    return [_form(f"{_SPACE}{part}{_SPACE}") for part in (year, year + month)] + sql_timestamps()


def sql_times() -> list[TimeForm]:
    clocks = (_MINUTES, f"{_MINUTES}{_SECONDS}", f"{_MINUTES}{_SECONDS}{_FRACTION}\\d*")
    return [_form(f"{_SPACE}{clock}{_SPACE}") for clock in clocks]


def pattern_form(pattern: str, *, has_rest: bool = False) -> TimeForm:
    """The form of a Java pattern; with `has_rest`, text may follow.

    >>> pattern_form("HH:mm").java
    '(?d)\\\\A(?<H>\\\\d{2}):(?<m>\\\\d{2})\\\\z'
    """
    parts, seen = [], set()
    for token in _tokens(pattern):
        if not token.letter:
            parts.append(quoted(token.text))
            continue
        name = "y" if token.letter == "u" else token.letter
        width_max = {"y": 4, "S": 9}.get(name, 2)
        is_other_year = name == "y" and token.width not in (2, 4)
        if token.letter not in PARSED_LETTERS or name in seen or token.width > width_max or is_other_year:
            raise refuse(f'"{token.text}" in the date pattern "{pattern}"')
        seen.add(name)
        width = str(token.width) if token.width > 1 else "1,2"
        name = "Y" if token.is_short_year else name
        parts.append(rf"(?P<{name}>\d{{{width}}})")
    return _form("".join(parts) + ("(?s:.*)" if has_rest else ""))


def parsed(value: exp.Expr, forms: Iterable[TimeForm]) -> exp.Expr:
    """Text as TIMESTAMP_NTZ by the first form that matches; NULL where none does or the text names no time."""

    def read(written: exp.Expr) -> exp.Expr:
        branches = [
            (
                tree.call("regexp_like", written, text(form.java)),
                _cast(tree.call("regexp_replace", written, text(form.java), text(form.iso))),
            )
            for form in forms
        ]
        return tree.case(branches, tree.cast(tree.null(), TIMESTAMP))

    return let(value, read)


def _cast(iso: exp.Expr) -> exp.Expr:
    """Spark takes years of four digits."""
    padded = tree.call("concat", text("000"), iso)
    return tree.cast(tree.call("regexp_replace", padded, text(r"\A0+(\d{4}-)"), text("$1")), TIMESTAMP)
