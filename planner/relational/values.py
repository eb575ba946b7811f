"""Literal rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import Literal, LiteralValue
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.relational.node import Pruning, RelationalNode, Trimmed, places_of
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs import ValuesSpec
from sqlstream.types import is_rowtime

Row = tuple[LiteralValue, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Values(RelationalNode):
    """Literal rows (encoding of `Literal.value`)."""

    rows: tuple[Row, ...]

    def describe(self) -> str:
        rows = (
            "(" + ", ".join(str(Literal(v, t)) for v, t in zip(row, self.schema.types, strict=True)) + ")"
            for row in self.rows
        )
        return f"rows=[{', '.join(rows)}]"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        kept = tuple(sorted(wanted))
        if len(kept) == len(self.schema):
            return self, places_of(kept)
        rows = tuple(_chosen(self.rows, kept))
        return dataclasses.replace(self, rows=rows, schema=self.schema.select(kept)), places_of(kept)


def _chosen(rows: tuple[Row, ...], kept: tuple[int, ...]) -> Iterator[Row]:
    for row in rows:
        check_not_given_up()
        yield tuple(row[i] for i in kept)


# Literal rows.


def plan_values(planning: Planning, inputs: Inputs, node: Values) -> PhysicalNode:
    """Literal rows, emitted by one subtask. No row is behind the watermark where there is none."""
    times = frozenset(i for i, t in enumerate(node.schema.types) if not node.rows and is_rowtime(t))
    description = describe("Values", rows=str(len(node.rows)), fields=f"[{', '.join(node.schema.names)}]")
    return planning.node(
        "Source: Values",
        ValuesSpec(rows=node.rows),
        (),
        node.schema,
        Traits(times=times),
        description,
        node.span,
        parallelism=1,
    )
