"""Hashes of character strings and bytes, as hexadecimal digits."""

from __future__ import annotations

from sqlstream.expressions import Call
from sqlstream.functions.arguments import AS_INT, TEXT_OR_BYTES, scalar
from sqlstream.functions.checks import literals, unsupported
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import char, varchar

_DIGITS = {"MD5": 32, "SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128}

SHA2_BITS = (224, 256, 384, 512)
SHA2_HINT = "ask for 224, 256, 384 or 512 bits"


def _check_bits(call: Call) -> None:
    found = literals(call, 1)
    if found is not None and found[0] not in SHA2_BITS:
        raise unsupported(call, f"with {found[0]} bits", SHA2_HINT)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    *(scalar(name, f"{name}(string)", (TEXT_OR_BYTES,), char(digits)) for name, digits in _DIGITS.items()),
    scalar("SHA2", "SHA2(string, bits)", (TEXT_OR_BYTES, AS_INT), varchar(128), check=_check_bits),
)
