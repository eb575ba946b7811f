"""Errors of rows that the SQL of a batch engine raises: with the code, words and hint that they have in a stream."""

from __future__ import annotations

import re

from sqlstream.errors import UserError
from sqlstream.row_errors import raised_error

_OF_DUCKDB = "Invalid Input Error: "
_OF_SPARK = re.compile(r"\[USER_RAISED_EXCEPTION\] (SS\d{4}: .*?) SQLSTATE: P0001", re.DOTALL)
"""Spark writes the brackets before what raise_error was given; an excerpt of the SQL has none."""


def duckdb_row_error(text: str) -> UserError | None:
    """The error of a row that DuckDB's error is; None for any other failure, whatever stands in its text.

    >>> duckdb_row_error("Invalid Input Error: SS5101: division by zero").code
    'SS5101'
    >>> duckdb_row_error("IO Error: cannot open /SS5101: division by zero") is None
    True
    """
    return raised_error(text.removeprefix(_OF_DUCKDB)) if text.startswith(_OF_DUCKDB) else None


def spark_row_error(text: str) -> UserError | None:
    """The error of a row that Spark's error names as its cause; None for any other failure.

    >>> spark_row_error("Job aborted: [USER_RAISED_EXCEPTION] SS5101: division by zero SQLSTATE: P0001").code
    'SS5101'
    """
    found = _OF_SPARK.search(text)
    return raised_error(found[1]) if found is not None else None
