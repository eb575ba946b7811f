"""What an engine says of text that cannot be cast: the words of the stream, `cannot cast "x" to INT`."""

from __future__ import annotations

from sqlstream.types import LogicalType

SHOWN_CHARACTERS = 100
"""Of the text."""


def shown_type(target: LogicalType) -> str:
    return str(target.with_nullable(True))
