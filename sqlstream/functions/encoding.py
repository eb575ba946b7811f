"""Functions between texts and bytes, of addresses of the web, and tests of texts."""

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
from sqlstream.functions.checks import constant_at, literals, regex_at
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import ScalarFunction
from sqlstream.text.charsets import codec_of
from sqlstream.text.printf_format import read_format
from sqlstream.text.regular_expressions import MalformedRegex, linear_regex
from sqlstream.types import BIGINT, BOOLEAN, INT, STRING, LogicalType

Types = tuple[LogicalType, ...]
_MANY = 100_000
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
    scalar("ENCODE", "ENCODE(string, charset)", (TEXT, TEXT), returns(sql.BYTES), check=_check_charset),
    scalar("DECODE", "DECODE(bytes, charset)", (BYTES, TEXT), returns(STRING), check=_check_charset),
    scalar("UNHEX", "UNHEX(string)", (TEXT,), always(sql.BYTES)),
    scalar("IS_VALID_UTF8", "IS_VALID_UTF8(bytes)", (BYTES,), returns(BOOLEAN)),
    scalar("MAKE_VALID_UTF8", "MAKE_VALID_UTF8(bytes)", (BYTES,), returns(STRING)),
    scalar("URL_ENCODE", "URL_ENCODE(string)", (TEXT,), returns(STRING)),
    scalar("URL_DECODE", "URL_DECODE(string)", (TEXT,), _NULLABLE_TEXT),
    scalar(
        "PARSE_URL",
        "PARSE_URL(url, part[, key])",
        (TEXT, TEXT, TEXT),
        _NULLABLE_TEXT,
        args_min=2,
        check=_check_key,
    ),
    scalar("INET_ATON", "INET_ATON(string)", (TEXT,), always(BIGINT)),
    scalar("INET_NTOA", "INET_NTOA(number)", (AS_BIGINT,), _NULLABLE_TEXT),
    *(
        scalar(name, f"{name}(string)", (TEXT,), always(BOOLEAN.not_null()))
        for name in ("IS_ALPHA", "IS_DIGIT", "IS_DECIMAL")
    ),
    ScalarFunction("ELT", "ELT(index, value1 [, value2]*)", 2, _MANY, _chosen, _chosen_arguments),
    scalar(
        "PRINTF",
        "PRINTF(format [, value]*)",
        (TEXT, ANY),
        _NULLABLE_TEXT,
        args_min=1,
        args_max=_MANY,
        check=_check_format,
    ),
    scalar(
        "REGEXP_EXTRACT_ALL",
        "REGEXP_EXTRACT_ALL(string, regex[, group])",
        (TEXT, TEXT, AS_INT),
        always(sql.array(STRING)),
        args_min=2,
        check=regex_at(1, beside=2),
    ),
    scalar("REGEXP_INSTR", "REGEXP_INSTR(string, regex)", (TEXT, TEXT), always(INT), check=regex_at(1)),
    scalar("REGEXP_SUBSTR", "REGEXP_SUBSTR(string, regex)", (TEXT, TEXT), _NULLABLE_TEXT, check=regex_at(1)),
    scalar(
        "TYPEOF",
        "TYPEOF(value[, is_serializable])",
        (ANY, BOOL),
        _type_name,
        args_min=1,
        check=constant_at(1),
    ),
)
