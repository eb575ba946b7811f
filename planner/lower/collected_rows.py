"""Arrays of rows whose order does not show, since all that reads them puts them in order."""

from __future__ import annotations

from collections.abc import Mapping

from planner.relational.aggregate import Aggregate
from planner.relational.calc import Filter, Project
from planner.relational.node import RelationalNode
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, inputs_of

ORDERING = frozenset({"ORDERED_ARRAY", "ORDERED_LIST"})
"""Functions of an array and an order, which the array itself may not have."""


def collected_calls(nodes: Mapping[RelationalNode, int]) -> frozenset[tuple[Aggregate, AggregateCall]]:
    """The calls of ARRAY_AGG (WITHIN GROUP) that nothing but ORDERING reads. `nodes` is a plan with the number of readers of
    each node."""
    found = set()
    for node in nodes:
        if not isinstance(node, Project):
            continue
        below, filtered = node.input, set[int]()
        while isinstance(below, Filter) and nodes[below] == 1:
            filtered |= inputs_of(below.condition)
            below = below.input
        if not isinstance(below, Aggregate) or nodes[below] > 1:
            continue
        read = filtered.union(*(_read_otherwise(e) for e in node.expressions))
        for place, call in enumerate(below.calls, len(below.keys)):
            if call.function == "ARRAY_AGG" and place not in read:
                found.add((below, call))
    return frozenset(found)


def _read_otherwise(expression: Expression) -> set[int]:
    """The columns that are read, but for what ORDERING puts in order."""
    if isinstance(expression, InputRef):
        return {expression.index}
    if not isinstance(expression, Call):
        return set()
    is_ordered = expression.function in ORDERING and isinstance(expression.args[0], InputRef)
    return set[int]().union(*map(_read_otherwise, expression.args[1:] if is_ordered else expression.args))
