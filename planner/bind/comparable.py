"""Which types can be compared for equality (keys) and for order (ORDER BY)."""

from __future__ import annotations

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.comparison import NESTED
from sqlstream.planner.bind.casts import plain
from sqlstream.types import BOOLEAN, INT, LogicalType, TypeRoot


def require_key(expression: Expression, place: str, span: Span | None) -> Expression:
    """`expression`, which `place` (GROUP BY, …) compares for equality; UserError SS3090 for an ARRAY, MAP, MULTISET, ROW,
    VARIANT or BITMAP."""
    if expression.type.root in NESTED:
        raise UserError(
            "SS3090",
            f"{place} takes no value of type {plain(expression.type)}",
            span=span,
            hint="name the fields or elements that identify a row",
        )
    return expression


def require_group_key(expression: Expression, place: str, span: Span | None) -> Expression:
    """As `require_key`, for a place that also takes arrays and rows of such types."""
    is_nested = expression.type.root in (TypeRoot.ARRAY, TypeRoot.ROW) and _has_keys_alone(expression.type)
    return expression if is_nested else require_key(expression, place, span)


def _has_keys_alone(t: LogicalType) -> bool:
    if t.root in (TypeRoot.ARRAY, TypeRoot.ROW):
        return all(map(_has_keys_alone, t.parts))
    return t.root not in NESTED


def require_order(expression: Expression, span: Span | None) -> Expression:
    """`expression`, which ORDER BY sorts by; UserError SS2008 for a collection, a VARIANT or a BITMAP, which have
    no order, and for a ROW with one."""
    if not _has_order(expression.type):
        raise UserError(
            "SS2008",
            f"ORDER BY takes no value of type {plain(expression.type)}",
            span=span,
            hint="sort by a field of it"
            if expression.type.root is TypeRoot.ROW
            else "sort by an element of it",
        )
    return expression


def _has_order(t: LogicalType) -> bool:
    if t.root is TypeRoot.ROW:
        return all(map(_has_order, t.parts))
    return t.root not in NESTED


Ordering = tuple[Expression, bool, bool]
"""A value to sort by, whether it is descending, and whether NULLs come first."""


def field_orders(by: Ordering) -> list[Ordering]:
    """What to sort by instead of a ROW: whether it is NULL, then its fields, of which NULL is the lowest value."""
    row, is_descending, is_nulls_first = by
    if row.type.root is not TypeRoot.ROW:
        return [by]
    found: list[Ordering] = []
    if row.type.nullable:
        test = "IS NOT NULL" if is_nulls_first else "IS NULL"
        found.append((Call(test, (row,), BOOLEAN.not_null()), False, False))
    for place, field in enumerate(row.type.fields):
        t = field.type.with_nullable(field.type.nullable or row.type.nullable)
        value = Call("FIELD", (row, Literal(place, INT.not_null())), t)
        found += field_orders((value, is_descending, not is_descending))
    return found
