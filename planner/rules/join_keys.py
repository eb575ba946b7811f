"""Compute the sides of an equality below the join, so that every equi-join key is a column."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    conjunction,
    conjuncts,
    inputs_of,
    remap,
    walk,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Join, LookupJoin, Project, RelationalJoinKind, RelationalNode
from sqlstream.schema import Field, Schema
from sqlstream.types import is_interval, is_timestamp


def project_join_keys(node: RelationalNode) -> RelationalNode:
    """`f(left) = g(right)` becomes an equality of two columns that Projects below the join compute.

    Equalities of times that are moved by intervals stay unchanged: an interval join reads `a = b + INTERVAL …` as bounds, and
    for other joins of streams their sides are computed when it is known that they are none (physical/computed_keys.py).
    """
    if not isinstance(node, Join) or node.condition is None:
        return node
    return with_projected_keys(node, has_bounds=not isinstance(node, LookupJoin))


def with_projected_keys(node: Join, has_bounds: bool) -> RelationalNode:
    """The same for one join; without bounds, an equality of moved times is one like any other."""
    left_count = len(node.left.schema)
    extra_left: list[Expression] = []
    extra_right: list[Expression] = []
    for part in conjuncts(node.condition):
        sides = equality_sides(part, left_count)
        if (
            sides is None
            or _is_column_pair(sides)
            or (has_bounds and all(map(_is_moved_time, sides)))
            or is_interval(sides[0].type)
        ):
            continue
        if not is_deterministic(*sides):
            continue
        extra_left += [s for s in sides[:1] if not isinstance(s, InputRef) and s not in extra_left]
        extra_right += [s for s in sides[1:] if not isinstance(s, InputRef) and s not in extra_right]
    if not extra_left and not extra_right:
        return node
    return _with_computed(node, tuple(extra_left), tuple(extra_right))


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


def _is_moved_time(side: Expression) -> bool:
    """Whether a side is a time as an interval join reads it: a column, perhaps moved, perhaps of another precision."""
    nodes = list(walk(side))
    return all(is_timestamp(node.type) for node in nodes if isinstance(node, InputRef)) and all(
        node.function in ("CAST", "+", "-") for node in nodes if isinstance(node, Call)
    )


def _is_column_pair(sides: tuple[Expression, Expression]) -> bool:
    return isinstance(sides[0], InputRef) and isinstance(sides[1], InputRef)


def _with_computed(join: Join, left: tuple[Expression, ...], right: tuple[Expression, ...]) -> RelationalNode:
    left_count, right_count = len(join.left.schema), len(join.right.schema)
    new_left = _append(join.left, left, 0)
    new_right = _append(join.right, right, left_count)
    moved = {i: i for i in range(left_count)}
    moved |= {left_count + i: len(new_left.schema) + i for i in range(right_count)}
    parts: list[Expression] = []
    for part in conjuncts(join.condition):
        sides = equality_sides(part, left_count)
        if sides is not None and (sides[0] in left or sides[1] in right):
            first, second = sides
            a = InputRef(left_count + left.index(first), first.type) if first in left else first
            if second in right:
                b: Expression = InputRef(
                    len(new_left.schema) + right_count + right.index(second), second.type
                )
            else:
                b = remap(second, moved)
            parts.append(Call("=", (a, b), part.type, part.span if isinstance(part, Call) else None))
        else:
            parts.append(remap(part, moved))
    wide = dataclasses.replace(
        join,
        left=new_left,
        right=new_right,
        condition=conjunction(parts),
        schema=_wide_schema(join, left, right),
    )
    back = tuple(InputRef(moved[i], f.type) for i, f in enumerate(join.schema.fields))
    return Project(schema=join.schema, span=join.span, input=wide, expressions=back)


def _wide_schema(join: Join, left: tuple[Expression, ...], right: tuple[Expression, ...]) -> Schema:
    left_count = len(join.left.schema)
    fields = join.schema.fields
    if join.kind in (RelationalJoinKind.SEMI, RelationalJoinKind.ANTI):
        return Schema(fields + _key_fields(left))
    return Schema(fields[:left_count] + _key_fields(left) + fields[left_count:] + _key_fields(right))


def _key_fields(keys: tuple[Expression, ...]) -> tuple[Field, ...]:
    return tuple(
        Field(f"$key{i}", k.type.without_time_attribute().with_nullable(True)) for i, k in enumerate(keys)
    )


def _append(node: RelationalNode, keys: tuple[Expression, ...], offset: int) -> RelationalNode:
    if not keys:
        return node
    own = tuple(InputRef(i, f.type) for i, f in enumerate(node.schema.fields))
    shift = {offset + i: i for i in range(len(own))}
    schema = Schema(node.schema.fields + _key_fields(keys))
    return Project(
        schema=schema, span=node.span, input=node, expressions=own + tuple(remap(k, shift) for k in keys)
    )
