"""Forms of times as programs for `sqlstream.runtime.kernels.text.time_texts`."""

from __future__ import annotations

import itertools
import re

import numpy as np

from sqlstream.runtime.evaluate.kernel import Values
from sqlstream.runtime.evaluate.time import time_operations as ops
from sqlstream.text.date_pattern import Token

_FIELD_OF = {
    "y": ops.YEAR,
    "M": ops.MONTH,
    "d": ops.DAY,
    "H": ops.HOUR,
    "m": ops.MINUTE,
    "s": ops.SECOND,
    "S": ops.FRACTION,
}
_WRITTEN = {
    **_FIELD_OF,
    "u": ops.YEAR,
    "L": ops.MONTH,
    "D": ops.DAY_OF_YEAR,
    "h": ops.HOUR_OF_12_FROM_1,
    "k": ops.HOUR_FROM_1,
    "K": ops.HOUR_OF_12,
}
_DIGITS_MAX = {ops.YEAR: 4, ops.DAY_OF_YEAR: 3}
"""How many digits a field has at most; others have 2."""
_WIDTH_MAX = 9
_REGEX_TOKEN = re.compile(
    r"(?P<blanks>\\s\*)|(?P<spaces> \+)|(?P<digits>\\d\*)|(?P<rest>\(\?s:\.\*\)\Z)|\(\?P<(?P<field>\w)>\\d\{(?P<least>\d+)"
    r"(?:,(?P<most>\d+))?\}\)|(?P<open>\(\?:)|(?P<close>\)\?)|(?P<or>\[ T\])|\\(?P<escaped>\W)|(?P<plain>[^\\()\[\]{}*+?.|^$])",
    re.DOTALL,
)


def reading_program(regex: str) -> Values | None:
    """The program that reads what the expression matches, whose groups y M d H m s S are numbers; None for another expression.

    >>> reading_program(r"(?P<H>\\d{1,2}):(?P<m>\\d{2})").tolist()
    [[1, 3, 1, 2], [0, 58, 58, 0], [1, 4, 2, 2], [6, 0, 0, 0]]
    """
    rows: list[list[int]] = []
    opened: list[int] = []
    place, has_rest, is_closing = 0, 0, False
    while place < len(regex):
        token = _REGEX_TOKEN.match(regex, place)
        if token is None:
            return None
        place = token.end()
        if is_closing and not (token["close"] or token["blanks"]):
            # What follows an option must not match what the option begins with.
            return None
        if token["field"]:
            least, most = int(token["least"]), int(token["most"] or token["least"])
            field = _FIELD_OF.get(token["field"])
            if field is None or most > _WIDTH_MAX or any(row[:2] == [ops.FIELD, field] for row in rows):
                return None
            rows.append([ops.FIELD, field, least, most])
        elif token["open"]:
            opened.append(len(rows))
            rows.append([ops.OPTION, 0, 0, 0])
        elif token["close"]:
            if not opened:
                return None
            rows[opened.pop()][1] = len(rows)
            is_closing = True
        elif token["or"]:
            rows.append([ops.BYTE, ord(" "), ord("T"), 0])
        elif token["rest"]:
            has_rest = 1
        elif token["blanks"] or token["spaces"] or token["digits"]:
            kind = ops.BLANKS if token["blanks"] else ops.SPACES if token["spaces"] else ops.DIGITS
            rows.append([kind, 0, 0, 0])
        else:
            rows += [[ops.BYTE, byte, byte, 0] for byte in (token["escaped"] or token["plain"]).encode()]
    rows.append([ops.END, has_rest, 0, 0])
    return None if opened or _may_give_back(rows) else np.array(rows, np.int64)


def _may_give_back(rows: list[list[int]]) -> bool:
    """Whether a number could leave a digit to what follows, which programs do not try."""
    for row, following in itertools.pairwise(rows):
        is_number = row[0] == ops.FIELD and row[2] < row[3]
        is_digit = following[0] == ops.BYTE and chr(following[1]).isdigit()
        if is_number and (following[0] == ops.FIELD or is_digit):
            return True
    return False


def writing_program(tokens: tuple[Token, ...]) -> tuple[Values, int] | None:
    """The program that writes times of the years 1 to 9999 as a date pattern tells, and the bytes of a text at most; None for
    patterns with names."""
    rows: list[list[int]] = []
    size = 0
    for token in tokens:
        letter, width = token.letter, token.width
        if not letter:
            rows += [[ops.BYTE, byte, byte, 0] for byte in token.text.encode()]
            size += len(token.text.encode())
        elif letter == "a":
            rows.append([ops.HALF, 0, 0, 0])
            size += 2
        elif letter == "S":
            digits = min(width, _WIDTH_MAX)
            rows.append([ops.NUMBER, ops.FRACTION, digits, 10 ** (_WIDTH_MAX - digits)])
            rows += [[ops.BYTE, ord("0"), ord("0"), 0]] * (width - digits)
            size += width
        elif letter not in _WRITTEN or (letter in "ML" and width > 2):
            return None
        else:
            field = ops.SHORT_YEAR if letter in "yu" and width == 2 else _WRITTEN[letter]
            rows.append([ops.NUMBER, field, width, 1])
            size += max(width, _DIGITS_MAX.get(field, 2))
    return np.array(rows, np.int64).reshape(-1, 4), size
