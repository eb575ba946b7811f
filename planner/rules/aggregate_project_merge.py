"""Merge a projection of references into the aggregation above it, with the keys in canonical order."""

from __future__ import annotations

import dataclasses

import msgspec

from sqlstream.expressions import InputRef
from sqlstream.planner.relational.nodes import Aggregate, Project, RelationalNode
from sqlstream.schema import Schema


def merge_project_into_aggregate(node: RelationalNode) -> RelationalNode:
    """Aggregate(Project of references(x)) becomes Aggregate(x) with ascending keys and without repeated keys and calls.

    Equal aggregations that were written with other column orders or aliases become equal nodes, which run once.
    """
    if not isinstance(node, Aggregate):
        return node
    through = node
    inner = node.input
    if isinstance(inner, Project) and all(isinstance(e, InputRef) for e in inner.expressions):
        through = _renumber(
            node, [e.index for e in inner.expressions if isinstance(e, InputRef)], inner.input
        )
    return _canonical(through)


def _renumber(node: Aggregate, columns: list[int], source: RelationalNode) -> Aggregate:
    calls = tuple(
        msgspec.structs.replace(
            c, args=tuple(columns[a] for a in c.args), filter=columns[c.filter] if c.filter >= 0 else -1
        )
        for c in node.calls
    )
    return dataclasses.replace(node, input=source, keys=tuple(columns[k] for k in node.keys), calls=calls)


def _canonical(node: Aggregate) -> RelationalNode:
    keys = tuple(sorted(set(node.keys)))
    calls = tuple(dict.fromkeys(node.calls))
    if keys == node.keys and calls == node.calls:
        return node
    key_fields = tuple(node.schema.fields[node.keys.index(k)] for k in keys)
    call_fields = tuple(node.schema.fields[len(node.keys) + node.calls.index(c)] for c in calls)
    aggregate = dataclasses.replace(node, keys=keys, calls=calls, schema=Schema(key_fields + call_fields))
    places = [keys.index(k) for k in node.keys] + [len(keys) + calls.index(c) for c in node.calls]
    expressions = tuple(InputRef(p, aggregate.schema.fields[p].type) for p in places)
    return Project(schema=node.schema, span=node.span, input=aggregate, expressions=expressions)
