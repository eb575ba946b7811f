"""AND, OR, NOT and the truth tests of three-valued logic."""

from __future__ import annotations

from sqlstream.functions.arguments import BOOL, always, scalar
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import BOOLEAN

_OPERANDS_MAX = 100_000

FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("AND", "boolean1 AND boolean2", (BOOL, BOOL), BOOLEAN, args_max=_OPERANDS_MAX),
    scalar("OR", "boolean1 OR boolean2", (BOOL, BOOL), BOOLEAN, args_max=_OPERANDS_MAX),
    scalar("NOT", "NOT boolean", (BOOL,), BOOLEAN),
    *(
        scalar(f"IS {test}", f"boolean IS {test}", (BOOL,), always(BOOLEAN.not_null()))
        for test in ("TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN")
    ),
)
