"""What the condition of a join gives: keys by which rows meet, and bounds on the distance of their times.

Sides of an equality that are no columns are computed below the join.

Two kinds stay in the condition until here: `a.ts = b.ts + INTERVAL …`, from which an interval join reads its bounds, and
`a.x IS NOT DISTINCT FROM b.x`, for which a batch engine has a key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlstream.errors import Span
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    LiteralValue,
    conjunction,
    conjuncts,
    inputs_of,
    references,
    remap,
    walk,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.node import PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning
from sqlstream.schema import Field, Schema
from sqlstream.specs import JoinKind
from sqlstream.types import (
    APPROXIMATE_ROOTS,
    BOOLEAN,
    LogicalType,
    TypeRoot,
    are_stored_alike,
    is_integer,
    is_interval,
    is_proctime,
    is_timestamp,
)

_NULL_SAFE = "IS NOT DISTINCT FROM"


@dataclasses.dataclass(frozen=True)
class JoinSides:
    """Two inputs and how they are joined: `condition` ranges over the left columns, then the right ones; None is TRUE.

    `schema` is that of the result. `ttls_ms`: what hints say of the state of the sides. `are_shared`: whether other nodes read
    the sides, too.
    """

    kind: JoinKind
    left: PhysicalNode
    right: PhysicalNode
    condition: Expression | None
    schema: Schema
    span: Span | None
    ttls_ms: tuple[int | None, int | None]
    are_shared: tuple[bool, bool]


@dataclasses.dataclass(frozen=True)
class _Equality:
    """`sides`: pairs that are equal in all rows that fulfil the condition; only in those, if it `is_exact`."""

    sides: tuple[tuple[Expression, Expression], ...]
    is_exact: bool


def with_computed_keys(
    planning: Planning, join: JoinSides, keeps_times: bool
) -> tuple[JoinSides, tuple[Expression, ...]] | None:
    """The join by all equalities with one side per input, and which of its columns are the join's. Its inputs have the
    computed keys behind their columns; None where there is nothing to compute. `keeps_times`: the condition is also read as
    bounds of times, so that equalities stay in it."""
    left, right = join.left, join.right
    width = len(left.schema)
    found = {p: e for p in conjuncts(join.condition) if (e := _equality(p, width)) is not None}
    if not found:
        return None
    pairs = tuple(dict.fromkeys(pair for equality in found.values() for pair in equality.sides))
    own_left = tuple(dict.fromkeys(a for a, _ in pairs if not isinstance(a, InputRef)))
    own_right = tuple(dict.fromkeys(b for _, b in pairs if not isinstance(b, InputRef)))
    wide_left = _with_columns(planning, left, own_left, 0, join.are_shared[0])
    wide_right = _with_columns(planning, right, own_right, width, join.are_shared[1])
    shift = len(own_left)
    places = {i: i if i < width else i + shift for i in range(width + len(right.schema))}
    behind = width + shift + len(right.schema)

    def column(side: Expression, own: tuple[Expression, ...], first: int) -> Expression:
        if isinstance(side, InputRef):
            return InputRef(places[side.index], side.type)
        return InputRef(first + own.index(side), side.type)

    parts: list[Expression] = []
    for part in conjuncts(join.condition):
        equality = found.get(part)
        if equality is None or keeps_times or not equality.is_exact:
            parts.append(remap(part, places))
        for a, b in equality.sides if equality is not None else ():
            sides = (column(a, own_left, width), column(b, own_right, behind))
            parts.append(Call("=", sides, BOOLEAN, part.span if isinstance(part, Call) else None))
    fields = join.schema.fields
    own = (*fields[:width], *wide_left.schema.fields[width:])
    if not join.kind.is_left_only:
        own = (*own, *fields[width:], *wide_right.schema.fields[len(right.schema) :])
    wide = dataclasses.replace(
        join, left=wide_left, right=wide_right, condition=conjunction(parts), schema=Schema(own)
    )
    columns = tuple(InputRef(places[i], f.type) for i, f in enumerate(fields))
    return wide, columns


def _equality(part: Expression, left_count: int) -> _Equality | None:
    sides = equality_sides(part, left_count) or _separated(part, left_count)
    if sides is not None:
        if all(isinstance(s, InputRef) for s in sides) or not _can_be_key(sides):
            return None
        return _Equality((sides,), True)
    sides = equality_sides(part, left_count, _NULL_SAFE)
    if sides is None or not _can_be_key(sides):
        return None
    equal = tuple(equality_sides(p, left_count) for p in conjuncts(null_safe_equal(*sides)))
    pairs = tuple(pair for pair in equal if pair is not None)
    # NaN is distinct from itself, but one key with it.
    return _Equality(pairs, sides[0].type.root not in APPROXIMATE_ROOTS) if pairs else None


def _separated(part: Expression, left_count: int) -> tuple[Expression, Expression] | None:
    """The sides of an equality of sums of whole numbers, each term on its side: `a.x - b.x = 1` is `a.x = b.x + 1`, also where a
    sum overflows, since it wraps."""
    if not isinstance(part, Call) or part.function != "=" or not all(is_integer(a.type) for a in part.args):
        return None
    terms = [*_terms(part.args[0], 1), *_terms(part.args[1], -1)]
    of_left: list[tuple[Expression, int]] = []
    of_right: list[tuple[Expression, int]] = []
    for term, sign in terms:
        columns = inputs_of(term)
        if columns and max(columns) < left_count:
            of_left.append((term, sign))
        elif not columns or min(columns) >= left_count:
            of_right.append((term, -sign))
        else:
            return None
    if not of_left or not any(inputs_of(term) for term, _ in of_right):
        return None
    return _sum(of_left), _sum(of_right)


def _terms(value: Expression, sign: int) -> Iterator[tuple[Expression, int]]:
    """The terms of a sum, all of its type, with 1 or -1."""
    if (
        not isinstance(value, Call)
        or value.function not in ("+", "-")
        or len(value.args) < 2
        or any(a.type.root is not value.type.root for a in value.args)
    ):
        yield value, sign
        return
    first, *others = value.args
    yield from _terms(first, sign)
    for other in others:
        yield from _terms(other, sign if value.function == "+" else -sign)


def _sum(terms: list[tuple[Expression, int]]) -> Expression:
    """The sum, which begins with a term that is not negative where there is one."""
    (first, sign), *others = sorted(terms, key=lambda term: -term[1])
    nullable = any(term.type.nullable for term, _ in terms)
    t = first.type.without_time_attribute().with_nullable(nullable)
    total = first if sign > 0 else Call("-", (Literal(0, t.not_null()), first), t)
    for term, each in others:
        total = Call("+" if each > 0 else "-", (total, term), t)
    return total


def _can_be_key(sides: tuple[Expression, Expression]) -> bool:
    if not are_stored_alike(sides[0].type, sides[1].type) or is_interval(sides[0].type):
        return False
    # PROCTIME() has its value when the join looks at the clock.
    reads_clock = any(isinstance(n, InputRef) and is_proctime(n.type) for s in sides for n in walk(s))
    return not reads_clock and is_deterministic(*sides)


def _with_columns(
    planning: Planning, node: PhysicalNode, keys: tuple[Expression, ...], offset: int, is_shared: bool
) -> PhysicalNode:
    if not keys:
        return node
    columns = references(node.schema.types)
    places = {offset + i: i for i in range(len(columns))}
    taken = sum(name.startswith("$key") for name in node.schema.names)
    fields = tuple(
        Field(f"$key{taken + i}", k.type.without_time_attribute().with_nullable(True))
        for i, k in enumerate(keys)
    )
    return plan_calc(
        planning,
        node,
        (*columns, *(remap(k, places) for k in keys)),
        None,
        Schema((*node.schema.fields, *fields)),
        node.span,
        may_merge=not is_shared,
    )


# How far the times of the rows that a join matches are apart, as its condition says.


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
    """The first pair of time columns whose distance the conjuncts bound from both sides, or None. The right column has the
    right side's own number. Event time columns are `Traits.times`; a pair of PROCTIME columns makes a join by processing time."""
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


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def equality_sides(
    part: Expression, left_count: int, function: str = "="
) -> tuple[Expression, Expression] | None:
    """(expression over left columns, expression over right columns still numbered as the join's), or None."""
    if not isinstance(part, Call) or part.function != function:
        return None
    first, second = part.args
    a, b = inputs_of(first), inputs_of(second)
    if not a or not b:
        return None
    if max(a) < left_count <= min(b):
        return first, second
    if max(b) < left_count <= min(a):
        return second, first
    return None


def null_safe_equal(a: Expression, b: Expression) -> Expression:
    """Whether the values are equal, or both NULL."""
    if not (a.type.nullable and b.type.nullable):
        return Call("=", (a, b), BOOLEAN.with_nullable(a.type.nullable or b.type.nullable))
    some = _SOME.get(a.type.root)
    if some is None or a.type.root is not b.type.root:
        return Call("IS NOT DISTINCT FROM", (a, b), BOOLEAN.not_null())
    # Two equalities, by which a join distributes rows.
    values = tuple(Call("COALESCE", (c, Literal(some, c.type.not_null())), c.type.not_null()) for c in (a, b))
    nulls = tuple(Call("IS NULL", (c,), BOOLEAN.not_null()) for c in (a, b))
    parts = (Call("=", values, BOOLEAN.not_null()), Call("=", nulls, BOOLEAN.not_null()))
    return Call("AND", parts, BOOLEAN.not_null())


_SOME: dict[TypeRoot, LiteralValue] = {
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT), 0),
    **dict.fromkeys((TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ), 0),
    **dict.fromkeys((TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY), ""),
    **dict.fromkeys((TypeRoot.FLOAT, TypeRoot.DOUBLE), 0.0),
    TypeRoot.DECIMAL: "0",
    TypeRoot.BOOLEAN: False,
}
"""A value in place of NULL, for types of which every value may be a key."""
