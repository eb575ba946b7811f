"""CAST and TRY_CAST: the target is the type of the call, and the binder checks that the cast exists."""

from __future__ import annotations

from sqlstream.functions.signature import ScalarFunction

FUNCTIONS: tuple[ScalarFunction, ...] = (
    ScalarFunction("CAST", "CAST(value AS type)", 1, 1, lambda types: None),
    ScalarFunction("TRY_CAST", "TRY_CAST(value AS type)", 1, 1, lambda types: None),
)
