"""AND, OR, NOT and the truth tests of three-valued logic."""

from __future__ import annotations

from sqlstream.functions.arguments import BOOL, always, scalar
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import BOOLEAN

_OPERANDS_MAX = 100_000

FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "boolean1 AND boolean2", "comparison:and_", (BOOL, BOOL), BOOLEAN, name="AND", args=(2, _OPERANDS_MAX)
    ),
    scalar(
        "boolean1 OR boolean2", "comparison:or_", (BOOL, BOOL), BOOLEAN, name="OR", args=(2, _OPERANDS_MAX)
    ),
    scalar("NOT boolean", "comparison:NOT", (BOOL,), BOOLEAN, name="NOT"),
    scalar("boolean IS TRUE", "comparison:IS_TRUE", (BOOL,), always(BOOLEAN.not_null()), name="IS TRUE"),
    scalar(
        "boolean IS NOT TRUE",
        "comparison:IS_NOT_TRUE",
        (BOOL,),
        always(BOOLEAN.not_null()),
        name="IS NOT TRUE",
    ),
    scalar("boolean IS FALSE", "comparison:IS_FALSE", (BOOL,), always(BOOLEAN.not_null()), name="IS FALSE"),
    scalar(
        "boolean IS NOT FALSE",
        "comparison:IS_NOT_FALSE",
        (BOOL,),
        always(BOOLEAN.not_null()),
        name="IS NOT FALSE",
    ),
    scalar(
        "boolean IS UNKNOWN", "comparison:IS_NULL", (BOOL,), always(BOOLEAN.not_null()), name="IS UNKNOWN"
    ),
    scalar(
        "boolean IS NOT UNKNOWN",
        "comparison:IS_NOT_NULL",
        (BOOL,),
        always(BOOLEAN.not_null()),
        name="IS NOT UNKNOWN",
    ),
)
