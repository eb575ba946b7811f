"""Which rows of the tables a row of a result was made of, as queries over these tables.

A row of a result is known by the values of some of its columns. Each node hands conditions on its output down to its inputs as
far as it can: those on grouping keys pass an aggregate, those on partition keys a Top-N, those on columns of one side a join
(and its other side too, through an equality), and a window's bounds become bounds of time. What arrives at a scan selects the
rows that contributed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from sqlstream import types as sql
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.planner.relational.nodes import RelationalNode, TableScan
from sqlstream.planner.relational.tracing import EQUAL, Condition
from sqlstream.types import BOOLEAN


@dataclasses.dataclass(frozen=True)
class ContributingRows:
    """The rows of one scan that contribute, where `conditions` hold. Without any of the key they could not be told apart."""

    scan: TableScan
    conditions: tuple[Condition, ...]

    @property
    def is_traced(self) -> bool:
        return any(condition.is_of_key for condition in self.conditions)


def key_conditions(schema_types: tuple[sql.LogicalType, ...], values: dict[int, Literal]) -> list[Condition]:
    """Conditions on a result: its columns have these values."""
    return [
        Condition(Call(EQUAL, (InputRef(column, schema_types[column]), value), BOOLEAN.not_null()), True)
        for column, value in values.items()
    ]


def contributing_rows(
    node: RelationalNode, conditions: Iterable[Condition], seen_max: int
) -> tuple[ContributingRows, ...]:
    """What each scan below `node` contributes to the rows of its output where `conditions` hold. A table that is read several
    times occurs once for each different set of conditions, and at most `seen_max` in all, since a plan may be large as a tree."""
    found: dict[ContributingRows, None] = {}
    for each in _traced(node, tuple(dict.fromkeys(conditions))):
        found.setdefault(each)
        if len(found) >= seen_max:
            break
    return tuple(found)


def _traced(node: RelationalNode, conditions: tuple[Condition, ...]) -> Iterator[ContributingRows]:
    if isinstance(node, TableScan):
        yield ContributingRows(node, conditions)
        return
    for input, passed in zip(node.inputs, node.passed(conditions), strict=True):
        yield from _traced(input, tuple(dict.fromkeys(passed)))
