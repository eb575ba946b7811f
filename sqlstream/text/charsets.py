"""Charsets of ENCODE and DECODE, and the names that TYPEOF gives."""

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
