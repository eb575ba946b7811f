"""Arrays, maps and rows as keys of a stream: it groups, partitions and joins by encodings, which are equal where the values are.

A batch engine compares the values themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, conjunction, conjuncts
from sqlstream.planner.relational.nodes import Aggregate, Filter, Join, Project, Rank, RelationalNode, Window
from sqlstream.planner.rules.correlated_conditions import selected
from sqlstream.schema import Field, Schema
from sqlstream.types import BOOLEAN, LogicalType

ENCODED = "KEY_BYTES"
_EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def encode_nested_keys(node: RelationalNode) -> RelationalNode:
    """The node with encodings in place of its nested keys, and with the columns that it has."""
    match node:
        case Aggregate():
            return _aggregate(node)
        case Rank() | Window():
            return _partitioned(node)
        case Filter():
            condition = _encoded_equalities(node.condition)
            return node if condition is node.condition else dataclasses.replace(node, condition=condition)
        case Join() if type(node) is Join and node.condition is not None:
            condition = _encoded_equalities(node.condition)
            return node if condition is node.condition else dataclasses.replace(node, condition=condition)
        case _:
            return node


def _aggregate(node: Aggregate) -> RelationalNode:
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
    values = tuple(InputRef(c, made.schema.types[c]) for c in columns)
    return Project(input=made, expressions=values, schema=node.schema, span=node.span)


def _partitioned(node: Rank | Window) -> RelationalNode:
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


def _with_encodings(node: RelationalNode, columns: Sequence[int]) -> tuple[RelationalNode, dict[int, int]]:
    """The columns of `node`, then the encodings of these, and where that of each is."""
    width, types = len(node.schema), node.schema.types
    own = tuple(InputRef(i, t) for i, t in enumerate(types))
    fields = tuple(Field(f"$key{i}", sql.BYTES.not_null()) for i in range(len(columns)))
    made = Project(
        input=node,
        expressions=(*own, *(_encoding(own[c]) for c in columns)),
        schema=Schema((*node.schema.fields, *fields)),
        span=node.span,
    )
    return made, {c: width + i for i, c in enumerate(columns)}


def _nested(node: RelationalNode, columns: Sequence[int]) -> list[int]:
    return [c for c in dict.fromkeys(columns) if _is_nested(node.schema.types[c])]


def _is_nested(t: LogicalType) -> bool:
    return t.root in sql.CONSTRUCTED_ROOTS
