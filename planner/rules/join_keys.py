"""Compute the sides of an equality below the join, so that every equi-join key is a column."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlstream import types as sql
from sqlstream.expressions import (
    AggregateCall,
    Call,
    Expression,
    InputRef,
    conjunction,
    conjuncts,
    inputs_of,
    references,
    remap,
    substitute,
    walk,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.join_condition import equality_sides
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.rules.correlated_conditions import selected
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.types import BOOLEAN, LogicalType, is_interval, is_timestamp


def project_join_keys(node: plan.RelationalNode) -> plan.RelationalNode:
    """`f(left) = g(right)` becomes an equality of two columns that Projects below the join compute.

    Equalities of times that are moved by intervals stay unchanged: an interval join reads `a = b + INTERVAL …` as bounds. For
    other joins of streams the sides are computed when it is known that they are none (physical/join_condition.py).
    """
    if not isinstance(node, plan.Join) or node.condition is None:
        return node
    return with_projected_keys(node, has_bounds=not isinstance(node, plan.LookupJoin | plan.SnapshotJoin))


def with_projected_keys(node: plan.Join, has_bounds: bool) -> plan.RelationalNode:
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


def _is_moved_time(side: Expression) -> bool:
    """Whether a side is a time as an interval join reads it: a column, perhaps moved, perhaps of another precision."""
    nodes = list(walk(side))
    return all(is_timestamp(node.type) for node in nodes if isinstance(node, InputRef)) and all(
        node.function in ("CAST", "+", "-") for node in nodes if isinstance(node, Call)
    )


def _is_column_pair(sides: tuple[Expression, Expression]) -> bool:
    return isinstance(sides[0], InputRef) and isinstance(sides[1], InputRef)


def _with_computed(
    join: plan.Join, left: tuple[Expression, ...], right: tuple[Expression, ...]
) -> plan.RelationalNode:
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
    return plan.Project(schema=join.schema, span=join.span, input=wide, expressions=back)


def _wide_schema(join: plan.Join, left: tuple[Expression, ...], right: tuple[Expression, ...]) -> Schema:
    left_count = len(join.left.schema)
    fields = join.schema.fields
    if join.kind.is_left_only:
        return Schema(fields + _key_fields(left))
    return Schema(fields[:left_count] + _key_fields(left) + fields[left_count:] + _key_fields(right))


def _key_fields(keys: tuple[Expression, ...]) -> tuple[Field, ...]:
    return tuple(
        Field(f"$key{i}", k.type.without_time_attribute().with_nullable(True)) for i, k in enumerate(keys)
    )


def _append(node: plan.RelationalNode, keys: tuple[Expression, ...], offset: int) -> plan.RelationalNode:
    if not keys:
        return node
    own = references(node.schema.types)
    shift = {offset + i: i for i in range(len(own))}
    schema = Schema(node.schema.fields + _key_fields(keys))
    return plan.Project(
        schema=schema, span=node.span, input=node, expressions=own + tuple(remap(k, shift) for k in keys)
    )


# RIGHT JOIN is LEFT JOIN with the sides swapped.


def turn_right_join(node: plan.RelationalNode) -> plan.RelationalNode:
    """A RIGHT b becomes b LEFT a under a Project that restores the order of the columns."""
    if not isinstance(node, plan.Join) or node.kind is not JoinKind.RIGHT:
        return node
    left_count, right_count = len(node.left.schema), len(node.right.schema)
    moved = {i: right_count + i for i in range(left_count)}
    moved |= {left_count + i: i for i in range(right_count)}
    fields = node.schema.fields
    swapped = dataclasses.replace(
        node,
        left=node.right,
        right=node.left,
        kind=JoinKind.LEFT,
        ttls_ms=(node.ttls_ms[1], node.ttls_ms[0]),
        condition=None if node.condition is None else remap(node.condition, moved),
        schema=Schema(fields[left_count:] + fields[:left_count]),
    )
    back = tuple(InputRef(moved[i], fields[i].type) for i in range(left_count + right_count))
    return plan.Project(schema=node.schema, span=node.span, input=swapped, expressions=back)


# Join tables that are equated before those that are not: FROM a, b, c joins a with b first, whatever WHERE says of
# them.


def join_equated_first(node: plan.RelationalNode) -> plan.RelationalNode:
    """`(a CROSS JOIN b) JOIN c ON a.x = c.x AND …` becomes `(a JOIN c ON a.x = c.x) JOIN b ON …`; the same with b in the place of
    a. All pairs of a and b would be kept otherwise. A join with any condition stays, which may be by time."""
    if not _is_plain_inner(node):
        return node
    assert isinstance(node, plan.Join)
    inner, columns = _renamed(node.left)
    if not _is_plain_inner(inner):
        return node
    assert isinstance(inner, plan.Join)
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
    joined = plan.Join(
        left=early,
        right=c,
        kind=JoinKind.INNER,
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
    return plan.Project(schema=node.schema, span=node.span, input=whole, expressions=back)


def _is_plain_inner(node: plan.RelationalNode) -> bool:
    return type(node) is plan.Join and node.kind is JoinKind.INNER and node.ttls_ms == (None, None)


def _renamed(node: plan.RelationalNode) -> tuple[plan.RelationalNode, tuple[Expression, ...]]:
    """What is below a projection that computes nothing, and the columns of `node` as columns of that."""
    if isinstance(node, plan.Project) and all(isinstance(e, InputRef) for e in node.expressions):
        return node.input, node.expressions
    return node, references(node.schema.types)


def _equates(part: Expression, one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether the condition is an equality of an expression over the columns `one` and an expression over `other`."""
    if not inputs_of(part) <= one | other:
        return False
    # Numbered with `one` first.
    places = {column: i for i, column in enumerate([*sorted(one), *sorted(other)])}
    return equality_sides(remap(part, places), len(one)) is not None


# Arrays, maps and rows as keys of a stream: it groups, partitions and joins by encodings, which are equal where the
# values are.
#
# A batch engine compares the values themselves.


ENCODED = "KEY_BYTES"
_EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def encode_nested_keys(node: plan.RelationalNode) -> plan.RelationalNode:
    """The node with encodings in place of its nested keys, and with the columns that it has."""
    match node:
        case plan.Aggregate():
            return _aggregate(node)
        case plan.Rank() | plan.Window():
            return _partitioned(node)
        case plan.Filter():
            condition = _encoded_equalities(node.condition)
            return node if condition is node.condition else dataclasses.replace(node, condition=condition)
        case plan.Join() if type(node) is plan.Join and node.condition is not None:
            condition = _encoded_equalities(node.condition)
            return node if condition is node.condition else dataclasses.replace(node, condition=condition)
        case _:
            return node


def _aggregate(node: plan.Aggregate) -> plan.RelationalNode:
    """One value of each nested key is kept beside the group, whose rows all have it."""
    nested = _nested(node.input, node.keys)
    if not nested:
        return node
    source, places = _with_encodings(node.input, nested)
    count, fields = len(node.keys), node.schema.fields
    keys = tuple(places.get(k, k) for k in node.keys)
    firsts = {k: count + len(node.calls) + i for i, k in enumerate(nested)}
    types = {k: node.schema.types[node.keys.index(k)] for k in nested}
    calls = tuple(AggregateCall("FIRST_VALUE", (k,), types[k]) for k in nested)
    made = dataclasses.replace(
        node,
        input=source,
        keys=keys,
        calls=(*node.calls, *calls),
        schema=Schema(
            (
                *(
                    source.schema.fields[new] if new != old else fields[i]
                    for i, (old, new) in enumerate(zip(node.keys, keys, strict=True))
                ),
                *fields[count:],
                *(Field(f"$value{i}", types[k]) for i, k in enumerate(nested)),
            )
        ),
    )
    columns = [*(firsts.get(k, i) for i, k in enumerate(node.keys)), *range(count, len(fields))]
    values = references(made.schema.types, columns)
    return plan.Project(input=made, expressions=values, schema=node.schema, span=node.span)


def _partitioned(node: plan.Rank | plan.Window) -> plan.RelationalNode:
    nested = _nested(node.input, node.partition_keys)
    if not nested:
        return node
    source, places = _with_encodings(node.input, nested)
    width, behind = len(node.input.schema), len(source.schema)
    schema = Schema((*source.schema.fields, *node.schema.fields[width:]))
    keys = tuple(places.get(k, k) for k in node.partition_keys)
    made = dataclasses.replace(node, input=source, partition_keys=keys, schema=schema)
    return selected(made, [*range(width), *range(behind, len(schema))])


def _encoded_equalities(condition: Expression) -> Expression:
    """A condition that is TRUE for the same rows."""
    before = conjuncts(condition)
    parts = [part for c in before for part in _encoded_equality(c)]
    # TRUE has no parts.
    return condition if tuple(parts) == before else conjunction(parts) or condition


def _encoded_equality(part: Expression) -> list[Expression]:
    if not isinstance(part, Call) or part.function not in _EQUALITIES or not _is_nested(part.args[0].type):
        return [part]
    equal = Call("=", tuple(_encoding(a) for a in part.args), BOOLEAN.not_null(), part.span)
    if part.function != "=" or not all(a.type.nullable for a in part.args):
        return [equal]
    # Equal values are both NULL, or none is.
    return [equal, Call("IS NOT NULL", (part.args[1],), BOOLEAN.not_null(), part.span)]


def _encoding(value: Expression) -> Expression:
    return Call(ENCODED, (value,), sql.BYTES.not_null())


def _with_encodings(
    node: plan.RelationalNode, columns: Sequence[int]
) -> tuple[plan.RelationalNode, dict[int, int]]:
    """The columns of `node`, then the encodings of these, and where that of each is."""
    width, types = len(node.schema), node.schema.types
    own = references(types)
    fields = tuple(Field(f"$key{i}", sql.BYTES.not_null()) for i in range(len(columns)))
    made = plan.Project(
        input=node,
        expressions=(*own, *(_encoding(own[c]) for c in columns)),
        schema=Schema((*node.schema.fields, *fields)),
        span=node.span,
    )
    return made, {c: width + i for i, c in enumerate(columns)}


def _nested(node: plan.RelationalNode, columns: Sequence[int]) -> list[int]:
    return [c for c in dict.fromkeys(columns) if _is_nested(node.schema.types[c])]


def _is_nested(t: LogicalType) -> bool:
    return t.root in sql.CONSTRUCTED_ROOTS
