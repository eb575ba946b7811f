"""The refusal of plans that a batch engine cannot answer exactly."""

from __future__ import annotations

from sqlstream.errors import Span, UserError

PYTHON_HINT = "DuckDB calls Python functions: SET 'execution.batch.engine' = 'duckdb'"
AGGREGATE_HINT = "a batch engine calls no Python aggregates: SET 'execution.runtime-mode' = 'STREAMING'"


def refuse(engine: str, what: str, *, hint: str = "", span: Span | None = None) -> UserError:
    """SS3301, to be raised: `engine` cannot answer `what` exactly as the stream does."""
    return UserError("SS3301", f"{what} has no exact counterpart in {engine}", span=span, hint=hint)
