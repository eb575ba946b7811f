"""`value operator ANY|ALL (array)`: a comparison with each element, by functions of the array, so that no row is unnested."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import FALSE, TRUE, Expression, Literal
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.bind.calls import bind_call
from sqlstream.types import TypeRoot

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
