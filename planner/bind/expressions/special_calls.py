"""OBJECT_OF and OBJECT_UPDATE: a structured object is a ROW with named fields."""

from __future__ import annotations

import re

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import FALSE, TRUE, Call, Expression, InputRef, Literal
from sqlstream.functions import REWRITTEN_SCALARS
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.bind.expressions.calls import bind_call
from sqlstream.planner.bind.expressions.casts import plain
from sqlstream.planner.bind.scope import ExpressionBinder, nested_field
from sqlstream.planner.dialect import nodes
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot, is_rowtime

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
        "SS2006", f"{function} takes {wanted}", span=span, hint=f"write {REWRITTEN_SCALARS[function].usage}"
    )


def _wrong(function: str, reason: str, span: Span | None) -> UserError:
    hint = f"write {REWRITTEN_SCALARS[function].usage}"
    return UserError("SS2006", f"{function}: {reason}", span=span, hint=hint)


STRUCTURED = {"OBJECT_OF": bind_object_of, "OBJECT_UPDATE": bind_object_update}
"""By name of the function."""


# CURRENT_WATERMARK: where it may be called, and of what.


_PLACES = ("the SELECT list", "WHERE")
"""What becomes a filter or projection, which knows the watermark of its input."""


def check_current_watermark(args: tuple[Expression, ...], place: str, span: Span | None) -> None:
    """UserError SS3445 where there is no watermark that it could return."""
    if place not in _PLACES:
        hint = "compute it in the SELECT list of a subquery"
        raise UserError("SS3445", f"{place} takes no CURRENT_WATERMARK", span=span, hint=hint)
    if not (isinstance(args[0], InputRef) and is_rowtime(args[0].type)):
        hint = "name a column for which the table declares a WATERMARK, below joins and aggregations that lose it"
        message = "CURRENT_WATERMARK takes a column that is a rowtime attribute"
        raise UserError("SS3445", message, span=span, hint=hint)


# Functions of the rows that an aggregate WITHIN GROUP has collected.


def bind_ordered(binder: ExpressionBinder, node: nodes.OrderedCall) -> Expression:
    """The texts joined, or the array, in the order of the keys. UserError SS3461 for keys without an order, and for LISTAGG of
    what is no text."""
    span, letters = binder.span(node), str(node.args["keys"])
    rows = binder.bind(node.expressions[0])
    assert rows.type.element is not None
    fields = [field.type for field in rows.type.element.fields]
    keys, value = fields[: len(letters) // 2], fields[len(letters) // 2]
    for key in keys:
        if key.root in (*NESTED_ROOTS, TypeRoot.VARIANT):
            message = f"WITHIN GROUP takes no key of type {plain(key)}"
            raise UserError("SS3461", message, span=span, hint="order by a field or element of it")
    order = Literal(letters, sql.char(len(letters)).not_null())
    if node.this == "ORDERED_ARRAY":
        return Call("ORDERED_ARRAY", (rows, order), sql.array(value), span)
    texts = fields[len(keys) :]
    if len(texts) > 2 or not all(map(sql.is_string, texts)):
        shown = ", ".join(str(plain(t)) for t in texts)
        raise UserError(
            "SS3461",
            f"LISTAGG takes a text and a separator, not {shown}",
            span=span,
            hint="CAST the value to STRING",
        )
    return Call("ORDERED_LIST", (rows, order), sql.STRING, span)


# `value operator ANY|ALL (array)`: a comparison with each element, by functions of the array, so that no row is
# unnested.


_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def is_of_array(value: Expression, array: Expression) -> bool:
    """Whether ANY (array) is of the elements of an array: no array is compared with a value that is none."""
    return array.type.root is TypeRoot.ARRAY and value.type.root is not TypeRoot.ARRAY


def quantified_array(
    operator: str, value: Expression, array: Expression, is_all: bool, span: Span | None
) -> Expression:
    """TRUE where the comparison is TRUE for an element (ALL: each), NULL where one is NULL that could be it. UserError SS3472 for
    what has another value each time: it is read several times."""
    if not is_deterministic(value, array):
        hint = "compute it in a subquery in FROM, and refer to its column here"
        message = "what ANY and ALL compare with an array must have one value"
        raise UserError("SS3472", message, span=span, hint=hint)
    # UserError for a value that has no such comparison with an element.
    bind_call(operator, (value, Literal(None, array.type.element or sql.NULL)), span)
    if not is_all:
        return _any(operator, value, array, span)
    return bind_call("NOT", (_any(_OPPOSITE[operator], value, array, span),), span)


def _any(operator: str, value: Expression, array: Expression, span: Span | None) -> Expression:
    nothing = Literal(None, sql.BOOLEAN)

    def call(function: str, *args: Expression) -> Expression:
        return bind_call(function, args, span)

    def contains(element: Expression) -> Expression:
        return call("ARRAY_CONTAINS", array, element)

    is_empty = call("=", call("CARDINALITY", array), Literal(0, sql.INT.not_null()))
    is_unknown = call("OR", call("IS NULL", value), call("IS NULL", array))
    extremes = [call(function, array) for function in _EXTREMES[operator]]
    tests = [call(operator, value, extreme) for extreme in extremes] or [contains(value)]
    found = tests[0] if len(tests) == 1 else call("OR", *tests)
    has_null = contains(Literal(None, array.type.element or sql.NULL))
    return call("CASE", is_empty, FALSE, is_unknown, nothing, found, TRUE, has_null, nothing, FALSE)


_EXTREMES: dict[str, tuple[str, ...]] = {
    "=": (),
    "<>": ("ARRAY_MIN", "ARRAY_MAX"),
    "<": ("ARRAY_MAX",),
    "<=": ("ARRAY_MAX",),
    ">": ("ARRAY_MIN",),
    ">=": ("ARRAY_MIN",),
}
"""The elements that a value is compared with: one of all is less where the least is."""
