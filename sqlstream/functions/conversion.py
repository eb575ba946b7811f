"""CAST and TRY_CAST. Their target is the type of the call; which casts exist is the binder's to decide."""

from __future__ import annotations

from sqlstream.functions.signature import ScalarFunction

FUNCTIONS: tuple[ScalarFunction, ...] = (
    ScalarFunction("CAST", "CAST(value AS type)", 1, 1, lambda types: None),
    ScalarFunction("TRY_CAST", "TRY_CAST(value AS type)", 1, 1, lambda types: None),
)
