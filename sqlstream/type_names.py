"""Names of types in full, as a catalog keeps them."""

from __future__ import annotations

from sqlstream.types import LogicalType, TypeRoot


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
