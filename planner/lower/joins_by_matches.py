"""Joins for an engine that calls no hosted function of both sides in the condition of any but an inner join.

The rows that match are an inner join, whose condition the engine computes as a filter. A row of one side has a match when some
matching row has the same values in the columns that the condition reads:

    a LEFT JOIN b ON f(a.x, b.y)    m:  a INNER JOIN b ON f(a.x, b.y)
                                    m  UNION ALL  a without those whose x is in m, with NULL for the columns of b
    x IN, EXISTS (SEMI)             a whose x is in m
    NOT EXISTS (ANTI)               a whose x is not in m
"""

from __future__ import annotations

from sqlstream.errors import ErrorsAt
from sqlstream.expressions import Call, Expression, InputRef, Literal, conjunction, conjuncts, inputs_of, walk
from sqlstream.planner.lower.engine import EngineDialect, is_volatile
from sqlstream.planner.lower.expression import calls_over_both
from sqlstream.planner.lower.native import holds_map
from sqlstream.planner.relational.nodes import Join, Project, RelationalNode, Union
from sqlstream.specs.join import JoinKind
from sqlstream.types import APPROXIMATE_ROOTS, BOOLEAN, STRING, LogicalType


def join_by_matches(node: RelationalNode, engine: EngineDialect) -> RelationalNode:
    """The join as an inner one and what follows from its rows, where its condition calls a hosted function of both sides.

    The node as it is where its condition has another value each time, reads a MAP, which no engine compares, or reads numbers
    within an ARRAY or ROW that are equal and have different texts (see `_same`)."""
    if not isinstance(node, Join) or node.kind is JoinKind.INNER or node.condition is None:
        return node
    width = len(node.left.schema)
    with ErrorsAt(node.span):
        of_both = calls_over_both(conjuncts(node.condition), engine, width)
    if not of_both:
        return node
    if any(is_volatile(part) for part in walk(node.condition)):
        return node
    both = node.left.schema.concat(node.right.schema)
    read = [InputRef(i, both.types[i]) for i in sorted(inputs_of(node.condition))]
    if any(holds_map(c.type) or any(map(_holds_approximate, c.type.parts)) for c in read):
        return node
    matches = Join(
        left=node.left,
        right=node.right,
        kind=JoinKind.INNER,
        condition=node.condition,
        schema=both,
        span=node.span,
    )
    of_left, of_right = ([c for c in read if (c.index < width) is side] for side in (True, False))
    if node.kind.is_left_only:
        return _by_match(node.left, matches, of_left, 0, node.kind)
    branches: list[RelationalNode] = [matches]
    if node.kind.pads(0):
        lonely = _by_match(node.left, matches, of_left, 0, JoinKind.ANTI)
        branches.append(_padded(lonely, node, 0))
    if node.kind.pads(1):
        lonely = _by_match(node.right, matches, of_right, width, JoinKind.ANTI)
        branches.append(_padded(lonely, node, width))
    return Union(branches=tuple(branches), schema=node.schema, span=node.span)


def _by_match(
    side: RelationalNode, matches: Join, read: list[InputRef], first: int, kind: JoinKind
) -> RelationalNode:
    """The rows of a side, whose columns begin at `first` in `matches`, that are among them (SEMI) or not (ANTI)."""
    keys = Project(
        input=matches,
        expressions=tuple(read),
        schema=matches.schema.select(tuple(c.index for c in read)),
        span=matches.span,
    )
    width = len(side.schema)
    same = [
        _same(InputRef(c.index - first, c.type), InputRef(width + place, c.type))
        for place, c in enumerate(read)
    ]
    return Join(
        left=side, right=keys, kind=kind, condition=conjunction(same), schema=side.schema, span=matches.span
    )


def _same(a: InputRef, b: InputRef) -> Expression:
    """Whether no function can tell the values apart: 0.0 and -0.0 are equal and have different texts."""
    sides: tuple[Expression, Expression] = (a, b)
    if a.type.root in APPROXIMATE_ROOTS:
        text = STRING.with_nullable(a.type.nullable)
        sides = (Call("CAST", (a,), text), Call("CAST", (b,), text))
    return Call("IS NOT DISTINCT FROM", sides, BOOLEAN.not_null())


def _padded(lonely: RelationalNode, join: Join, first: int) -> RelationalNode:
    """Rows of the side whose columns begin at `first` of the join, with NULL for the others."""
    count = len(lonely.schema)
    columns = tuple(
        InputRef(i - first, lonely.schema.types[i - first]) if 0 <= i - first < count else Literal(None, t)
        for i, t in enumerate(join.schema.types)
    )
    return Project(input=lonely, expressions=columns, schema=join.schema, span=join.span)


def _holds_approximate(t: LogicalType) -> bool:
    return t.root in APPROXIMATE_ROOTS or any(map(_holds_approximate, t.parts))
