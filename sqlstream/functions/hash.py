"""Hashes of character strings, as hexadecimal digits."""

from __future__ import annotations

from sqlstream.functions.arguments import AS_INT, TEXT, scalar
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import char, varchar

_DIGITS = {"MD5": 32, "SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128}

FUNCTIONS: tuple[ScalarFunction, ...] = (
    *(scalar(name, f"{name}(string)", (TEXT,), char(digits)) for name, digits in _DIGITS.items()),
    scalar("SHA2", "SHA2(string, bits)", (TEXT, AS_INT), varchar(128)),
)
