"""CURRENT_WATERMARK: where it may be called, and of what."""

from __future__ import annotations

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.types import is_rowtime

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
