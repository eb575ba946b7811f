"""Errors of rows in a batch engine that a stream has too: with its code, words and hint."""

from __future__ import annotations

import re

from runtime.evaluate.arithmetic import division_by_zero
from runtime.evaluate.cast import cannot_cast
from sqlstream.errors import UserError

_FAILED_CAST = re.compile(r'cannot cast "(.*?)" to ([A-Z_]+(?:\(\d+(?:, \d+)?\))?)', re.DOTALL)
"""What the SQL of a cast raises (planner/lower/failed_cast.py)."""

_TOO_LARGE = re.compile(r"Could not convert string '(.*?)' to (INT\d+)", re.DOTALL)
"""What DuckDB says of text that is a number, and of too many digits."""

_INTEGERS = {"INT8": "TINYINT", "INT16": "SMALLINT", "INT32": "INT", "INT64": "BIGINT"}


def data_error(text: str) -> UserError | None:
    """The error of a row that the text of an engine's error names; None for any other failure.

    >>> data_error('[USER_RAISED_EXCEPTION] cannot cast "x" to DECIMAL(10, 2) SQLSTATE: P0001').message
    'cannot cast "x" to DECIMAL(10, 2)'
    """
    found = _FAILED_CAST.search(text)
    if found is not None:
        return cannot_cast(found[1], found[2])
    too_large = _TOO_LARGE.search(text)
    if too_large is not None and too_large[2] in _INTEGERS:
        return cannot_cast(too_large[1], _INTEGERS[too_large[2]])
    return division_by_zero() if "division by zero" in text else None
