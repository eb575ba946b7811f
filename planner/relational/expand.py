"""Rows once per grouping set (Flink: LogicalExpand)."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Field, Schema
from sqlstream.specs.calc import ExpandSpec
from sqlstream.types import INT

EXPAND_ID = Field("$e", INT.not_null())


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Expand(base.SingleInputNode):
    """Each input row once per set, with NULL in those of the columns `grouped` that are not in the set. The last column is the
    number of the set, from 0."""

    grouped: tuple[int, ...]
    sets: tuple[frozenset[int], ...]

    @staticmethod
    def over(
        input: base.RelationalNode, grouped: tuple[int, ...], sets: tuple[frozenset[int], ...]
    ) -> Expand:
        fields = tuple(
            Field(f.name, f.type.with_nullable(True)) if i in grouped else f
            for i, f in enumerate(input.schema.fields)
        )
        schema = Schema((*fields, EXPAND_ID))
        return Expand(input=input, grouped=grouped, sets=sets, schema=schema, span=input.span)

    def describe(self) -> str:
        sets = ", ".join("{" + base.columns_text(sorted(s)) + "}" for s in self.sets)
        return f"grouped=[{base.columns_text(self.grouped)}], sets=[{sets}]"

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        own = len(self.input.schema)
        below = frozenset(c for c in wanted if c < own) or base.one_column(self.input.schema)
        source = pruning.exactly(self.input, below, time)
        places = base.places_of(tuple(sorted(below)))
        grouped = tuple(places[c] for c in self.grouped if c in places)
        sets = tuple(frozenset(places[c] for c in s if c in places) for s in self.sets)
        schema = self.schema.select((*sorted(below), own))
        return base.over_input(self, source, schema=schema, grouped=grouped, sets=sets), places | {
            own: len(below)
        }

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        """Conditions on the columns that all sets have."""
        return [base.of_columns(conditions, set(range(len(self.input.schema))) - {*self.grouped})]

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return None if column in self.grouped else self.copied(column)


# GROUPING SETS, CUBE and ROLLUP: rows once per set, before the aggregation.


def plan_expand(planning: Planning, inputs: Inputs, node: Expand) -> PhysicalNode:
    """In the chain of its input. The columns that every set has keep what is known of them."""
    source = inputs[0]
    sets = tuple(tuple(sorted(s)) for s in node.sets)
    shown = ", ".join(describe_columns(s, source.schema) for s in sets)
    return planning.node(
        "Expand",
        ExpandSpec(node.grouped, sets),
        over(source),
        node.schema,
        _expanded_traits(source.traits, node),
        describe("Expand", sets=f"[{shown}]"),
        node.span,
    )


def _expanded_traits(below: Traits, node: Expand) -> Traits:
    width = len(node.input.schema)
    kept = {c: frozenset({c}) for c in range(width) if c not in node.grouped}
    moved = below.projected(kept)
    # A row and its copies differ in the number of the set.
    keys = frozenset(key | {width} for key in moved.keys)
    return dataclasses.replace(
        moved, keys=keys, moving_keys=frozenset(), is_single_row_per_window=False, row_watermark_column=-1
    )
