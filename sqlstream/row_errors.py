"""Errors of one row's value."""

from __future__ import annotations

import re

from sqlstream.errors import UserError
from sqlstream.times import is_time_text
from sqlstream.types import timestamp

SHOWN_CHARACTERS = 100
"""Of a text that cannot be cast."""

_FINE_TIMESTAMP = re.compile(r"(TIMESTAMP(?:_LTZ)?)\([789]\)")


def cannot_cast(text: str, type_name: str) -> UserError:
    """SS5102, to be raised."""
    shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    hint = "use TRY_CAST to get NULL for what cannot be read"
    fine = _FINE_TIMESTAMP.fullmatch(type_name)
    if fine is not None and is_time_text(text, timestamp(6)):
        hint = f"a {type_name} holds the years 1678 to 2261; use {fine[1]}(6) for others, or TRY_CAST to get NULL"
    return UserError("SS5102", f'cannot cast "{shown}" to {type_name}', hint=hint)


def division_by_zero() -> UserError:
    """SS5101, to be raised."""
    return UserError("SS5101", "division by zero")


def too_many_rows(count: str) -> UserError:
    """SS5102, to be raised."""
    return UserError(
        "SS5102",
        f"a subquery that is used as a value has {count} rows",
        hint="make it return one row, by an aggregate or LIMIT 1, or use IN (SELECT …)",
    )
