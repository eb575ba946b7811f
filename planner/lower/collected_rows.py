"""Arrays of rows whose order does not show, since all that reads them puts them in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlstream.expressions import AggregateCall, Call, Expression, InputRef
from sqlstream.planner.relational.aggregate import Aggregate
from sqlstream.planner.relational.calc import Filter, Project
from sqlstream.planner.relational.node import RelationalNode

ORDERING = frozenset({"ORDERED_ARRAY", "ORDERED_LIST"})
"""Functions of an array and an order, which the array itself may not have."""


def collected_calls(nodes: Iterable[RelationalNode]) -> frozenset[tuple[Aggregate, AggregateCall]]:
    """The calls of ARRAY_AGG (WITHIN GROUP) that nothing but ORDERING reads, of all nodes of a plan."""
    readers: dict[RelationalNode, list[RelationalNode]] = {}
    for node in nodes:
        for input in node.inputs:
            readers.setdefault(input, []).append(node)
    found = set()
    for node in readers:
        if isinstance(node, Aggregate) and any(call.function == "ARRAY_AGG" for call in node.calls):
            read = _shown(node, readers)
            for place, call in enumerate(node.calls, len(node.keys)):
                if call.function == "ARRAY_AGG" and place not in read:
                    found.add((node, call))
    return frozenset(found)


def _shown(node: RelationalNode, readers: Mapping[RelationalNode, list[RelationalNode]]) -> set[int]:
    """The columns of a node that are read, but for what ORDERING puts in order."""
    read = set[int]() if node in readers else set(range(len(node.schema)))
    for reader in readers.get(node, ()):
        if isinstance(reader, Project):
            read = read.union(*map(_read_otherwise, reader.expressions))
        elif isinstance(reader, Filter):
            read |= _read_otherwise(reader.condition) | _shown(reader, readers)
        else:
            read |= set(range(len(node.schema)))
    return read


def _read_otherwise(expression: Expression) -> set[int]:
    """The columns that are read, but for what ORDERING puts in order."""
    if isinstance(expression, InputRef):
        return {expression.index}
    if not isinstance(expression, Call):
        return set()
    is_ordered = expression.function in ORDERING and isinstance(expression.args[0], InputRef)
    return set[int]().union(*map(_read_otherwise, expression.args[1:] if is_ordered else expression.args))
