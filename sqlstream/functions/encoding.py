"""Functions between texts and bytes, of addresses of the web, tests of texts, and hashes."""

from __future__ import annotations

import contextlib

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.functions.arguments import (
    ANY,
    AS_BIGINT,
    AS_INT,
    BOOL,
    BYTES,
    TEXT,
    TEXT_OR_BYTES,
    always,
    returns,
    scalar,
)
from sqlstream.functions.checks import constant_at, literals, regex_at, unsupported
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import Rejects, ScalarFunction
from sqlstream.text.charsets import codec_of
from sqlstream.text.printf_format import read_format
from sqlstream.text.regular_expressions import MalformedRegex, linear_regex
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING, LogicalType, char, varchar

Types = tuple[LogicalType, ...]
_NULLABLE_TEXT = always(STRING)


def _chosen_arguments(types: Types) -> Types | None:
    """ELT: an index, then texts or bytes."""
    index, values = AS_INT.convert(types[0]), tuple(TEXT_OR_BYTES.convert(t) for t in types[1:])
    if index is None or any(v is None for v in values) or common_type(types[1:]) is None:
        return None
    return (index, *(v for v in values if v is not None))


def _chosen(types: Types) -> LogicalType | None:
    shared = common_type(types[1:])
    return None if shared is None else shared.with_nullable(True)


def _type_name(types: Types) -> LogicalType:
    """TYPEOF has no NULL but where the type has no form that a catalog keeps."""
    return STRING.with_nullable(len(types) > 1)


def _check_charset(call: Call) -> None:
    found = literals(call, 1)
    if found is not None:
        codec_of(str(found[0]))


def _check_key(call: Call) -> None:
    """The key of a QUERY is a regular expression; without one that is well-formed there is no value."""
    found = literals(call, 1, 2)
    if found is not None and len(found) == 2 and found[0] == "QUERY":
        with contextlib.suppress(MalformedRegex):
            linear_regex(str(found[1]))


def _check_format(call: Call) -> None:
    found = literals(call, 0)
    if found is not None:
        read_format(str(found[0]), [a.type for a in call.args[1:]])


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "ENCODE(string, charset)",
        "text.encoding:ENCODE",
        (TEXT, TEXT),
        returns(sql.BYTES),
        check=_check_charset,
        rejects=Rejects.PARAMETERS,
    ).described("A text as bytes of a charset.", "ENCODE('é', 'ISO-8859-1')", "x'e9'"),
    scalar(
        "DECODE(bytes, charset)",
        "text.encoding:DECODE",
        (BYTES, TEXT),
        returns(STRING),
        check=_check_charset,
        rejects=Rejects.PARAMETERS,
    ).described("Bytes of a charset as text; malformed ones become U+FFFD.", "DECODE(x'C3A9', 'UTF-8')", "é"),
    scalar("UNHEX(string)", "text.encoding:UNHEX", (TEXT,), always(sql.BYTES)).described(
        "The bytes that hexadecimal digits stand for; NULL for another text.", "UNHEX('4162')", "x'4162'"
    ),
    scalar("IS_VALID_UTF8(bytes)", "text.encoding:is_valid_utf8", (BYTES,), returns(BOOLEAN)).described(
        "Whether bytes are well-formed UTF-8.", "IS_VALID_UTF8(x'80')", "FALSE"
    ),
    scalar("MAKE_VALID_UTF8(bytes)", "text.encoding:MAKE_VALID_UTF8", (BYTES,), returns(STRING)).described(
        "Bytes of UTF-8 as text; malformed ones become U+FFFD.", "MAKE_VALID_UTF8(x'4162')", "Ab"
    ),
    scalar("URL_ENCODE(string)", "text.url:URL_ENCODE", (TEXT,), returns(STRING)).described(
        "A text as a part of a form's address.", "URL_ENCODE('a b&c')", "a+b%26c"
    ),
    scalar("URL_DECODE(string)", "text.url:URL_DECODE", (TEXT,), _NULLABLE_TEXT).described(
        "The text in a part of a form's address; NULL where that is malformed.",
        "URL_DECODE('a+b%26c')",
        "a b&c",
    ),
    scalar(
        "PARSE_URL(url, part[, key])",
        "text.url:parse_url",
        (TEXT, TEXT, TEXT),
        _NULLABLE_TEXT,
        check=_check_key,
    ).described(
        "A part of an address (HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO), or a value in its QUERY.",
        "PARSE_URL('http://h.de/p?k=1', 'QUERY', 'k')",
        "1",
    ),
    scalar("INET_ATON(string)", "text.url:INET_ATON", (TEXT,), always(BIGINT)).described(
        "The number of an IPv4 address; NULL for another text.", "INET_ATON('127.0.0.1')", "2130706433"
    ),
    scalar("INET_NTOA(number)", "text.url:INET_NTOA", (AS_BIGINT,), _NULLABLE_TEXT).described(
        "The IPv4 address of a number; NULL outside of their range.", "INET_NTOA(2130706433)", "127.0.0.1"
    ),
    scalar("IS_ALPHA(string)", "text.characters:IS_ALPHA", (TEXT,), always(BOOLEAN.not_null())).described(
        "Whether a text consists of letters.", "IS_ALPHA('Hello')", "TRUE"
    ),
    scalar("IS_DIGIT(string)", "text.characters:IS_DIGIT", (TEXT,), always(BOOLEAN.not_null())).described(
        "Whether a text consists of digits.", "IS_DIGIT('12')", "TRUE"
    ),
    scalar("IS_DECIMAL(string)", "text.characters:IS_DECIMAL", (TEXT,), always(BOOLEAN.not_null())).described(
        "Whether a text is a number.", "IS_DECIMAL('-1.5')", "TRUE"
    ),
    scalar("ELT(index, value1 [, value2]*)", "text.characters:elt", _chosen_arguments, _chosen).described(
        "The value of this number, from 1; NULL for another number.", "ELT(2, 'a', 'b')", "b"
    ),
    scalar(
        "PRINTF(format [, value]*)", "text.printf:printf", (TEXT, ANY), _NULLABLE_TEXT, check=_check_format
    ).described("Values in a text with conversions such as %d and %s.", "PRINTF('%03d-%s', 7, 'a')", "007-a"),
    scalar(
        "REGEXP_EXTRACT_ALL(string, regex[, group])",
        "text.pattern:REGEXP_EXTRACT_ALL",
        (TEXT, TEXT, AS_INT),
        always(sql.array(STRING)),
        check=regex_at(1, beside=2),
    ).described(
        "The texts of a group (by default the first) of all matches of a regular expression.",
        "REGEXP_EXTRACT_ALL('a1b22', '([0-9]+)')",
        "[1, 22]",
    ),
    scalar(
        "REGEXP_INSTR(string, regex)",
        "text.pattern:REGEXP_INSTR",
        (TEXT, TEXT),
        always(INT),
        check=regex_at(1),
    ).described(
        "The position, from 1, of the first match of a regular expression; 0 without one.",
        "REGEXP_INSTR('ab1', '[0-9]')",
        "3",
    ),
    scalar(
        "REGEXP_SUBSTR(string, regex)",
        "text.pattern:REGEXP_EXTRACT",
        (TEXT, TEXT),
        _NULLABLE_TEXT,
        check=regex_at(1),
    ).described(
        "The first match of a regular expression; NULL without one.", "REGEXP_SUBSTR('ab12', '[0-9]+')", "12"
    ),
    scalar(
        "TYPEOF(value[, is_serializable])",
        "text.characters:typeof",
        (ANY, BOOL),
        _type_name,
        check=constant_at(1),
    ).described(
        "The name of the value's type; with TRUE in full, as a catalog keeps it.",
        "TYPEOF('abc')",
        "CHAR(3) NOT NULL",
    ),
)


# Hashes of character strings and bytes, as hexadecimal digits.


SHA2_BITS = (224, 256, 384, 512)
SHA2_HINT = "ask for 224, 256, 384 or 512 bits"


def _check_bits(call: Call) -> None:
    found = literals(call, 1)
    if found is not None and found[0] not in SHA2_BITS:
        raise unsupported(call, f"with {found[0]} bits", SHA2_HINT)


HASHES: tuple[ScalarFunction, ...] = (
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
        rejects=Rejects.VALUES,
    ).described(
        "The SHA-2 hash of 224, 256, 384 or 512 bits in hexadecimal digits.",
        "SHA2('', 224)",
        "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f",
    ),
)
