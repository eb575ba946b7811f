"""The text of a statement as it is written, and names in it."""

from __future__ import annotations

import datetime
import re
from typing import TypeAlias

from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.client.dbapi.literals import sql_literal
from sqlstream.client.dbapi.places import Place, PlacedText
from sqlstream.config_option import parse_duration_ms
from sqlstream.planner.dialect.tokens import RESERVED

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that begin something else where a name may stand, though they are not reserved.
_BEGINNINGS = frozenset(("ANTI", "DATE", "ILIKE", "SEMI", "TIME", "TIMESTAMP", "TRY_CAST"))
_INDENT = "  "

Duration: TypeAlias = str | datetime.timedelta
"""A length of time: `"1 min"`, `"30 s"`, `"2 h"`, or a timedelta."""

_UNITS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1_000))


class Writer:
    """Collects a statement. State: its text so far, its marks, how deep in subqueries it is, and whose tables it reads."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._marks: list[tuple[int, int, Place]] = []
        self._depth = 0
        self._connection: object = None
        self.length = 0

    def read_from(self, connection: object) -> None:
        """A table of this connection follows. ProgrammingError SS3447 behind one of another."""
        if self._connection not in (None, connection):
            raise two_connections()
        self._connection = connection

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)

    def line(self) -> None:
        """Begin another line."""
        self.add("\n" + _INDENT * self._depth)

    def indent(self, by: int) -> None:
        self._depth += by

    def mark(self, start: int, place: Place | None) -> None:
        """What was added from `start` on comes from this place."""
        if place is not None:
            self._marks.append((start, self.length, place))

    def text(self) -> PlacedText:
        made = PlacedText("".join(self._parts))
        made.marks = tuple(self._marks)
        return made


def two_connections() -> ProgrammingError:
    """For tables of another connection, whose names mean other tables here."""
    return ProgrammingError(
        "the tables are of two connections",
        code="SS3447",
        hint="make both of one connection; from_batches(other.arrow()) brings rows to this one",
    )


def quoted(name: str) -> str:
    """A name as SQL writes it, in backticks unless it is a plain word. ProgrammingError for one that is no text or empty.

    >>> quoted("price"), quoted("order"), quoted("a`b")
    ('price', '`order`', '`a``b`')
    """
    if not isinstance(name, str) or not name:
        raise ProgrammingError(f"a name is a text that is not empty, and not {name!r}", code="SS3446")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ProgrammingError(f"a name cannot be encoded as UTF-8: {name!r}", code="SS3446") from None
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED | _BEGINNINGS:
        return name
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def interval(length: Duration) -> str:
    """A length of time as SQL.

    >>> interval("90 s"), interval("1 h"), interval(datetime.timedelta(milliseconds=1500))
    ("INTERVAL '90' SECOND", "INTERVAL '1' HOUR", "INTERVAL '0 00:00:01.500' DAY TO SECOND(3)")
    """
    if isinstance(length, str):
        try:
            length = datetime.timedelta(milliseconds=parse_duration_ms(length))
        except (ValueError, OverflowError):
            hint = 'write a number and its unit, such as "90 s", "1 min", "2 h" or "1 d"'
            raise ProgrammingError(f'"{length}" is no length of time', code="SS3447", hint=hint) from None
    if not isinstance(length, datetime.timedelta):
        raise ProgrammingError(
            f"a {type(length).__name__} is no length of time",
            code="SS3447",
            hint='write "1 min" or a timedelta',
        )
    milliseconds = length // datetime.timedelta(milliseconds=1)
    for unit, of_unit in _UNITS:
        if milliseconds > 0 and milliseconds % of_unit == 0 and not length.microseconds % 1000:
            return f"INTERVAL '{milliseconds // of_unit}' {unit}"
    return sql_literal(length)


def path_text(parts: str | tuple[str, ...]) -> str:
    """The name of a table or view as SQL writes it."""
    return ".".join(map(quoted, (parts,) if isinstance(parts, str) else parts))


def word(given: str) -> str:
    """A word of SQL, such as a unit of time. ProgrammingError for anything else."""
    if not isinstance(given, str) or not _PLAIN.fullmatch(given):
        raise ProgrammingError(f'{given!r} is no word, such as "DAY"', code="SS3447")
    return given.upper()
