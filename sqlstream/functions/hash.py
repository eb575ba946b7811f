"""Hashes of character strings, as hexadecimal digits."""

from __future__ import annotations

from sqlstream.functions.arguments import TEXT, scalar
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import char

_DIGITS = {"MD5": 32, "SHA1": 40, "SHA256": 64}

FUNCTIONS: tuple[ScalarFunction, ...] = (
    *(scalar(name, f"{name}(string)", (TEXT,), char(digits)) for name, digits in _DIGITS.items()),
)
