"""Signatures of functions for the binder: number and types of the arguments, and the result type."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlstream.expressions import Call, Expression
from sqlstream.types import LogicalType

ResultType = Callable[[tuple[LogicalType, ...]], "LogicalType | None"]
"""From argument types to the result type (nullability included), or None when the arguments do not fit."""

Coercion = Callable[[tuple[LogicalType, ...]], "tuple[LogicalType, ...] | None"]
"""From argument types to those they are cast to (Flink's implicit casts), or None when they do not fit."""

Refinement = Callable[[LogicalType, "tuple[Expression, ...]"], LogicalType]
"""Narrows the result type by literal arguments (the digits of ROUND, the index of FIELD)."""

Check = Callable[[Call], None]
"""UserError, without a position, for a call that type-checks and that no row could make work: a parameter that is not constant,
a literal pattern that is malformed, an element type that has no form."""


@dataclasses.dataclass(frozen=True)
class ScalarFunction:
    """One scalar function or operator. `usage` is its SQL form(s), for hints.

    `coerce` runs first (default: arguments as they are), `result_type` on the coerced types. A function is
    pure unless not `is_deterministic`. `tries_text`: text that cannot be read as the target type becomes NULL
    (TRY_CAST) instead of an error. What `check` lets pass, the runtime computes.
    """

    name: str
    usage: str
    args_min: int
    args_max: int
    result_type: ResultType
    coerce: Coercion = lambda types: types
    is_deterministic: bool = True
    refine: Refinement | None = None
    tries_text: bool = False
    check: Check | None = None

    def type_of(self, args: tuple[Expression, ...]) -> LogicalType | None:
        """The result type of a call with these (already coerced) arguments; None when they do not fit."""
        result = self.result_type(tuple(a.type for a in args))
        return self.refine(result, args) if result is not None and self.refine is not None else result


@dataclasses.dataclass(frozen=True)
class AggregateFunction:
    """One aggregate function.

    `accumulator(args)` gives the types of the accumulator columns that LOCAL sends to GLOBAL; None for an
    aggregate that cannot be split in two phases.
    """

    name: str
    usage: str
    args_min: int
    args_max: int
    result_type: ResultType
    accumulator: Callable[[tuple[LogicalType, ...]], tuple[LogicalType, ...]] | None
    coerce: Coercion = lambda types: types
