"""Conditions on the rows of a result, as nodes hand them down to their inputs (client/verification/contributing.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sqlstream.expressions import Call, Expression, Literal, inputs_of

EQUAL = "IS NOT DISTINCT FROM"


@dataclasses.dataclass(frozen=True)
class Condition:
    """A part of a WHERE. `is_of_key`: it follows from the values of the result's row; else the statement itself filters so."""

    expression: Expression
    is_of_key: bool


def of_columns(conditions: Iterable[Condition], columns: Iterable[int]) -> list[Condition]:
    """The conditions that read only these columns, and at least one."""
    allowed = frozenset(columns)
    return [c for c in conditions if (read := inputs_of(c.expression)) and read <= allowed]


def accepts_null(condition: Condition) -> bool:
    """Whether it may hold for the NULLs of an outer join's missing side, of which no row of a table is the origin."""
    expression = condition.expression
    if isinstance(expression, Call) and expression.function == EQUAL:
        value = expression.args[1]
        return not isinstance(value, Literal) or value.value is None
    return isinstance(expression, Call) and expression.function not in ("=", "<", "<=", ">", ">=")
