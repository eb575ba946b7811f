"""A function as SQL sees it: name, arguments, result, description and example, and the place of its implementation."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Self

from sqlstream.expressions import Call, Expression
from sqlstream.types import LogicalType

ResultType = Callable[[tuple[LogicalType, ...]], "LogicalType | None"]
"""From argument types to the result type (nullability included), or None when the arguments do not fit."""

Coercion = Callable[[tuple[LogicalType, ...]], "tuple[LogicalType, ...] | None"]
"""From argument types to those they are cast to (Flink's implicit casts), or None when they do not fit."""

Accumulated = Callable[[tuple[LogicalType, ...]], "tuple[LogicalType, ...]"]
"""From the types of an aggregate's arguments to those of its accumulator's columns."""

Refinement = Callable[[LogicalType, "tuple[Expression, ...]"], LogicalType]
"""Narrows the result type by literal arguments (the digits of ROUND, the index of FIELD)."""

Check = Callable[[Call], None]
"""UserError, without a position, for a call that type-checks and that no row could make work: a parameter that is not constant,
a literal pattern that is malformed, an element type that has no form."""


class Rejects(enum.Enum):
    """What of its arguments makes a call fail for a row; CASE and AND spare the rows that do not reach it.

    Overflow, division by zero and what CAST cannot read are known of by their operators (runtime/evaluate/fallible.py).
    """

    VALUES = "some values of its arguments"
    PARAMETERS = "some values of the arguments behind the first; the planner checks those that are constant"


AGGREGATED = "(VALUES (3), (1), (CAST(NULL AS INT)), (3)) AS t (v)"
"""The rows of the examples of aggregate functions."""

IS_DETERMINISTIC: dict[str, bool] = {}
"""The scalar functions by name, as `arguments.scalar` makes them: whether equal arguments give equal values, always."""


@dataclasses.dataclass(frozen=True)
class DescribedFunction:
    """What DESCRIBE FUNCTION and docs/sql/functions.md say.

    `usage` is its SQL form(s), for hints too. `value` is what the CLI prints for `example`; both are empty where a call has no
    fixed result. Without a `description` there is no call by name: an operator, or what the planner alone writes.
    """

    name: str
    usage: str
    description: str = dataclasses.field(default="", kw_only=True)
    example: str = dataclasses.field(default="", kw_only=True)
    value: str = dataclasses.field(default="", kw_only=True)

    def described(self, description: str, example: str = "", value: str = "") -> Self:
        return dataclasses.replace(self, description=description, example=example, value=value)


@dataclasses.dataclass(frozen=True)
class ScalarFunction(DescribedFunction):
    """One scalar function or operator.

    `implementation` names its builder in `sqlstream.runtime.evaluate`: `text.string:LPAD`. `coerce` runs first,
    `result_type` on the coerced types. A function is pure unless not `is_deterministic`.
    `tries_text`: text that cannot be read as the target type becomes NULL (TRY_CAST) instead of an error. What `check` lets
    pass, the runtime computes.
    """

    args_min: int
    args_max: int
    result_type: ResultType
    coerce: Coercion
    is_deterministic: bool = True
    refine: Refinement | None = None
    tries_text: bool = False
    check: Check | None = None
    implementation: str = ""
    rejects: Rejects | None = None

    def type_of(self, args: tuple[Expression, ...]) -> LogicalType | None:
        """The result type of a call with these (already coerced) arguments; None when they do not fit."""
        result = self.result_type(tuple(a.type for a in args))
        return self.refine(result, args) if result is not None and self.refine is not None else result


@dataclasses.dataclass(frozen=True)
class AggregateFunction(DescribedFunction):
    """One aggregate function; `example` is over the rows AGGREGATED of a column `v`.

    `accumulator(args)` gives the types of the accumulator columns that LOCAL sends to GLOBAL; None for an aggregate that cannot
    be split in two phases. `implementation` names its accumulator in `sqlstream.runtime.aggregates`: `sums:Sum`; `retracting`
    another one, for rows that may be retracted. `ignores_distinct`: equal values count once, or are kept, anyway.
    """

    args_min: int
    args_max: int
    result_type: ResultType
    accumulator: Accumulated | None
    coerce: Coercion
    implementation: str = ""
    retracting: str = ""
    ignores_distinct: bool = False
