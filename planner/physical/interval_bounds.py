"""Reads a join condition as bounds on the distance of two times."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Call, Expression, InputRef, Literal, walk
from sqlstream.planner.physical.traits import Traits
from sqlstream.types import LogicalType, TypeRoot, is_proctime, is_timestamp

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclasses.dataclass(frozen=True)
class IntervalBounds:
    """`lower_ms <= left_time - right_time <= upper_ms`; `condition` holds the other conjuncts."""

    left_time: int
    right_time: int
    lower_ms: int
    upper_ms: int
    is_event_time: bool
    condition: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True)
class _Bound:
    left: int
    right: int
    lower_ms: int | None
    upper_ms: int | None
    is_exact: bool


def find_interval(
    parts: tuple[Expression, ...], left: Traits, right: Traits, left_types: tuple[LogicalType, ...]
) -> IntervalBounds | None:
    """The first pair of time columns (left column, right column in the right side's own numbers) whose distance the
    conjuncts bound from both sides, or None. Event time columns are `Traits.times`; a pair of PROCTIME columns makes
    a join by processing time."""
    left_count = len(left_types)
    bounds = {part: bound for part in parts if (bound := _bound(part, left_count)) is not None}
    for pair in dict.fromkeys((b.left, b.right) for b in bounds.values()):
        mine = {p: b for p, b in bounds.items() if (b.left, b.right) == pair}
        lower = [b.lower_ms for b in mine.values() if b.lower_ms is not None]
        upper = [b.upper_ms for b in mine.values() if b.upper_ms is not None]
        is_event_time = pair[0] in left.times and pair[1] in right.times
        if not lower or not upper or not (is_event_time or _is_on_clock(mine, left_count)):
            continue
        covered = {p for p, b in mine.items() if b.is_exact}
        rest = tuple(p for p in parts if p not in covered)
        return IntervalBounds(*pair, max(lower), min(upper), is_event_time, rest)
    return None


def _is_on_clock(bounds: dict[Expression, _Bound], left_count: int) -> bool:
    refs = [n for part in bounds for n in walk(part) if isinstance(n, InputRef)]
    return all(is_proctime(r.type) for r in refs)


def _bound(part: Expression, left_count: int) -> _Bound | None:
    if not isinstance(part, Call) or part.function not in _MIRRORED or len(part.args) != 2:
        return None
    first, second = (_time_plus(a) for a in part.args)
    if first is None or second is None:
        return None
    function = part.function
    if first[0].index >= left_count:
        first, second, function = second, first, _MIRRORED[function]
    (left, left_ms), (right, right_ms) = first, second
    if not left.index < left_count <= right.index or left.type.root is not right.type.root:
        return None
    # left + left_ms <op> right + right_ms  is  left - right <op> right_ms - left_ms.
    distance = right_ms - left_ms
    is_exact = left.type.precision <= 3 and right.type.precision <= 3
    strict = 1 if is_exact and function in ("<", ">") else 0
    lower = distance + strict if function in (">", ">=", "=") else None
    upper = distance - strict if function in ("<", "<=", "=") else None
    if not is_exact:
        # The operator compares milliseconds: widen the bounds by one and keep the exact condition.
        lower = None if lower is None else lower - 1
        upper = None if upper is None else upper + 1
    return _Bound(left.index, right.index - left_count, lower, upper, is_exact)


def _time_plus(expression: Expression) -> tuple[InputRef, int] | None:
    """(timestamp column, milliseconds added to it), through casts that keep milliseconds."""
    if isinstance(expression, InputRef):
        return (expression, 0) if is_timestamp(expression.type) else None
    if not isinstance(expression, Call):
        return None
    if expression.function == "CAST":
        inner = _time_plus(expression.args[0])
        keeps = inner is not None and expression.type.root is inner[0].type.root
        return inner if keeps and expression.type.precision >= 3 else None
    if expression.function not in ("+", "-") or len(expression.args) != 2:
        return None
    first, second = expression.args
    if isinstance(first, Literal) and expression.function == "+":
        first, second = second, first
    inner = _time_plus(first)
    if inner is None or not isinstance(second, Literal) or second.type.root is not TypeRoot.INTERVAL_DAY_TIME:
        return None
    if not isinstance(second.value, int):
        return None
    return inner[0], inner[1] + (second.value if expression.function == "+" else -second.value)
