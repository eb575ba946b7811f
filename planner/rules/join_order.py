"""Join tables that are equated before those that are not: FROM a, b, c joins a with b first, whatever WHERE says of them."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, conjunction, conjuncts, inputs_of, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Join, Project, RelationalJoinKind, RelationalNode
from sqlstream.planner.rules.join_keys import equality_sides
from sqlstream.schema import Schema


def join_equated_first(node: RelationalNode) -> RelationalNode:
    """`(a CROSS JOIN b) JOIN c ON a.x = c.x AND …` becomes `(a JOIN c ON a.x = c.x) JOIN b ON …`; the same with b in the place of
    a. All pairs of a and b would be kept otherwise. A join with any condition stays, which may be by time."""
    if not _is_plain_inner(node):
        return node
    assert isinstance(node, Join)
    inner, columns = _renamed(node.left)
    if not _is_plain_inner(inner):
        return node
    assert isinstance(inner, Join)
    a, b, c = inner.left, inner.right, node.right
    width_a, width_b, width_c = (len(side.schema) for side in (a, b, c))
    # The conditions over the columns of a, b and c, in this order.
    of_c = tuple(InputRef(width_a + width_b + i, f.type) for i, f in enumerate(c.schema.fields))
    parts = tuple(substitute(p, (*columns, *of_c)) for p in conjuncts(node.condition))
    if conjuncts(inner.condition) or not is_deterministic(*parts):
        return node
    ranges = {"a": range(width_a), "b": range(width_a, width_a + width_b)}
    behind = frozenset(range(width_a + width_b, width_a + width_b + width_c))
    first = next(
        (n for n, r in ranges.items() if any(_equates(p, frozenset(r), behind) for p in parts)), None
    )
    if first is None:
        return node
    early, late = (a, b) if first == "a" else (b, a)
    order = [*ranges[first], *sorted(behind), *ranges["b" if first == "a" else "a"]]
    places = {old: new for new, old in enumerate(order)}
    width = len(early.schema) + width_c
    moved = [remap(p, places) for p in parts]
    below = [p for p in moved if max(inputs_of(p), default=0) < width]
    fields = (*early.schema.fields, *c.schema.fields)
    joined = Join(
        left=early,
        right=c,
        kind=RelationalJoinKind.INNER,
        condition=conjunction(below),
        schema=Schema(fields),
        span=inner.span,
    )
    whole = dataclasses.replace(
        node,
        left=joined,
        right=late,
        condition=conjunction([p for p in moved if p not in below]),
        schema=Schema((*fields, *late.schema.fields)),
    )
    shown: list[Expression] = [*columns, *of_c]
    back = tuple(remap(e, places) for e in shown)
    return Project(schema=node.schema, span=node.span, input=whole, expressions=back)


def _is_plain_inner(node: RelationalNode) -> bool:
    return type(node) is Join and node.kind is RelationalJoinKind.INNER and node.ttls_ms == (None, None)


def _renamed(node: RelationalNode) -> tuple[RelationalNode, tuple[Expression, ...]]:
    """What is below a projection that computes nothing, and the columns of `node` as columns of that."""
    if isinstance(node, Project) and all(isinstance(e, InputRef) for e in node.expressions):
        return node.input, node.expressions
    return node, tuple(InputRef(i, f.type) for i, f in enumerate(node.schema.fields))


def _equates(part: Expression, one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether the condition is an equality of an expression over the columns `one` and an expression over `other`."""
    if not inputs_of(part) <= one | other:
        return False
    # Numbered with `one` first.
    places = {column: i for i, column in enumerate([*sorted(one), *sorted(other)])}
    return equality_sides(remap(part, places), len(one)) is not None
