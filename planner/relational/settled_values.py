"""Which queries of WITH MUTUALLY RECURSIVE need no rounds kept: each of them is a DISTINCT, or has the least or greatest value of
each key; and a better value in a row that is read (a lower one, for the least) makes rows that are as good or better.

The rows of such queries are the least fixpoint of a monotone function: they are the same in whatever order rows are made, round
by round or not. That MIN and MAX may be taken within the rounds is the premappability of Zaniolo et al., "Fixpoint semantics and
optimization of recursive Datalog programs with aggregates" (2017). They come to an end where rounds do: a value
of a key is made once, and then only a better one.

What a step may do with a value depends on its type:
  whole numbers   `+`, `-`, LEAST and GREATEST, which are monotone as long as nothing leaves the range.
  FLOAT, DOUBLE   the same: IEEE 754 rounds monotonously, and for MIN and MAX NaN is the greatest number. But -Infinity + Infinity
                  is NaN, which is greater than the sum of a greater value: a sum that is NaN is an error (`has_sums`). A value
                  is not subtracted, and a greatest one not compared: NaN would be the worst behind it, or pass nowhere.
  DECIMAL         LEAST and GREATEST. A sum has more digits than the value; a CAST to as many gives NULL, the worst value, also
                  where the value is too good. One of more than 18 digits is no number of 64 bits.
  times           nothing: they are passed on.
  texts           They have no number of 64 bits in their order, and `||` is not monotone: 'a' < 'ab', but 'az' > 'abz'.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from sqlstream.expressions import (
    AggregateCall,
    Call,
    Expression,
    InputRef,
    Literal,
    conjuncts,
    inputs_of,
    walk,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.recursive_query import Iterate, MutualIterate, RecursiveScan, free_levels
from sqlstream.planner.relational.recursive_step import in_order, treats_rows_alone
from sqlstream.specs.join import JoinKind
from sqlstream.types import APPROXIMATE_ROOTS, INTEGER_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

Tags = tuple[int, ...]
"""By column: KEY for a value that stays, LEAST for one that may be replaced by a lower one, GREATEST by a higher one."""
KEY, LEAST, GREATEST = 0, -1, 1

DECIMAL_DIGITS = 18
"""Of a DECIMAL that is a number of 64 bits."""
_TIMES = (TypeRoot.DATE, TypeRoot.TIME, *TIMESTAMP_ROOTS)


@dataclasses.dataclass(frozen=True)
class SettledValues:
    """`node` with queries that do not group: each has the rows of which its grouping keeps one by key. `extremes` are the tags of
    the columns, by query: they say which one is kept. `has_sums`: values of FLOAT and DOUBLE are parts of sums."""

    node: MutualIterate
    extremes: tuple[Tags, ...]
    has_sums: bool = False


def settled_values(node: MutualIterate) -> SettledValues | None:
    """None where the rows of the queries depend on the rounds."""
    inlined = _inlined(node)
    levels = frozenset(inlined.levels)
    bodies, extremes = [], []
    for body in inlined.bodies:
        found = _made_of(body)
        if found is None:
            return None
        bodies.append(_simplified(found[0], levels))
        extremes.append(found[1])
    tags_of = _Tags(dict(zip(inlined.levels, extremes, strict=True)))
    for body, wanted in zip(bodies, extremes, strict=True):
        tags = tags_of.of(body)
        if tags is None or any(tag not in (KEY, own) for tag, own in zip(tags, wanted, strict=True)):
            return None
    settled = dataclasses.replace(inlined, bodies=tuple(bodies))
    return SettledValues(settled, tuple(extremes), tags_of.has_sums)


def best_of_recursion(node: plan.Aggregate, query: Iterate) -> plan.RelationalNode | None:
    """MIN or MAX by key over a recursive query, as a query that makes no rows but the best ones; None where a row that is not the
    best of its key may make rows that are needed, or where there is more than one value."""
    keys, calls = node.keys, node.calls
    columns = [*keys, *(call.args[0] for call in calls if call.args)]
    covers_all = sorted(columns) == [*range(len(query.schema))] and len(calls) == 1 and node.ttl_ms is None
    if not (covers_all and treats_rows_alone(query.step, query.level)):
        return None
    rows = plan.Union(branches=(query.first, query.step), schema=query.schema, span=query.span)
    best = dataclasses.replace(node, input=rows)
    body = in_order(best, [columns.index(place) for place in range(len(columns))])
    mutual = MutualIterate(
        names=(query.name,),
        level=query.level,
        bodies=(body,),
        columns=(query.schema,),
        read=(0,),
        rounds_max=0,
        is_error=False,
        schema=query.schema,
        span=query.span,
    )
    if settled_values(mutual) is None:
        return None
    return dataclasses.replace(in_order(mutual, columns), schema=node.schema)


# Queries that keep rows as often as they are made.


def _inlined(node: MutualIterate) -> MutualIterate:
    """A query that does not group is replaced by its text wherever others read it, unless it reads itself or is in the result."""
    for place, body in enumerate(node.bodies):
        level = node.level + place
        # A result of several queries has the number of the query in each row.
        keeps_numbers = len(node.read) == 1 or place > max(node.read)
        is_read_alone = keeps_numbers and place not in node.read and level not in free_levels(body)
        if is_read_alone and _made_of(body) is None:
            return _inlined(_without(node, place))
    return node


def _without(node: MutualIterate, place: int) -> MutualIterate:
    levels = {
        old: node.level + new for new, old in enumerate(n for n in node.levels if n != node.level + place)
    }
    made: dict[int, plan.RelationalNode] = {}

    def moved(below: plan.RelationalNode) -> plan.RelationalNode:
        if id(below) not in made:
            if isinstance(below, RecursiveScan) and below.level in levels:
                made[id(below)] = dataclasses.replace(below, level=levels[below.level])
            elif isinstance(below, RecursiveScan) and below.level == node.level + place:
                made[id(below)] = moved(node.bodies[place])
            else:
                made[id(below)] = (
                    below.with_inputs(tuple(map(moved, below.inputs))) if below.inputs else below
                )
        return made[id(below)]

    rest = [number for number in range(len(node.bodies)) if number != place]
    return dataclasses.replace(
        node,
        names=tuple(node.names[n] for n in rest),
        bodies=tuple(moved(node.bodies[n]) for n in rest),
        columns=tuple(node.columns[n] for n in rest),
        read=tuple(rest.index(n) for n in node.read),
    )


# What makes the rows of a query.


def _made_of(body: plan.RelationalNode) -> tuple[plan.RelationalNode, Tags] | None:
    """The input of the grouping that the body is, with its columns in the body's order, and their tags; None where the body is no
    DISTINCT, and no MIN or MAX by key."""
    below = body.input if isinstance(body, plan.Project) else body
    if not isinstance(below, plan.Aggregate) or not below.keys or below.ttl_ms is not None:
        return None
    keys = len(below.keys)
    if not all(map(_is_extreme, below.calls, below.schema.types[keys:])):
        return None
    columns = [*below.keys, *(call.args[0] for call in below.calls)]
    tags = [*[KEY] * keys, *(GREATEST if call.function == "MAX" else LEAST for call in below.calls)]
    rows = in_order(below.input, columns)
    if not isinstance(body, plan.Project):
        return rows, tuple(tags)
    read = [_widened_column(e) for e in body.expressions]
    if None in read or len({*read}) < len(read) or not {*read} >= {*range(keys)}:
        return None
    made = dataclasses.replace(body, input=rows)
    own = tuple(tags[place] for place in read if place is not None)
    if not all(_is_ordered(t) for t, tag in zip(body.schema.types, own, strict=True) if tag):
        return None
    return made, own


def _is_extreme(call: AggregateCall, t: LogicalType) -> bool:
    return call.function in ("MIN", "MAX") and call.filter < 0 and _is_ordered(t)


def why_rounds(node: MutualIterate) -> str:
    """What a plan says of the rounds that are kept: the first value of which no number of 64 bits has the order, if any."""
    for body in node.bodies:
        below = body.input if isinstance(body, plan.Project) else body
        if isinstance(below, plan.Aggregate):
            types = below.schema.types[len(below.keys) :]
            for call, t in zip(below.calls, types, strict=True):
                if call.function in ("MIN", "MAX") and not _is_ordered(t):
                    return f"kept, for {call.function} of {t.with_nullable(True)}"
    return "kept"


def _is_ordered(t: LogicalType) -> bool:
    """Whether the operator has a number of 64 bits for a value (runtime.operators.settled_rows)."""
    is_decimal = t.root is TypeRoot.DECIMAL and t.precision <= DECIMAL_DIGITS
    return is_decimal or t.root in (*INTEGER_ROOTS, *APPROXIMATE_ROOTS, *_TIMES)


def _widened_column(expression: Expression) -> int | None:
    """The column that the expression is, perhaps as a number of more digits."""
    match expression:
        case InputRef():
            return expression.index
        case Call(function="CAST", args=(InputRef() as column,)) if _is_widening(
            column.type, expression.type
        ):
            return column.index
    return None


def _is_widening(t: LogicalType, wanted: LogicalType) -> bool:
    """Whether a CAST keeps the order, and has another value for each."""
    if t.same_as(wanted.with_nullable(t.nullable)):
        return True
    if wanted.root is TypeRoot.DECIMAL and t.root is TypeRoot.DECIMAL:
        return t.scale <= wanted.scale and t.precision - t.scale <= wanted.precision - wanted.scale
    if wanted.root is TypeRoot.DOUBLE:
        return t.root in (*INTEGER_ROOTS[:-1], TypeRoot.FLOAT)
    whole = t.root in INTEGER_ROOTS and wanted.root in INTEGER_ROOTS
    return whole and INTEGER_ROOTS.index(t.root) <= INTEGER_ROOTS.index(wanted.root)


def _simplified(node: plan.RelationalNode, levels: frozenset[int]) -> plan.RelationalNode:
    """The node without its DISTINCTs and with joins for its IN: the query that reads it keeps a row once, however often it
    comes."""
    made: dict[int, plan.RelationalNode] = {}

    def simple(below: plan.RelationalNode) -> plan.RelationalNode:
        if id(below) not in made:
            made[id(below)] = below if not levels & free_levels(below) else changed(below)
        return made[id(below)]

    def changed(below: plan.RelationalNode) -> plan.RelationalNode:
        if isinstance(below, plan.Aggregate) and below.keys and not below.calls and below.ttl_ms is None:
            return in_order(simple(below.input), list(below.keys))
        if isinstance(below, plan.Join) and below.kind is JoinKind.SEMI and levels & free_levels(below.right):
            inner = dataclasses.replace(
                below,
                left=simple(below.left),
                right=simple(below.right),
                kind=JoinKind.INNER,
                schema=below.left.schema.concat(below.right.schema),
            )
            return in_order(inner, [*range(len(below.left.schema))])
        return below.with_inputs(tuple(map(simple, below.inputs))) if below.inputs else below

    return simple(node)


# Which columns may get better values.


class _Tags:
    """The tags of the columns of nodes, from those of the queries that they read. `has_sums` as in SettledValues.

    State: those that were asked for."""

    def __init__(self, of_queries: dict[int, Tags]) -> None:
        self.has_sums = False
        self._of_queries = of_queries
        self._levels = frozenset(of_queries)
        self._known: dict[int, Tags | None] = {}

    def of(self, node: plan.RelationalNode) -> Tags | None:
        """None where a row is made of several rows together, or a better value may make a worse row."""
        if id(node) not in self._known:
            self._known[id(node)] = self._of(node)
        return self._known[id(node)]

    def _of(self, node: plan.RelationalNode) -> Tags | None:
        if isinstance(node, RecursiveScan) and node.level in self._levels:
            return self._of_queries[node.level]
        if not self._levels & free_levels(node):
            return (KEY,) * len(node.schema)
        if not is_deterministic(*node.scalar_expressions()):
            return None
        below = [self.of(each) for each in node.inputs]
        known = [tags for tags in below if tags is not None]
        if len(known) < len(below):
            return None
        match node:
            case plan.Filter():
                return known[0] if _passes_better(node.condition, known[0]) else None
            case plan.Project():
                found = [_tag(e, known[0]) for e in node.expressions]
                self.has_sums |= any(_has_sum(e, known[0]) for e in node.expressions)
                tags = tuple(tag for tag in found if tag is not None)
                return tags if len(tags) == len(found) else None
            case plan.Union():
                return _common(known)
            case plan.Join(kind=JoinKind.INNER | JoinKind.SEMI) if node.ttls_ms == (None, None):
                both = (*known[0], *known[1])
                if not _passes_better(node.condition, both):
                    return None
                return known[0] if node.kind is JoinKind.SEMI else both
            case plan.Unnest() | plan.Expand() if not any(known[0]):
                return (KEY,) * len(node.schema)
        return None


def _common(branches: Sequence[Tags]) -> Tags | None:
    found = []
    for column in zip(*branches, strict=True):
        kinds = {*column} - {KEY}
        if len(kinds) > 1:
            return None
        found.append(kinds.pop() if kinds else KEY)
    return tuple(found)


def _passes_better(condition: Expression | None, tags: Tags) -> bool:
    """Whether a row with a better value passes too."""
    return all(
        not any(tags[i] for i in inputs_of(part)) or _is_bound(part, tags) for part in conjuncts(condition)
    )


def _is_bound(part: Expression, tags: Tags) -> bool:
    """Whether it is `value < x` for a LEAST value, or `value > x` for a GREATEST one."""
    if not isinstance(part, Call) or part.function not in ("<", "<=", ">", ">="):
        return False
    left, right = (_tag(e, tags) for e in part.args)
    if left is None or right is None:
        return False
    if any(_is_approximate(e) for e in part.args):
        # No number is less than NaN or greater, and of the sums with Infinity none is less: one that is NaN need not pass.
        is_strict = part.function in ("<", ">") or any(map(_is_finite, part.args))
        if GREATEST in (left, right) or not is_strict:
            return False
    wanted = LEAST if part.function in ("<", "<=") else GREATEST
    return left in (KEY, wanted) and right in (KEY, -wanted)


def _tag(expression: Expression, tags: Tags) -> int | None:
    """The tag of the expression; None where it is not known which way its value goes."""
    read = {tags[i] for i in inputs_of(expression)}
    if not read - {KEY}:
        return KEY
    match expression:
        case InputRef():
            return tags[expression.index]
        case Call(function="CAST", args=(value,)) if _is_widening(value.type, expression.type):
            return _tag(value, tags)
        case Call(function="LEAST" | "GREATEST") if _are_of(expression, (*_SUMMED, TypeRoot.DECIMAL)):
            return _of_parts([_tag(e, tags) for e in expression.args])
        case Call(function="+") if _are_of(expression, _SUMMED):
            return _of_parts([_tag(e, tags) for e in expression.args])
        case Call(function="-", args=(left, right)) if _are_of(expression, _SUMMED):
            taken = _tag(right, tags)
            if taken is None or (taken != KEY and _is_approximate(expression)):
                return None
            return _of_parts([_tag(left, tags), -taken])
    return None


_SUMMED = (*INTEGER_ROOTS, *APPROXIMATE_ROOTS)


def _are_of(call: Call, roots: Sequence[TypeRoot]) -> bool:
    return all(t.root in roots and _is_ordered(t) for t in (call.type, *(e.type for e in call.args)))


def _is_approximate(expression: Expression) -> bool:
    return expression.type.root in APPROXIMATE_ROOTS


def _is_finite(expression: Expression) -> bool:
    value = expression.value if isinstance(expression, Literal) else None
    return isinstance(value, int | float) and math.isfinite(value)


def _has_sum(expression: Expression, tags: Tags) -> bool:
    """Whether a value that may get better is part of a sum of FLOAT or DOUBLE."""
    sums = (e for e in walk(expression) if isinstance(e, Call) and e.function in ("+", "-"))
    return any(_is_approximate(e) and any(tags[i] for i in inputs_of(e)) for e in sums)


def _of_parts(parts: list[int | None]) -> int | None:
    if None in parts:
        return None
    kinds = {*parts} - {KEY}
    return (kinds.pop() if kinds else KEY) if len(kinds) <= 1 else None
