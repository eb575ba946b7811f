"""Which types can be compared for equality (keys) and for order (ORDER BY)."""

from __future__ import annotations

from planner.bind.casts import plain
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression
from sqlstream.functions.comparison import NESTED
from sqlstream.types import LogicalType, TypeRoot


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
    no order."""
    if expression.type.root in (
        TypeRoot.ARRAY,
        TypeRoot.MAP,
        TypeRoot.MULTISET,
        TypeRoot.VARIANT,
        TypeRoot.BITMAP,
    ):
        raise UserError(
            "SS2008",
            f"ORDER BY takes no value of type {plain(expression.type)}",
            span=span,
            hint="sort by an element of it",
        )
    return expression
