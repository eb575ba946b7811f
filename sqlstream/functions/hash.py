"""Hashes of character strings and bytes, as hexadecimal digits."""

from __future__ import annotations

from sqlstream.expressions import Call
from sqlstream.functions.arguments import AS_INT, TEXT_OR_BYTES, scalar
from sqlstream.functions.checks import literals, unsupported
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import char, varchar

SHA2_BITS = (224, 256, 384, 512)
SHA2_HINT = "ask for 224, 256, 384 or 512 bits"


def _check_bits(call: Call) -> None:
    found = literals(call, 1)
    if found is not None and found[0] not in SHA2_BITS:
        raise unsupported(call, f"with {found[0]} bits", SHA2_HINT)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("MD5(string)", "text.encoding:MD5", (TEXT_OR_BYTES,), char(32)).described(
        "The MD5 hash in hexadecimal digits.", "MD5('')", "d41d8cd98f00b204e9800998ecf8427e"
    ),
    scalar("SHA1(string)", "text.encoding:SHA1", (TEXT_OR_BYTES,), char(40)).described(
        "The SHA-1 hash in hexadecimal digits.", "SHA1('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"
    ),
    scalar("SHA224(string)", "text.encoding:SHA224", (TEXT_OR_BYTES,), char(56)).described(
        "The SHA-224 hash in hexadecimal digits.",
        "SHA224('')",
        "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
    ),
    scalar("SHA256(string)", "text.encoding:SHA256", (TEXT_OR_BYTES,), char(64)).described(
        "The SHA-256 hash in hexadecimal digits.",
        "SHA256('')",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ),
    scalar("SHA384(string)", "text.encoding:SHA384", (TEXT_OR_BYTES,), char(96)).described(
        "The SHA-384 hash in hexadecimal digits.", "LEFT(SHA384(''), 8)", "38b060a7"
    ),
    scalar("SHA512(string)", "text.encoding:SHA512", (TEXT_OR_BYTES,), char(128)).described(
        "The SHA-512 hash in hexadecimal digits.", "LEFT(SHA512(''), 8)", "cf83e135"
    ),
    scalar(
        "SHA2(string, bits)",
        "text.encoding:sha2_of_bits",
        (TEXT_OR_BYTES, AS_INT),
        varchar(128),
        check=_check_bits,
    ).described(
        "The SHA-2 hash of 224, 256, 384 or 512 bits in hexadecimal digits.",
        "SHA2('', 224)",
        "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
    ),
)
