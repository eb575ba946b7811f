"""OBJECT_OF and OBJECT_UPDATE: a structured object is a ROW with named fields."""

from __future__ import annotations

import re

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.rewritten import REWRITTEN_SCALARS
from sqlstream.planner.bind.scope import nested_field
from sqlstream.types import LogicalType, TypeRoot

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")


def bind_object_of(args: tuple[Expression, ...], span: Span | None) -> Expression:
    """A ROW of the values under their keys. The name of the class only has to be one: no class is behind it."""
    if not args or len(args) % 2 == 0:
        raise _wrong_count("OBJECT_OF", "a class name, and a key before each value", span)
    name = _text(args[0])
    if name is None or not _CLASS_NAME.fullmatch(name):
        raise _wrong("OBJECT_OF", "the class name must be a literal such as 'com.example.User'", span)
    keys, values = _keys("OBJECT_OF", args[1::2], span), args[2::2]
    fields = ((k, v.type.without_time_attribute()) for k, v in zip(keys, values, strict=True))
    if not keys:
        raise _wrong("OBJECT_OF", "an object needs a key and a value", span)
    return Call("ROW", values, sql.row(*fields).not_null(), span)


def bind_object_update(args: tuple[Expression, ...], span: Span | None) -> Expression:
    """The object with other values under some keys; NULL where the object is."""
    if len(args) < 3 or len(args) % 2 == 0:
        raise _wrong_count("OBJECT_UPDATE", "an object, and a key before each value", span)
    given, keys = args[0], _keys("OBJECT_UPDATE", args[1::2], span)
    if given.type.root is not TypeRoot.ROW:
        raise _wrong("OBJECT_UPDATE", "the first argument must be an object or a ROW", span)
    updates = {nested_field(given.type, k, span): v for k, v in zip(keys, args[2::2], strict=True)}
    values = [
        _typed(updates[i], f.type) if i in updates else _field(given, i)
        for i, f in enumerate(given.type.fields)
    ]
    named = zip(given.type.fields, values, strict=True)
    updated = sql.row(*((f.name, v.type.without_time_attribute()) for f, v in named))
    row = Call("ROW", tuple(values), updated.not_null(), span)
    if not given.type.nullable:
        return row
    is_null = Call("IS NULL", (given,), sql.BOOLEAN.not_null(), span)
    return Call("CASE", (is_null, Literal(None, updated), row), updated, span)


def _field(row: Expression, index: int) -> Expression:
    field = row.type.fields[index].type
    place = Literal(index, sql.INT.not_null())
    return Call("FIELD", (row, place), field.with_nullable(field.nullable or row.type.nullable))


def _typed(value: Expression, field: LogicalType) -> Expression:
    """The value, of which a NULL without a type gets that of the field."""
    return Literal(None, field.with_nullable(True)) if value.type.root is TypeRoot.NULL else value


def _keys(function: str, keys: tuple[Expression, ...], span: Span | None) -> list[str]:
    texts = [_text(key) for key in keys]
    if not all(texts):
        raise _wrong(function, "a key must be a literal text that is not empty", span)
    if len(set(texts)) < len(texts):
        raise _wrong(function, "a key occurs twice", span)
    return [str(text) for text in texts]


def _text(argument: Expression) -> str | None:
    is_text = (
        isinstance(argument, Literal) and isinstance(argument.value, str) and sql.is_string(argument.type)
    )
    return str(argument.value) if is_text and isinstance(argument, Literal) else None


def _wrong_count(function: str, wanted: str, span: Span | None) -> UserError:
    return UserError(
        "SS2006", f"{function} takes {wanted}", span=span, hint=f"write {REWRITTEN_SCALARS[function]}"
    )


def _wrong(function: str, reason: str, span: Span | None) -> UserError:
    hint = f"write {REWRITTEN_SCALARS[function]}"
    return UserError("SS2006", f"{function}: {reason}", span=span, hint=hint)


STRUCTURED = {"OBJECT_OF": bind_object_of, "OBJECT_UPDATE": bind_object_update}
"""By name of the function."""
