"""What nodes need to narrow themselves to the columns that are read (see sqlstream.planner.rules.column_pruning)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from sqlstream.expressions import Call, Expression, InputRef, SortKey, walk
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot, is_numeric, is_rowtime

if TYPE_CHECKING:
    from sqlstream.planner.relational.node import RelationalNode

    Trimmed = tuple[RelationalNode, dict[int, int]]
    """A node with at least the wanted columns, and the map from old to new column numbers."""

Columns = frozenset[int]


class Pruning(Protocol):
    """One walk over a statement set. Equal requests get the same node."""

    def trim(self, node: RelationalNode, wanted: Columns, time: bool) -> Trimmed:
        """`node` with at least the wanted columns. `time`: an operator above needs the watermark of this input."""

    def exactly(self, node: RelationalNode, wanted: Columns, time: bool) -> RelationalNode:
        """`node` with exactly the wanted columns in ascending order, as before an exchange."""


def places_of(kept: tuple[int, ...]) -> dict[int, int]:
    """Where columns are when only `kept` are left, in this order."""
    return {old: new for new, old in enumerate(kept)}


def over_input(node: RelationalNode, source: RelationalNode, **changes: object) -> RelationalNode:
    """A node of one input over `source`, whose schema it has unless `changes` gives one."""
    changes.setdefault("schema", source.schema)
    return dataclasses.replace(node, input=source, **changes)  # type: ignore[call-arg,arg-type]


def one_column(schema: Schema) -> Columns:
    """The cheapest column: a batch without columns has no number of rows."""

    def cost(item: tuple[int, LogicalType]) -> int:
        return 0 if is_numeric(item[1]) and item[1].root is not TypeRoot.DECIMAL else 1

    return frozenset({min(enumerate(schema.types), key=cost)[0]})


def moved_order(order: tuple[SortKey, ...], places: dict[int, int]) -> tuple[SortKey, ...]:
    return tuple(msgspec.structs.replace(k, column=places[k.column]) for k in order)


def marked(schema: Schema, column: int, time: LogicalType) -> Schema:
    """The schema with `column` of type `time`."""
    field = msgspec.structs.replace(schema.fields[column], type=time)
    return Schema((*schema.fields[:column], field, *schema.fields[column + 1 :]))


def reads_watermark(expressions: Iterable[Expression]) -> bool:
    return any(
        isinstance(n, Call) and n.function == "CURRENT_WATERMARK"
        for expression in expressions
        for n in walk(expression)
    )


def reads_time(expression: Expression) -> bool:
    """Whether it reads a row time."""
    return any(isinstance(n, InputRef) and is_rowtime(n.type) for n in walk(expression))
