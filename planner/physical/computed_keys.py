"""Equalities of a join that are not yet of two columns: their sides are computed below it, so that rows meet by them.

`a.ts = b.ts + INTERVAL …` stays in the condition until here, since an interval join reads its bounds from it, and
`a.x IS NOT DISTINCT FROM b.x`, since a batch engine has a key for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    inputs_of,
    remap,
    walk,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.calc import identity, plan_calc
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.relational.nodes import Join
from sqlstream.planner.rules.correlated_domain import null_safe_equal
from sqlstream.planner.rules.join_keys import equality_sides
from sqlstream.schema import Field, Schema
from sqlstream.types import APPROXIMATE_ROOTS, BOOLEAN, are_stored_alike, is_integer, is_interval, is_proctime

_NULL_SAFE = "IS NOT DISTINCT FROM"


@dataclasses.dataclass(frozen=True)
class WideJoin:
    """A join whose inputs have the computed keys behind their columns. `columns`: those of the join itself."""

    left: PhysicalNode
    right: PhysicalNode
    node: Join
    columns: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True)
class _Equality:
    """`sides`: pairs that are equal in all rows that fulfil the condition; only in those, if it `is_exact`."""

    sides: tuple[tuple[Expression, Expression], ...]
    is_exact: bool


def with_computed_keys(
    planning: Planning, left: PhysicalNode, right: PhysicalNode, node: Join, keeps_times: bool
) -> WideJoin | None:
    """The join by all equalities with one side per input; None where there is nothing to compute. `keeps_times`: the condition
    is also read as bounds of times, so that equalities stay in it."""
    width = len(left.schema)
    found = {p: e for p in conjuncts(node.condition) if (e := _equality(p, width)) is not None}
    if not found:
        return None
    pairs = tuple(dict.fromkeys(pair for equality in found.values() for pair in equality.sides))
    own_left = tuple(dict.fromkeys(a for a, _ in pairs if not isinstance(a, InputRef)))
    own_right = tuple(dict.fromkeys(b for _, b in pairs if not isinstance(b, InputRef)))
    wide_left = _with_columns(planning, left, own_left, 0, node.left in planning.shared)
    wide_right = _with_columns(planning, right, own_right, width, node.right in planning.shared)
    shift = len(own_left)
    places = {i: i if i < width else i + shift for i in range(width + len(right.schema))}
    behind = width + shift + len(right.schema)

    def column(side: Expression, own: tuple[Expression, ...], first: int) -> Expression:
        if isinstance(side, InputRef):
            return InputRef(places[side.index], side.type)
        return InputRef(first + own.index(side), side.type)

    parts: list[Expression] = []
    for part in conjuncts(node.condition):
        equality = found.get(part)
        if equality is None or keeps_times or not equality.is_exact:
            parts.append(remap(part, places))
        for a, b in equality.sides if equality is not None else ():
            sides = (column(a, own_left, width), column(b, own_right, behind))
            parts.append(Call("=", sides, BOOLEAN, part.span if isinstance(part, Call) else None))
    fields = node.schema.fields
    own = (*fields[:width], *wide_left.schema.fields[width:])
    if not node.kind.outputs_left_alone:
        own = (*own, *fields[width:], *wide_right.schema.fields[len(right.schema) :])
    wide = dataclasses.replace(node, condition=conjunction(parts), schema=Schema(own))
    columns = tuple(InputRef(places[i], f.type) for i, f in enumerate(fields))
    return WideJoin(wide_left, wide_right, wide, columns)


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
    columns = identity(node.schema)
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
