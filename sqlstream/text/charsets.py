"""Charsets of ENCODE and DECODE."""

from __future__ import annotations

from sqlstream.errors import UserError
from sqlstream.types import LogicalType, TypeRoot

_CODECS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
}


def codec_of(charset: str) -> str:
    """Python's name of a charset, given in any case. UserError SS3460 for another one."""
    codec = _CODECS.get(charset.upper())
    if codec is None:
        hint = f"use one of {', '.join(_CODECS)}"
        raise UserError("SS3460", f'charset "{charset}" does not exist', hint=hint)
    return codec


# Functions as DuckDB SQL over the argument a0: what a stream computes a batch with, and what queries are lowered to.


# As Java's URLEncoder writes: a space is +, and * stays.
URL_ENCODE = "replace(replace(replace(url_encode(a0), '%20', '+'), '~', '%7E'), '%2A', '*')"
URL_DECODE = (
    r"CASE WHEN regexp_full_match(a0, '(?s)(?:[^%]|%[0-9A-Fa-f]{2})*') THEN "
    r"try(url_decode(replace(a0, '+', ' '))) END"
)
_NUMBERS = "list_transform(string_split(a0, '.'), lambda x: CAST(x AS BIGINT))"
INET_ATON = (
    r"CASE WHEN regexp_full_match(a0, '0*[0-9]{1,3}(?:\.0*[0-9]{1,3}){0,3}') THEN "
    "list_transform([" + _NUMBERS + "], lambda n: CASE WHEN list_max(n) > 255 THEN NULL "
    "WHEN len(n) = 1 THEN n[1] WHEN len(n) = 2 THEN n[1] * 16777216 + n[2] "
    "WHEN len(n) = 3 THEN n[1] * 16777216 + n[2] * 65536 + n[3] "
    "ELSE n[1] * 16777216 + n[2] * 65536 + n[3] * 256 + n[4] END)[1] END"
)
INET_NTOA = (
    "CASE WHEN a0 BETWEEN 0 AND 4294967295 THEN "
    "concat_ws('.', a0 // 16777216, a0 // 65536 % 256, a0 // 256 % 256, a0 % 256) END"
)

UNHEX = (
    "CASE WHEN regexp_full_match(a0, '[0-9A-Fa-f]*') THEN "
    "CASE WHEN length(a0) % 2 = 0 THEN from_hex(a0) ELSE from_hex('00' || substr(a0, 2)) END END"
)


# The regular expressions of texts that consist of letters, of digits, or of a number, as Java reads them.


_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"

TEXT_TESTS = {
    "IS_ALPHA": r"\p{L}+",
    "IS_DIGIT": r"\p{Nd}+",
    "IS_DECIMAL": rf"[\x00-\x20]*[+-]?(?:NaN|Infinity|{_NUMBER})[\x00-\x20]*",
}
"""By name of the function; the whole text matches."""


# Names of types in full, as a catalog keeps them.


def serializable_name(t: LogicalType) -> str | None:
    """The type in SQL's words with all that is left out by default; None for one without such a form.

    >>> from sqlstream import types as sql
    >>> serializable_name(sql.STRING), serializable_name(sql.timestamp_ltz(3).not_null())
    ('VARCHAR(2147483647)', 'TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL')
    """
    name = _of_root(t.without_time_attribute().with_nullable(True))
    return None if name is None else name if t.nullable else f"{name} NOT NULL"


def _of_root(t: LogicalType) -> str | None:
    match t.root:
        case TypeRoot.NULL | TypeRoot.SYMBOL:
            return None
        case TypeRoot.VARCHAR:
            return f"VARCHAR({t.length})"
        case TypeRoot.VARBINARY:
            return f"VARBINARY({t.length})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
        case TypeRoot.ARRAY | TypeRoot.MULTISET | TypeRoot.MAP:
            inner = [serializable_name(part) for part in (t.key, t.element) if part is not None]
            return None if None in inner else f"{t.root.value}<{', '.join(map(str, inner))}>"
        case TypeRoot.ROW:
            fields = [(f.name, serializable_name(f.type)) for f in t.fields]
            if any(name is None for _, name in fields):
                return None
            return "ROW<" + ", ".join(f"`{name}` {written}" for name, written in fields) + ">"
        case _:
            return str(t)
