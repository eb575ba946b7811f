"""The refusal of plans that DuckDB cannot answer exactly."""

from __future__ import annotations

from sqlstream.errors import Span, UserError


def refuse(what: str, *, hint: str = "", span: Span | None = None) -> UserError:
    """SS3301, to be raised: DuckDB cannot answer `what` exactly as the stream does."""
    return UserError("SS3301", f"{what} has no exact counterpart in DuckDB", span=span, hint=hint)
